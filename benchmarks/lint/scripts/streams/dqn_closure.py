"""DQN put together from closures and itertools."""
import itertools
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn


def replay(capacity=20_000):
    rows, place = [], itertools.count()

    def write(row):
        k = next(place)
        if len(rows) < capacity:
            rows.append(row)
        else:
            rows[k % capacity] = row

    def read(n):
        picked = [rows[random.randrange(len(rows))] for _ in range(n)]
        return [torch.as_tensor(np.asarray(c)) for c in zip(*picked)]

    return write, read, lambda: len(rows)


def schedule(first, last, over):
    return lambda k: last + (first - last) * max(0.0, 1 - k / over)


def updater(net, slow, gamma=0.99, lr=1e-3, every=200):
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    calls = itertools.count(1)

    def step(batch):
        s, a, r, s2, stop = batch
        with torch.no_grad():
            ahead = slow(s2).max(-1)[0]
            y = r.float() + gamma * ahead * (~stop)
        q = net(s).gather(-1, a.unsqueeze(-1)).squeeze(-1)
        loss = ((q - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if next(calls) % every == 0:
            slow.load_state_dict(net.state_dict())
        return loss.item()

    return step


def behave(net, env, eps):
    def choose(s, k):
        if random.random() < eps(k):
            return env.action_space.sample()
        with torch.no_grad():
            return int(net(torch.as_tensor(s)).argmax())

    return choose


def transitions(env, choose):
    s, _ = env.reset(seed=0)
    for k in itertools.count():
        a = choose(s, k)
        s2, r, stop, cut, _ = env.step(a)
        yield k, (s, a, r, s2, stop)
        s = env.reset()[0] if stop or cut else s2


def main(total=20_000):
    env = gym.make("CartPole-v1")
    build = lambda: nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    net, slow = build(), build()
    slow.load_state_dict(net.state_dict())
    write, read, size = replay()
    step = updater(net, slow)
    for k, row in transitions(env, behave(net, env, schedule(1.0, 0.05, 8_000))):
        write(row)
        if size() > 500:
            step(read(64))
        if k >= total:
            break


if __name__ == "__main__":
    main()
