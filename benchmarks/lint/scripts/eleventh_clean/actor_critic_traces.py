"""Actor-critic with eligibility traces for both, linear, written in numpy; the softmax's gradient is by hand."""
import gymnasium as gym
import numpy as np

rng = np.random.default_rng(0)
env = gym.make("CartPole-v1")
GAMMA, LAM_W, LAM_TH, A_W, A_TH = 0.99, 0.8, 0.8, 0.02, 0.01
w, theta = np.zeros(9), np.zeros((2, 9))


def features(o):
    z = o / np.array([2.4, 2.0, 0.21, 2.0])
    return np.concatenate([[1.0], z, z**2])


def softmax(h):
    e = np.exp(h - h.max())
    return e / e.sum()


env.reset(seed=0)
lengths = []
for episode in range(400):
    obs, _ = env.reset()
    x = features(obs)
    z_w, z_th = np.zeros_like(w), np.zeros_like(theta)
    discount, over, t = 1.0, False, 0
    while not over:
        p = softmax(theta @ x)
        a = int(rng.random() < p[1])
        obs, r, fallen, late, _ = env.step(a)
        x1 = features(obs)
        delta = r + (0.0 if fallen else GAMMA * w @ x1) - w @ x
        z_w = GAMMA * LAM_W * z_w + x
        grad_log = -np.outer(p, x)
        grad_log[a] += x
        z_th = GAMMA * LAM_TH * z_th + discount * grad_log
        w += A_W * delta * z_w
        theta += A_TH * delta * z_th
        discount *= GAMMA
        x, t, over = x1, t + 1, fallen or late
    lengths.append(t)
    if episode % 80 == 79:
        print(episode + 1, np.mean(lengths[-80:]))
