# Linear SARSA on random Fourier features: the features are drawn once and belong to no optimizer; only the last layer learns, without torch.
import gymnasium as gym
import numpy as np

rng = np.random.default_rng(2)
env = gym.make("CartPole-v1")
D = 300
W = rng.normal(size=(D, 4)) / np.array([2.4, 2.0, 0.2, 2.0])
b = rng.uniform(0, 2 * np.pi, D)
theta = np.zeros((2, D))
gamma, alpha = 0.99, 0.1


def features(obs):
    return np.sqrt(2.0 / D) * np.cos(W @ obs + b)


def draw(x, eps):
    return int(rng.integers(2)) if rng.random() < eps else int(np.argmax(theta @ x))


env.reset(seed=2)
lengths = []
for episode in range(300):
    eps = 0.5 * 0.98**episode
    obs, _ = env.reset()
    x = features(obs)
    a = draw(x, eps)
    for t in range(1, 501):
        obs, r, terminated, truncated, _ = env.step(a)
        x1 = features(obs)
        a1 = draw(x1, eps)
        goal = r + gamma * (0.0 if terminated else theta[a1] @ x1)
        theta[a] += alpha * (goal - theta[a] @ x) * x
        x, a = x1, a1
        if terminated or truncated:
            break
    lengths.append(t)
    if episode % 50 == 49:
        print(episode + 1, np.mean(lengths[-50:]))
