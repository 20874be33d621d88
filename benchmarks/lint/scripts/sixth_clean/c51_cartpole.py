"""Categorical DQN (C51) with a ring of tensors."""
import argparse
from dataclasses import dataclass

import gymnasium as gym
import torch
from torch import nn, optim


@dataclass
class Cfg:
    steps: int = 100_000
    warm: int = 2_000
    atoms: int = 51
    v_min: float = 0.0
    v_max: float = 100.0
    gamma: float = 0.99
    lr: float = 5e-4
    batch: int = 64
    every: int = 4
    sync: int = 500
    capacity: int = 20_000
    seed: int = 2


class Dist(nn.Module):
    def __init__(self, n_in, n_act, cfg):
        super().__init__()
        self.n_act, self.atoms = n_act, cfg.atoms
        self.register_buffer("support", torch.linspace(cfg.v_min, cfg.v_max, cfg.atoms))
        self.net = nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, n_act * cfg.atoms))

    def log_probs(self, x):
        return self.net(x).view(-1, self.n_act, self.atoms).log_softmax(dim=-1)

    def q(self, x):
        return (self.log_probs(x).exp() * self.support).sum(-1)


class Ring:
    def __init__(self, n, d):
        self.s, self.s2 = torch.zeros(n, d), torch.zeros(n, d)
        self.a, self.r, self.end = torch.zeros(n, dtype=torch.long), torch.zeros(n), torch.zeros(n)
        self.n, self.k, self.full = n, 0, False

    def put(self, s, a, r, s2, end):
        i = self.k
        self.s[i], self.a[i], self.r[i], self.s2[i], self.end[i] = torch.from_numpy(s), a, r, torch.from_numpy(s2), float(end)
        self.k = (i + 1) % self.n
        self.full = self.full or self.k == 0

    def take(self, m):
        i = torch.randint(self.n if self.full else self.k, (m,))
        return self.s[i], self.a[i], self.r[i], self.s2[i], self.end[i]


@torch.no_grad()
def project(target, r, s2, end, cfg):
    rows = torch.arange(len(r))
    best = target.q(s2).argmax(1)
    p = target.log_probs(s2)[rows, best].exp()
    z = (r[:, None] + cfg.gamma * (1 - end)[:, None] * target.support).clamp(cfg.v_min, cfg.v_max)
    b = (z - cfg.v_min) / ((cfg.v_max - cfg.v_min) / (cfg.atoms - 1))
    low, high = b.floor().long(), b.ceil().long()
    same = (low == high).float()
    m = torch.zeros_like(p)
    m.scatter_add_(1, low, p * (high.float() - b + same))
    m.scatter_add_(1, high, p * (b - low.float()))
    return m


def main():
    ap = argparse.ArgumentParser()
    for k, v in vars(Cfg()).items():
        ap.add_argument("--" + k, type=type(v), default=v)
    cfg = Cfg(**vars(ap.parse_args()))
    torch.manual_seed(cfg.seed)
    env = gym.make("CartPole-v1")
    env.action_space.seed(cfg.seed)
    online = Dist(4, 2, cfg)
    target = Dist(4, 2, cfg)
    target.load_state_dict(online.state_dict())
    opt = optim.Adam(online.parameters(), lr=cfg.lr)
    ring = Ring(cfg.capacity, 4)
    s, _ = env.reset(seed=cfg.seed)
    score, scores = 0.0, []
    for t in range(cfg.steps):
        eps = max(0.02, 1 - t / (0.3 * cfg.steps))
        if torch.rand(()) < eps:
            a = int(env.action_space.sample())
        else:
            with torch.no_grad():
                a = int(online.q(torch.from_numpy(s)[None]).argmax(1))
        s2, r, terminated, truncated, _ = env.step(a)
        ring.put(s, a, float(r), s2, terminated)
        score += float(r)
        s = s2
        if terminated or truncated:
            scores.append(score)
            score = 0.0
            s, _ = env.reset()
        if t > cfg.warm and t % cfg.every == 0:
            bs, ba, br, bs2, bend = ring.take(cfg.batch)
            m = project(target, br, bs2, bend, cfg)
            logp = online.log_probs(bs)[torch.arange(cfg.batch), ba]
            loss = -(m * logp).sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if t % cfg.sync == 0:
            target.load_state_dict(online.state_dict())
    print("last episodes", sum(scores[-10:]) / max(len(scores[-10:]), 1))


if __name__ == "__main__":
    main()
