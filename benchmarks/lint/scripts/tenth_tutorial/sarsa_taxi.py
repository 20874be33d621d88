# SARSA(0) and its evaluation on Taxi. Notes for the second lab session.
import gymnasium as gym
import numpy as np

N_EPISODES = 4000
ALPHA = 0.1
GAMMA = 0.98
EPS_MAX, EPS_MIN, EPS_RATE = 1.0, 0.02, 0.0015

rng = np.random.default_rng(42)
env = gym.make("Taxi-v4")
eval_env = gym.make("Taxi-v4")
Q = np.zeros((env.observation_space.n, env.action_space.n))


def epsilon_at(episode):
    return EPS_MIN + (EPS_MAX - EPS_MIN) * np.exp(-EPS_RATE * episode)


def choose(s, eps):
    if rng.random() < eps:
        return int(rng.integers(env.action_space.n))
    return int(np.argmax(Q[s]))


def evaluate(n=20):
    scores = []
    for k in range(n):
        s, _ = eval_env.reset(seed=10_000 + k)
        score, over = 0.0, False
        while not over:
            s, r, terminated, truncated, _ = eval_env.step(int(np.argmax(Q[s])))
            score += r
            over = terminated or truncated
        scores.append(score)
    return np.mean(scores)


history = []
env.reset(seed=42)
for episode in range(N_EPISODES):
    eps = epsilon_at(episode)
    s, _ = env.reset()
    a = choose(s, eps)
    G, over = 0.0, False
    while not over:
        s2, r, terminated, truncated, _ = env.step(a)
        a2 = choose(s2, eps)
        # SARSA: the action that will really be taken, not the best one
        target = r if terminated else r + GAMMA * Q[s2, a2]
        Q[s, a] += ALPHA * (target - Q[s, a])
        s, a = s2, a2
        G += r
        over = terminated or truncated
    history.append(G)
    if (episode + 1) % 500 == 0:
        print(f"episode {episode + 1:5d}  eps {eps:.3f}  train {np.mean(history[-100:]):8.2f}  greedy {evaluate():8.2f}")
