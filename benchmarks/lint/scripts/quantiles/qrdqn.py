"""Quantile regression DQN."""
import copy

import gymnasium as gym
import numpy as np
import torch
from torch import nn

NQ = 32
TAUS = (torch.arange(NQ) + 0.5) / NQ


class Quantiles(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.m = m
        self.net = nn.Sequential(nn.Linear(n, 128), nn.ReLU(), nn.Linear(128, m * NQ))

    def forward(self, s):
        return self.net(s).reshape(-1, self.m, NQ)


class Store:
    def __init__(self, size):
        self.size, self.items, self.i = size, [None] * size, 0

    def put(self, item):
        self.items[self.i % self.size] = item
        self.i += 1

    def get(self, k):
        which = np.random.randint(min(self.i, self.size), size=k)
        return [torch.as_tensor(np.stack(x)).float() for x in zip(*[self.items[w] for w in which])]


def quantile_huber(pred, goal, kappa=1.0):
    diff = goal[:, None, :] - pred[:, :, None]
    huber = torch.where(diff.abs() <= kappa, 0.5 * diff**2, kappa * (diff.abs() - 0.5 * kappa))
    weight = (TAUS[None, :, None] - (diff.detach() < 0).float()).abs()
    return (weight * huber).mean(2).sum(1).mean()


def train(total=25_000, gamma=0.99, lr=5e-4):
    env = gym.make("CartPole-v1")
    z = Quantiles(4, 2)
    z_hat = copy.deepcopy(z)
    opt = torch.optim.Adam(z.parameters(), lr)
    store = Store(25_000)
    s, _ = env.reset(seed=1)
    for k in range(total):
        eps = np.interp(k, [0, 5000], [1.0, 0.02])
        if np.random.rand() < eps:
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = int(z(torch.from_numpy(s)[None]).mean(-1).argmax(-1))
        s2, r, term, trunc, _ = env.step(a)
        store.put((s, a, r, s2, term))
        s = s2
        if term or trunc:
            s = env.reset()[0]
        if k >= 1000:
            bs, ba, br, bs2, bt = store.get(64)
            with torch.no_grad():
                ahead = z_hat(bs2)
                pick = ahead.mean(-1).argmax(-1)
                best = ahead[torch.arange(64), pick]
                goal = br[:, None] + gamma * (1 - bt[:, None]) * best
            pred = z(bs)[torch.arange(64), ba.long()]
            loss = quantile_huber(pred, goal)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if k % 500 == 0:
            z_hat.load_state_dict(z.state_dict())


if __name__ == "__main__":
    train()
