"""DQN with a numpy replay memory in one flat script."""
import argparse
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--steps", type=int, default=200_000)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--memory", type=int, default=50_000)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--sync-every", type=int, default=500)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--warmup", type=int, default=5_000)
parser.add_argument("--eps-start", type=float, default=1.0)
parser.add_argument("--eps-end", type=float, default=0.05)
parser.add_argument("--eps-frac", type=float, default=0.3)
args = parser.parse_args()

random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)

env = gym.make(args.env_id)
obs_dim, n_act = env.observation_space.shape[0], env.action_space.n


def build():
    return nn.Sequential(nn.Linear(obs_dim, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_act))


online, frozen = build(), build()
frozen.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=args.lr)

mem_s = np.zeros((args.memory, obs_dim), dtype=np.float32)
mem_s2 = np.zeros((args.memory, obs_dim), dtype=np.float32)
mem_a = np.zeros(args.memory, dtype=np.int64)
mem_r = np.zeros(args.memory, dtype=np.float32)
mem_d = np.zeros(args.memory, dtype=np.float32)
ptr, filled = 0, 0


def schedule(start, end, duration, t):
    slope = (end - start) / duration
    return max(slope * t + start, end)


s, _ = env.reset(seed=args.seed)
ep_return = 0.0
for t in range(args.steps):
    eps = schedule(args.eps_start, args.eps_end, args.eps_frac * args.steps, t)
    if random.random() < eps:
        a = env.action_space.sample()
    else:
        with torch.no_grad():
            a = int(online(torch.as_tensor(s).unsqueeze(0)).argmax(dim=1))
    s2, r, terminated, truncated, _ = env.step(a)
    ep_return += r
    mem_s[ptr], mem_a[ptr], mem_r[ptr], mem_s2[ptr], mem_d[ptr] = s, a, r, s2, terminated
    ptr = (ptr + 1) % args.memory
    filled = min(filled + 1, args.memory)
    s = s2
    if terminated or truncated:
        print(t, ep_return)
        ep_return = 0.0
        s, _ = env.reset()

    if t > args.warmup and t % 4 == 0:
        idx = np.random.randint(0, filled, size=args.batch)
        bs, bs2 = torch.from_numpy(mem_s[idx]), torch.from_numpy(mem_s2[idx])
        ba, br, bd = torch.from_numpy(mem_a[idx]), torch.from_numpy(mem_r[idx]), torch.from_numpy(mem_d[idx])
        with torch.no_grad():
            best, _ = frozen(bs2).max(dim=1)
            y = br + args.gamma * best * (1 - bd)
        q = online(bs).gather(1, ba.unsqueeze(1)).squeeze(1)
        loss = F.mse_loss(q, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if t % args.sync_every == 0:
        frozen.load_state_dict(online.state_dict())
