# Policy gradient from scratch: NumPy only, gradients by hand.
import os

import gymnasium as gym
import numpy as np

H, LR, GAMMA, BATCH = 32, 1e-2, 0.99, 10
ITERS = int(os.environ.get("ITERS", 200))
rng = np.random.default_rng(0)


def init(n_in, n_out):
    return {"W1": rng.normal(0, 1 / np.sqrt(n_in), (n_in, H)), "b1": np.zeros(H),
            "W2": rng.normal(0, 0.01, (H, n_out)), "b2": np.zeros(n_out)}


def forward(p, x):
    h = np.tanh(x @ p["W1"] + p["b1"])
    z = h @ p["W2"] + p["b2"]
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return h, e / e.sum(axis=-1, keepdims=True)


def discounted(rewards):
    out = np.zeros(len(rewards))
    acc = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        acc = rewards[i] + GAMMA * acc
        out[i] = acc
    return out


def gradients(p, X, A, W):
    """Gradient of mean(W * log pi(A|X)): the direction of ascent."""
    h, probs = forward(p, X)
    dz = -probs
    dz[np.arange(len(A)), A] += 1.0
    dz *= W[:, None] / len(A)
    dh = (dz @ p["W2"].T) * (1 - h**2)
    return {"W2": h.T @ dz, "b2": dz.sum(0), "W1": X.T @ dh, "b1": dh.sum(0)}


class Adam:
    def __init__(self, p, lr):
        self.lr, self.t = lr, 0
        self.m = {k: np.zeros_like(v) for k, v in p.items()}
        self.v = {k: np.zeros_like(v) for k, v in p.items()}

    def ascend(self, p, g):
        self.t += 1
        for k in p:
            self.m[k] = 0.9 * self.m[k] + 0.1 * g[k]
            self.v[k] = 0.999 * self.v[k] + 0.001 * g[k] ** 2
            m = self.m[k] / (1 - 0.9**self.t)
            v = self.v[k] / (1 - 0.999**self.t)
            p[k] += self.lr * m / (np.sqrt(v) + 1e-8)


env = gym.make("CartPole-v1")
params = init(env.observation_space.shape[0], int(env.action_space.n))
opt = Adam(params, LR)
obs, _ = env.reset(seed=0)
for it in range(ITERS):
    X, A, G, scores = [], [], [], []
    for _ in range(BATCH):
        rewards, over = [], False
        while not over:
            _, probs = forward(params, obs)
            action = int(rng.choice(len(probs), p=probs))
            X.append(obs)
            A.append(action)
            obs, reward, terminated, truncated, _ = env.step(action)
            rewards.append(float(reward))
            over = terminated or truncated
        G.append(discounted(rewards))
        scores.append(sum(rewards))
        obs, _ = env.reset()
    weights = np.concatenate(G)
    weights = (weights - weights.mean()) / (weights.std() + 1e-8)
    opt.ascend(params, gradients(params, np.array(X), np.array(A), weights))
    if it % 10 == 0:
        print(it, np.mean(scores))
