"""Soft actor-critic; everything that belongs together is a dataclass."""
from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, fields

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    env_id: str = "Pendulum-v1"
    steps: int = 20_000
    warmup: int = 1_000
    batch: int = 256
    discount: float = 0.99
    polyak: float = 0.995
    lr: float = 1e-3
    alpha: float = 0.2


@dataclass
class Batch:
    state: Tensor
    action: Tensor
    reward: Tensor
    successor: Tensor
    terminal: Tensor


@dataclass
class Memory:
    limit: int
    rows: list = field(default_factory=list)

    def add(self, *row):
        if len(self.rows) == self.limit:
            self.rows.pop(0)
        self.rows.append(row)

    def sample(self, n) -> Batch:
        picks = np.random.randint(len(self.rows), size=n)
        columns = zip(*(self.rows[i] for i in picks))
        return Batch(*(torch.as_tensor(np.array(c), dtype=torch.float32) for c in columns))


class Gaussian(nn.Module):
    def __init__(self, n_s, n_a, bound):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_s, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.mean, self.log_std, self.bound = nn.Linear(128, n_a), nn.Linear(128, n_a), bound

    def forward(self, s, deterministic=False):
        h = self.trunk(s)
        d = torch.distributions.Normal(self.mean(h), self.log_std(h).clamp(-20, 2).exp())
        z = d.mean if deterministic else d.rsample()
        logp = d.log_prob(z).sum(-1)
        logp = logp - (2 * (np.log(2) - z - nn.functional.softplus(-2 * z))).sum(-1)
        return self.bound * torch.tanh(z), logp


class Critic(nn.Module):
    def __init__(self, n_s, n_a):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(n_s + n_a, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, s, a):
        return self.f(torch.cat((s, a), dim=-1)).squeeze(-1)


@dataclass
class Agent:
    actor: Gaussian
    critics: nn.ModuleList
    config: Config
    slow: nn.ModuleList = field(init=False)

    def __post_init__(self):
        self.slow = deepcopy(self.critics)
        for p in self.slow.parameters():
            p.requires_grad = False
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=self.config.lr)
        self.critic_opt = torch.optim.Adam(self.critics.parameters(), lr=self.config.lr)

    def target(self, b: Batch) -> Tensor:
        with torch.no_grad():
            a, logp = self.actor(b.successor)
            worst = torch.stack([c(b.successor, a) for c in self.slow]).min(dim=0).values
            soft = worst - self.config.alpha * logp
            return b.reward + self.config.discount * (1 - b.terminal) * soft

    def critic_loss(self, b: Batch) -> Tensor:
        y = self.target(b)
        return sum(((c(b.state, b.action) - y) ** 2).mean() for c in self.critics)

    def actor_loss(self, b: Batch) -> Tensor:
        a, logp = self.actor(b.state)
        worst = torch.stack([c(b.state, a) for c in self.critics]).min(dim=0).values
        return (self.config.alpha * logp - worst).mean()

    def update(self, b: Batch):
        self.critic_opt.zero_grad()
        self.critic_loss(b).backward()
        self.critic_opt.step()
        self.actor_opt.zero_grad()
        self.actor_loss(b).backward()
        self.actor_opt.step()
        with torch.no_grad():
            for p, s in zip(self.critics.parameters(), self.slow.parameters()):
                s.data.mul_(self.config.polyak)
                s.data.add_((1 - self.config.polyak) * p.data)

    @torch.no_grad()
    def act(self, s, deterministic=False):
        return self.actor(torch.as_tensor(s, dtype=torch.float32), deterministic)[0].numpy()


def train(cfg: Config):
    env = gym.make(cfg.env_id)
    n_s, n_a = env.observation_space.shape[0], env.action_space.shape[0]
    agent = Agent(Gaussian(n_s, n_a, float(env.action_space.high[0])), nn.ModuleList([Critic(n_s, n_a) for _ in range(2)]), cfg)
    memory = Memory(100_000)
    s, _ = env.reset(seed=0)
    for k in range(cfg.steps):
        a = env.action_space.sample() if k < cfg.warmup else agent.act(s)
        s2, r, stop, cut, _ = env.step(a)
        memory.add(s, a, r, s2, float(stop))
        s = env.reset()[0] if stop or cut else s2
        if k >= cfg.warmup:
            agent.update(memory.sample(cfg.batch))
    return agent


if __name__ == "__main__":
    train(Config())
