import copy
import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

LOG_STD_MAX, LOG_STD_MIN = 2, -20


def build(sizes, act=nn.ReLU, last=None):
    net = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        net.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            net.append(act())
        elif last is not None:
            net.append(last())
    return nn.Sequential(*net)


class SquashedGaussian(nn.Module):
    def __init__(self, obs_dim, act_dim, hid, act_limit):
        super().__init__()
        self.net = build([obs_dim, *hid], nn.ReLU, last=nn.ReLU)
        self.mu_layer = nn.Linear(hid[-1], act_dim)
        self.log_std_layer = nn.Linear(hid[-1], act_dim)
        self.act_limit = act_limit

    def forward(self, obs, deterministic=False, with_logprob=True):
        h = self.net(obs)
        mu = self.mu_layer(h)
        log_std = torch.clamp(self.log_std_layer(h), LOG_STD_MIN, LOG_STD_MAX)
        dist = Normal(mu, torch.exp(log_std))
        u = mu if deterministic else dist.rsample()
        logp = None
        if with_logprob:
            logp = dist.log_prob(u).sum(axis=-1)
            # the change of variables for tanh, in a form that does not overflow
            logp = logp - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(axis=-1)
        return self.act_limit * torch.tanh(u), logp


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hid):
        super().__init__()
        self.q1 = build([obs_dim + act_dim, *hid, 1])
        self.q2 = build([obs_dim + act_dim, *hid, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class FIFO:
    def __init__(self, capacity, **shapes):
        self.data = {k: torch.zeros((capacity, *shape)) for k, shape in shapes.items()}
        self.capacity, self.n, self.head = capacity, 0, 0

    def push(self, **row):
        for k, v in row.items():
            self.data[k][self.head] = torch.as_tensor(v, dtype=torch.float32)
        self.head = (self.head + 1) % self.capacity
        self.n = min(self.n + 1, self.capacity)

    def draw(self, batch, generator):
        i = torch.randint(self.n, (batch,), generator=generator)
        return {k: v[i] for k, v in self.data.items()}


def sac(make, seed=0, epochs=20, epoch_len=2000, capacity=100_000, gamma=0.99, polyak=0.995, lr=1e-3, batch_size=128,
        warmup=1000, update_after=1000, hid=(128, 128), tests=3):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    env, test_env = make(), make()
    env.action_space.seed(seed)
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    limit = float(env.action_space.high[0])

    actor = SquashedGaussian(obs_dim, act_dim, hid, limit)
    critic = TwinCritic(obs_dim, act_dim, hid)
    critic_targ = copy.deepcopy(critic).requires_grad_(False)
    log_temp = nn.Parameter(torch.tensor(0.0))
    entropy_goal = -act_dim

    actor_opt = torch.optim.Adam(actor.parameters(), lr=lr)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=lr)
    temp_opt = torch.optim.Adam([log_temp], lr=lr)
    memory = FIFO(capacity, o=(obs_dim,), a=(act_dim,), r=(), o2=(obs_dim,), d=())

    def critic_loss(b):
        with torch.no_grad():
            a2, logp2 = actor(b["o2"])
            q_next = torch.min(*critic_targ(b["o2"], a2))
            soft_value = q_next - log_temp.exp() * logp2
            y = b["r"] + gamma * (1.0 - b["d"]) * soft_value
        q1, q2 = critic(b["o"], b["a"])
        return F.mse_loss(q1, y) + F.mse_loss(q2, y)

    def actor_and_temp_loss(b):
        a, logp = actor(b["o"])
        q = torch.min(*critic(b["o"], a))
        loss_pi = (log_temp.exp().detach() * logp - q).mean()
        loss_temp = -(log_temp * (logp.detach() + entropy_goal)).mean()
        return loss_pi, loss_temp

    def learn(b):
        critic_opt.zero_grad()
        critic_loss(b).backward()
        critic_opt.step()

        critic.requires_grad_(False)
        loss_pi, loss_temp = actor_and_temp_loss(b)
        actor_opt.zero_grad()
        loss_pi.backward()
        actor_opt.step()
        critic.requires_grad_(True)

        temp_opt.zero_grad()
        loss_temp.backward()
        temp_opt.step()

        with torch.no_grad():
            for w, w_targ in zip(critic.parameters(), critic_targ.parameters()):
                w_targ.mul_(polyak).add_((1 - polyak) * w)

    def act(o, deterministic=False):
        with torch.no_grad():
            a, _ = actor(torch.as_tensor(o, dtype=torch.float32), deterministic, with_logprob=False)
        return a.numpy()

    def test():
        total = 0.0
        for k in range(tests):
            o, _ = test_env.reset(seed=seed + 5000 + k)
            end = False
            while not end:
                o, r, terminated, truncated, _ = test_env.step(act(o, deterministic=True))
                total += float(r)
                end = terminated or truncated
        return total / tests

    o, _ = env.reset(seed=seed)
    for t in range(1, epochs * epoch_len + 1):
        a = env.action_space.sample() if t <= warmup else act(o)
        o2, r, terminated, truncated, _ = env.step(a)
        memory.push(o=o, a=a, r=r, o2=o2, d=terminated)
        o = o2
        if terminated or truncated:
            o, _ = env.reset()
        if t > update_after:
            learn(memory.draw(batch_size, generator))
        if t % epoch_len == 0:
            print(f"epoch {t // epoch_len}: test return {test():.1f}, temperature {log_temp.exp().item():.3f}")
    return actor


if __name__ == "__main__":
    import argparse

    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="Pendulum-v1")
    ap.add_argument("-s", "--seed", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--epoch_len", type=int, default=2000)
    ap.add_argument("--warmup", type=int, default=1000)
    ns = ap.parse_args()
    sac(lambda: gym.make(ns.env), seed=ns.seed, epochs=ns.epochs, epoch_len=ns.epoch_len, warmup=ns.warmup, update_after=ns.warmup)
