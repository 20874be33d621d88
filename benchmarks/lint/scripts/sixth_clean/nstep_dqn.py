"""DQN with n-step returns. The window is flushed when an episode ends, and a limit keeps its bootstrap."""
import argparse
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class NStep:
    """Turns single steps into (s, a, sum of n rewards, state n later, ended for good, gamma^k)."""

    def __init__(self, n, gamma):
        self.n, self.gamma = n, gamma
        self.window = deque()

    def _head(self, last_state, terminal):
        ret = sum(self.gamma**i * r for i, (_, _, r) in enumerate(self.window))
        s, a, _ = self.window[0]
        return s, a, ret, last_state, terminal, self.gamma ** len(self.window)

    def add(self, s, a, r, s2, terminated, truncated):
        self.window.append((s, a, r))
        if terminated or truncated:
            while self.window:
                yield self._head(s2, terminated)
                self.window.popleft()
        elif len(self.window) == self.n:
            yield self._head(s2, False)
            self.window.popleft()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=100_000)
    ap.add_argument("--n", type=int, default=3)
    ap.add_argument("--gamma", type=float, default=0.99)
    ap.add_argument("--warmup", type=int, default=1_000)
    ap.add_argument("--seed", type=int, default=0)
    opt = ap.parse_args()
    random.seed(opt.seed)
    torch.manual_seed(opt.seed)

    env = gym.make("Acrobot-v1")
    n_obs, n_act = env.observation_space.shape[0], int(env.action_space.n)
    q = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_act))
    q_old = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_act))
    q_old.load_state_dict(q.state_dict())
    adam = torch.optim.Adam(q.parameters(), lr=5e-4)
    memory, folder = deque(maxlen=50_000), NStep(opt.n, opt.gamma)

    s, _ = env.reset(seed=opt.seed)
    for t in range(1, opt.steps + 1):
        eps = max(0.05, 1.0 - 2.0 * t / opt.steps)
        if random.random() < eps:
            a = random.randrange(n_act)
        else:
            with torch.no_grad():
                a = int(q(torch.from_numpy(s)).argmax())
        s2, r, terminated, truncated, _ = env.step(a)
        memory.extend(folder.add(s, a, float(r), s2, terminated, truncated))
        s = s2
        if terminated or truncated:
            s, _ = env.reset()

        if t > opt.warmup and t % 2 == 0:
            bs, ba, br, bs2, bend, bdisc = zip(*random.sample(memory, 64))
            bs, bs2 = torch.from_numpy(np.stack(bs)), torch.from_numpy(np.stack(bs2))
            ba = torch.tensor(ba)
            br, bend, bdisc = (torch.tensor(x, dtype=torch.float32) for x in (br, bend, bdisc))
            with torch.no_grad():
                y = br + bdisc * (1 - bend) * q_old(bs2).amax(dim=1)
            chosen = q(bs)[torch.arange(64), ba]
            loss = nn.functional.huber_loss(chosen, y)
            adam.zero_grad()
            loss.backward()
            adam.step()
        if t % 1_000 == 0:
            q_old.load_state_dict(q.state_dict())

    test = gym.make("Acrobot-v1")
    total = 0.0
    for k in range(3):
        s, _ = test.reset(seed=50 + k)
        over = False
        while not over:
            with torch.no_grad():
                s, r, terminated, truncated, _ = test.step(int(q(torch.from_numpy(s)).argmax()))
            total += float(r)
            over = terminated or truncated
    print("return", total / 3)


if __name__ == "__main__":
    main()
