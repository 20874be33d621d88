"""DDPG with small frozen records for configuration and transitions."""
import copy
import random
from collections import deque
from dataclasses import astuple, dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass(slots=True)
class Transition:
    before: np.ndarray
    control: np.ndarray
    payoff: float
    after: np.ndarray
    absorbing: bool


@dataclass
class Hyper:
    gamma: float = 0.98
    rho: float = 0.995
    actor_lr: float = 1e-4
    critic_lr: float = 1e-3
    sigma: float = 0.1
    batch: int = 128
    capacity: int = 50_000


class Actor(nn.Module):
    def __init__(self, n, m, top):
        super().__init__()
        self.net, self.top = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, m), nn.Tanh()), top

    def forward(self, x):
        return self.top * self.net(x)


class Q(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n + m, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, u):
        return self.net(torch.cat([x, u], 1))


class Ddpg:
    def __init__(self, n, m, top, hp: Hyper):
        self.hp, self.top = hp, top
        self.actor, self.q = Actor(n, m, top), Q(n, m)
        self.actor_bar, self.q_bar = copy.deepcopy(self.actor), copy.deepcopy(self.q)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), hp.actor_lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), hp.critic_lr)
        self.pool: deque[Transition] = deque(maxlen=hp.capacity)

    def control(self, x):
        with torch.no_grad():
            u = self.actor(torch.as_tensor(x, dtype=torch.float32)[None])[0].numpy()
        u = u + np.random.normal(0.0, self.hp.sigma * self.top, u.shape)
        return np.clip(u, -self.top, self.top).astype(np.float32)

    def minibatch(self):
        picked = random.sample(self.pool, self.hp.batch)
        x, u, c, y, end = map(np.array, zip(*map(astuple, picked)))
        to = lambda z: torch.as_tensor(z, dtype=torch.float32)
        return to(x), to(u), to(c)[:, None], to(y), to(end)[:, None]

    def improve(self):
        x, u, c, y, end = self.minibatch()
        with torch.no_grad():
            bootstrap = self.q_bar(y, self.actor_bar(y))
            label = c + self.hp.gamma * (1 - end) * bootstrap
        q_loss = F.mse_loss(self.q(x, u), label)
        self.opt_q.zero_grad()
        q_loss.backward()
        self.opt_q.step()
        a_loss = -self.q(x, self.actor(x)).mean()
        self.opt_a.zero_grad()
        a_loss.backward()
        self.opt_a.step()
        self._average(self.actor_bar, self.actor)
        self._average(self.q_bar, self.q)

    def _average(self, slow, fast):
        rho = self.hp.rho
        for s, f in zip(slow.parameters(), fast.parameters()):
            s.data = rho * s.data + (1 - rho) * f.data


def main(budget=20_000):
    env = gym.make("Pendulum-v1")
    agent = Ddpg(3, 1, 2.0, Hyper())
    x, _ = env.reset(seed=4)
    for k in range(budget):
        u = agent.control(x) if k > 500 else env.action_space.sample()
        y, c, dead, late, _ = env.step(u)
        agent.pool.append(Transition(x, u, c, y, dead))
        x = y
        if dead or late:
            x, _ = env.reset()
        if len(agent.pool) > 500:
            agent.improve()


if __name__ == "__main__":
    main()
