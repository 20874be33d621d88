"""Implicit Q-learning from logged data: expectile values, no action outside of the data is ever asked for."""
from __future__ import annotations

import argparse
import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def log_data(n: int, seed: int) -> dict[str, torch.Tensor]:
    """A clumsy hand-written controller with much noise plays, and all is written down."""
    rng = np.random.default_rng(seed)
    env = gym.make("Pendulum-v1")
    rows: dict[str, list] = {k: [] for k in ("obs", "act", "rew", "nxt", "term")}
    obs, _ = env.reset(seed=seed)
    for _ in range(n):
        cos, sin, vel = obs
        torque = -6.0 * sin - 1.5 * vel if cos > 0.5 else 2.0 * np.sign(vel)
        act = np.clip(np.array([torque]) + rng.normal(0, 1.0, 1), -2, 2).astype(np.float32)
        nxt, rew, terminated, truncated, _ = env.step(act)
        for k, v in zip(rows, (obs, act, rew, nxt, terminated)):
            rows[k].append(v)
        obs = nxt
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return {k: torch.as_tensor(np.array(v), dtype=torch.float32) for k, v in rows.items()}


def net(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class IQL:
    def __init__(self, obs_dim: int, act_dim: int, expectile=0.7, beta=3.0, gamma=0.99, tau=0.005, lr=3e-4):
        self.q1, self.q2 = net(obs_dim + act_dim, 128, 128, 1), net(obs_dim + act_dim, 128, 128, 1)
        self.q1_t, self.q2_t = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.v = net(obs_dim, 128, 128, 1)
        self.pi = net(obs_dim, 128, 128, act_dim)
        self.log_std = nn.Parameter(torch.zeros(act_dim))
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=lr)
        self.v_opt = torch.optim.Adam(self.v.parameters(), lr=lr)
        self.pi_opt = torch.optim.Adam([*self.pi.parameters(), self.log_std], lr=lr)
        self.expectile, self.beta, self.gamma, self.tau = expectile, beta, gamma, tau

    def update(self, obs, act, rew, nxt, term):
        sa = torch.cat([obs, act], 1)
        with torch.no_grad():
            q = torch.min(self.q1_t(sa), self.q2_t(sa)).squeeze(1)
        v = self.v(obs).squeeze(1)
        diff = q - v
        v_loss = (torch.where(diff > 0, self.expectile, 1 - self.expectile) * diff.pow(2)).mean()
        self.v_opt.zero_grad()
        v_loss.backward()
        self.v_opt.step()

        with torch.no_grad():
            y = rew + self.gamma * (1 - term) * self.v(nxt).squeeze(1)
        q_loss = F.mse_loss(self.q1(sa).squeeze(1), y) + F.mse_loss(self.q2(sa).squeeze(1), y)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        weight = (self.beta * diff.detach()).exp().clamp(max=100.0)
        dist = torch.distributions.Normal(2.0 * torch.tanh(self.pi(obs)), self.log_std.exp())
        pi_loss = -(weight * dist.log_prob(act).sum(1)).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()

        for net_, old in ((self.q1, self.q1_t), (self.q2, self.q2_t)):
            for p, p_old in zip(net_.parameters(), old.parameters()):
                p_old.data.lerp_(p.data, self.tau)

    @torch.no_grad()
    def act(self, obs):
        return (2.0 * torch.tanh(self.pi(torch.as_tensor(obs, dtype=torch.float32)))).numpy()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=50_000)
    ap.add_argument("--updates", type=int, default=20_000)
    ap.add_argument("--batch", type=int, default=256)
    ns = ap.parse_args()
    torch.manual_seed(0)
    data = log_data(ns.rows, seed=0)
    data["rew"] = data["rew"] / 10.0
    agent = IQL(3, 1)
    for step in range(ns.updates):
        i = torch.randint(ns.rows, (ns.batch,))
        agent.update(*(data[k][i] for k in ("obs", "act", "rew", "nxt", "term")))
    env = gym.make("Pendulum-v1")
    scores = []
    for k in range(5):
        obs, _ = env.reset(seed=300 + k)
        score, over = 0.0, False
        while not over:
            obs, rew, terminated, truncated, _ = env.step(agent.act(obs))
            score += float(rew)
            over = terminated or truncated
        scores.append(score)
    print("offline policy", np.mean(scores))
