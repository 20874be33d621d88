"""Categorical DQN (51 atoms)."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

N_ATOMS, V_MIN, V_MAX = 51, 0.0, 200.0
SUPPORT = torch.linspace(V_MIN, V_MAX, N_ATOMS)
DZ = (V_MAX - V_MIN) / (N_ATOMS - 1)


class C51(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.n_act = n_act
        self.body = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_act * N_ATOMS))

    def forward(self, x):
        return self.body(x).view(-1, self.n_act, N_ATOMS).log_softmax(-1)

    def q(self, x):
        return (self(x).exp() * SUPPORT).sum(-1)


def project(probs, r, d, gamma):
    tz = (r[:, None] + gamma * (1 - d[:, None]) * SUPPORT[None]).clamp(V_MIN, V_MAX)
    b = (tz - V_MIN) / DZ
    low, up = b.floor().long(), b.ceil().long()
    low[(up > 0) & (low == up)] -= 1
    up[(low < N_ATOMS - 1) & (low == up)] += 1
    m = torch.zeros_like(probs)
    m.scatter_add_(1, low, probs * (up - b))
    m.scatter_add_(1, up, probs * (b - low))
    return m


def main(total=30_000, gamma=0.99):
    env = gym.make("CartPole-v1")
    net, target = C51(4, 2), C51(4, 2)
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=5e-4, eps=0.01 / 32)
    replay = deque(maxlen=30_000)
    obs, _ = env.reset(seed=0)
    for t in range(total):
        eps = max(0.02, 1 - t / 6000)
        if random.random() < eps:
            act = env.action_space.sample()
        else:
            with torch.no_grad():
                act = net.q(torch.as_tensor(obs)[None]).argmax(1).item()
        nobs, rew, term, trunc, _ = env.step(act)
        replay.append((obs, act, rew, nobs, term))
        obs = nobs
        if term or trunc:
            obs, _ = env.reset()
        if t > 1000:
            o, a, r, o2, d = zip(*random.sample(replay, 64))
            o, o2 = torch.tensor(np.array(o)), torch.tensor(np.array(o2))
            a, r, d = torch.tensor(a), torch.tensor(r, dtype=torch.float32), torch.tensor(d, dtype=torch.float32)
            with torch.no_grad():
                best = target.q(o2).argmax(1)
                p2 = target(o2).exp()[torch.arange(64), best]
                m = project(p2, r, d, gamma)
            logp = net(o)[torch.arange(64), a]
            loss = -(m * logp).sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if t % 400 == 0:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    main()
