"""PPO whose clipping is written with where: the gradient of a sample is dropped when its ratio already moved too far in the wanted direction."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn


def build(seed):
    torch.manual_seed(seed)
    pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    v = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
    return pi, v


def collect(env, obs, pi, v, n):
    rows = {key: [] for key in ("o", "a", "r", "v", "v_next", "cut", "logp")}
    for _ in range(n):
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=pi(torch.as_tensor(obs)))
            a = dist.sample()
            nxt, r, term, trunc, _ = env.step(a.item())
            here, there = v(torch.as_tensor(np.stack([obs, nxt]))).tolist()
        for key, value in zip(rows, (obs, a, r, here, 0.0 if term else there, term or trunc, dist.log_prob(a))):
            rows[key].append(value)
        obs = env.reset()[0] if term or trunc else nxt
    return obs, rows


def gae(rows, gamma=0.99, lam=0.95):
    # v_next is the value of the true successor, zero at an end; cut says that the next row is of another episode
    out, acc = np.zeros(len(rows["r"]), np.float32), 0.0
    for t in range(len(out))[::-1]:
        if rows["cut"][t]:
            acc = 0.0
        acc = rows["r"][t] + gamma * rows["v_next"][t] - rows["v"][t] + gamma * lam * acc
        out[t] = acc
    return out


def main(iterations=40, n=1024, clip=0.2, seed=0):
    env = gym.make("CartPole-v1")
    pi, v = build(seed)
    opt = torch.optim.Adam([*pi.parameters(), *v.parameters()], lr=1e-3)
    obs, _ = env.reset(seed=seed)
    for it in range(iterations):
        obs, rows = collect(env, obs, pi, v, n)
        adv = torch.as_tensor(gae(rows))
        target = adv + torch.as_tensor(rows["v"])
        o, a = torch.as_tensor(np.stack(rows["o"])), torch.stack(rows["a"])
        old = torch.stack(rows["logp"])
        for _ in range(4):
            for idx in torch.randperm(n).split(256):
                ratio = (torch.distributions.Categorical(logits=pi(o[idx])).log_prob(a[idx]) - old[idx]).exp()
                A = (adv[idx] - adv.mean()) / adv.std()
                too_far = torch.where(A > 0, ratio > 1 + clip, ratio < 1 - clip)
                policy = -torch.where(too_far, ratio.detach(), ratio).mul(A).mean()
                value = (v(o[idx]) - target[idx]).square().mean()
                opt.zero_grad()
                (policy + 0.5 * value).backward()
                opt.step()
        if it % 5 == 0:
            ends = sum(rows["cut"])
            print(it, "mean episode length about", n / max(1, ends))


if __name__ == "__main__":
    main()
