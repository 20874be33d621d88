"""Soft actor-critic from closures: make_* functions return the functions that are used."""
import copy
import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(*widths):
    layers = []
    for a, b in zip(widths[:-2], widths[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def make_policy(net, scale):
    def pi(x):
        mean, log_std = net(x).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        logp = normal.log_prob(raw) - torch.log(1 - squashed.pow(2) + 1e-6)
        return squashed * scale, logp.sum(-1)

    return pi


def make_replay(capacity, n_obs, n_act):
    store = {
        "x": np.zeros((capacity, n_obs), np.float32),
        "u": np.zeros((capacity, n_act), np.float32),
        "r": np.zeros(capacity, np.float32),
        "y": np.zeros((capacity, n_obs), np.float32),
        "d": np.zeros(capacity, np.float32),
    }
    count = 0

    def put(**row):
        nonlocal count
        for key, value in row.items():
            store[key][count % capacity] = value
        count += 1

    def get(n):
        rows = np.random.randint(0, min(count, capacity), n)
        return {key: torch.from_numpy(value[rows]) for key, value in store.items()}

    return put, get


def make_learner(pi, actor, q1, q2, n_act, gamma=0.99, tau=0.005, lr=3e-4):
    t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
    log_alpha = torch.zeros((), requires_grad=True)
    floor = -float(n_act)
    opt_q = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=lr)
    opt_pi = torch.optim.Adam(actor.parameters(), lr=lr)
    opt_alpha = torch.optim.Adam([log_alpha], lr=lr)

    def score(f, x, u):
        return f(torch.cat([x, u], -1)).squeeze(-1)

    def backup(b):
        with torch.no_grad():
            u2, lp2 = pi(b["y"])
            low = torch.min(score(t1, b["y"], u2), score(t2, b["y"], u2))
            return b["r"] + gamma * (1 - b["d"]) * (low - log_alpha.exp() * lp2)

    def critic_step(b):
        y = backup(b)
        loss = F.mse_loss(score(q1, b["x"], b["u"]), y) + F.mse_loss(score(q2, b["x"], b["u"]), y)
        opt_q.zero_grad()
        loss.backward()
        opt_q.step()

    def actor_step(b):
        u, lp = pi(b["x"])
        worth = torch.min(score(q1, b["x"], u), score(q2, b["x"], u))
        loss = (log_alpha.exp().detach() * lp - worth).mean()
        opt_pi.zero_grad()
        loss.backward()
        opt_pi.step()
        alpha_loss = -(log_alpha * (lp.detach() + floor)).mean()
        opt_alpha.zero_grad()
        alpha_loss.backward()
        opt_alpha.step()

    def track():
        with torch.no_grad():
            for net, slow in ((q1, t1), (q2, t2)):
                for p, ps in zip(net.parameters(), slow.parameters()):
                    ps.mul_(1 - tau).add_(tau * p)

    def learn(b):
        critic_step(b)
        actor_step(b)
        track()

    return learn


def main(steps=15_000):
    env = gym.make("Pendulum-v1")
    n_obs, n_act = env.observation_space.shape[0], env.action_space.shape[0]
    actor = mlp(n_obs, 128, 128, 2 * n_act)
    q1, q2 = mlp(n_obs + n_act, 128, 128, 1), mlp(n_obs + n_act, 128, 128, 1)
    pi = make_policy(actor, float(env.action_space.high[0]))
    put, get = make_replay(100_000, n_obs, n_act)
    learn = make_learner(pi, actor, q1, q2, n_act)
    x, _ = env.reset(seed=0)
    for t in range(steps):
        if t < 1_000:
            u = env.action_space.sample()
        else:
            with torch.no_grad():
                u = pi(torch.as_tensor(x))[0].numpy()
        y, r, term, trunc, _ = env.step(u)
        put(x=x, u=u, r=r, y=y, d=term)
        x = y
        if term or trunc:
            x, _ = env.reset()
        if t >= 1_000:
            learn(get(128))


if __name__ == "__main__":
    main()
