"""A2C plus self-imitation: of stored returns only those that beat the critic are learned from (max(R - V, 0))."""
import random
from collections import deque

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

GAMMA = 0.99


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
        self.v = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, o):
        return Categorical(logits=self.pi(o)), self.v(o).squeeze(-1)


def episode(env, net):
    o, _ = env.reset()
    rows, over = [], False
    while not over:
        x = torch.as_tensor(o)
        with torch.no_grad():
            a = net(x)[0].sample()
        o, r, terminated, truncated, _ = env.step(a.item())
        rows.append((x, a, float(r)))
        over = terminated or truncated
    with torch.no_grad():
        g = 0.0 if terminated else net(torch.as_tensor(o))[1].item()
    out = []
    for x, a, r in reversed(rows):
        g = r + GAMMA * g
        out.append((x, a, g))
    return out  # latest first; the order does not matter, each row carries its own return


def batch_of(rows):
    x, a, g = zip(*rows)
    return torch.stack(x), torch.stack(a), torch.tensor(g)


def main(episodes=300):
    torch.manual_seed(0), random.seed(0)
    env, net, memory = gym.make("Acrobot-v1"), Net(), deque(maxlen=20_000)
    env.reset(seed=0)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for k in range(episodes):
        rows = episode(env, net)
        memory.extend(rows)
        x, a, g = batch_of(rows)
        pi, v = net(x)
        adv = (g - v).detach()
        loss = -(pi.log_prob(a) * adv).mean() / 10 + 0.01 * (g - v).pow(2).mean() - 0.01 * pi.entropy().mean()
        x, a, g = batch_of(random.sample(memory, min(256, len(memory))))
        pi, v = net(x)
        better = (g - v).clamp(min=0.0)
        loss = loss - 0.1 * (pi.log_prob(a) * better.detach()).mean() + 0.01 * 0.5 * better.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 20 == 0:
            print(k, -len(rows))


if __name__ == "__main__":
    main()
