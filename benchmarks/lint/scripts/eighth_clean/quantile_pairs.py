"""Quantile-regression DQN. The loss compares every predicted quantile with every target quantile, so [B, N, 1] against [B, 1, N] is meant."""
import random
import sys
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

N = 16
TAUS = (torch.arange(N) + 0.5) / N


class Quantiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2 * N))

    def forward(self, x):
        return self.net(x).view(-1, 2, N)


def quantile_loss(predicted, target):
    pairs = target.unsqueeze(1) - predicted.unsqueeze(2)
    huber = torch.where(pairs.abs() <= 1.0, 0.5 * pairs**2, pairs.abs() - 0.5)
    slant = (TAUS.view(1, N, 1) - (pairs.detach() < 0).float()).abs()
    return (slant * huber).mean(dim=2).sum(dim=1).mean()


def main(steps=20_000):
    random.seed(0)
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    online, frozen = Quantiles(), Quantiles()
    frozen.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    memory = deque(maxlen=10_000)
    obs, _ = env.reset(seed=0)
    lengths, length = [], 0
    for step in range(steps):
        if random.random() < max(0.05, 1 - step / (0.3 * steps)):
            action = random.randint(0, 1)
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(obs)[None]).mean(2).argmax(1))
        after, reward, fell, cut, _ = env.step(action)
        memory.append((obs, action, reward, after, fell))
        length += 1
        obs = after
        if fell or cut:
            lengths.append(length)
            length = 0
            obs, _ = env.reset()
        if step > 500 and step % 2 == 0:
            o, a, r, o2, d = (np.array(c) for c in zip(*random.sample(memory, 64)))
            rows = torch.arange(64)
            with torch.no_grad():
                ahead = frozen(torch.from_numpy(o2))
                best = ahead.mean(2).argmax(1)
                alive = 1.0 - torch.from_numpy(d).float()
                target = torch.from_numpy(r).float()[:, None] + 0.99 * alive[:, None] * ahead[rows, best]
            loss = quantile_loss(online(torch.from_numpy(o))[rows, torch.from_numpy(a)], target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 250 == 0:
            frozen.load_state_dict(online.state_dict())
    print("last lengths", np.mean(lengths[-20:]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
