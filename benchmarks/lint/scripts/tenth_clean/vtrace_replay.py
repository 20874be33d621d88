"""Actor-critic on replayed segments with V-trace. Importance ratios are cut at one from above only, as IMPALA does."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

T, GAMMA = 20, 0.99


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.p, self.v = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, x):
        h = self.h(x)
        return Categorical(logits=self.p(h)), self.v(h)[..., 0]


def vtrace(values, next_values, rewards, discounts, trace_goes_on, rhos):
    """values of s_t and of its successor, [T]; discounts are zero at ends; trace_goes_on is zero where the next row is another episode."""
    clipped = rhos.clamp(max=1.0)
    deltas = clipped * (rewards + discounts * next_values - values)
    acc = torch.zeros(())
    corrections = torch.zeros_like(values)
    for t in reversed(range(len(values))):
        acc = deltas[t] + GAMMA * trace_goes_on[t] * clipped[t] * acc
        corrections[t] = acc
    vs = values + corrections
    # the target of the next step: v_{t+1}, or its plain value at a segment's or an episode's last row
    vs_next = torch.where(trace_goes_on.bool(), torch.cat([vs[1:], next_values[-1:]]), next_values)
    return vs, clipped * (rewards + discounts * vs_next - values)


def main(segments=1500, seed=0):
    random.seed(seed), torch.manual_seed(seed)
    env, net = gym.make("CartPole-v1"), Net()
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, eps=1e-4)
    memory = deque(maxlen=200)
    obs, _ = env.reset(seed=seed)
    for k in range(segments):
        rows = []
        for t in range(T):
            with torch.no_grad():
                pi, _ = net(torch.as_tensor(obs))
            a = pi.sample()
            nxt, r, term, trunc, _ = env.step(a.item())
            rows.append((obs, a.item(), r, nxt, GAMMA * (not term), float(not (term or trunc) and t < T - 1), pi.log_prob(a).item()))
            obs = env.reset()[0] if term or trunc else nxt
        memory.append([torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*rows)])
        loss = 0.0
        for o, a, r, o2, discount, goes_on, mu_logp in [memory[-1], *random.sample(memory, min(3, len(memory)))]:
            pi, v = net(o)
            logp = pi.log_prob(a)
            with torch.no_grad():
                _, v2 = net(o2)
                vs, adv = vtrace(v, v2, r, discount, goes_on, (logp - mu_logp).exp())
            loss = loss - (logp * adv).mean() + 0.5 * (vs - v).pow(2).mean() - 0.01 * pi.entropy().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if k % 100 == 0:
            print(k, loss.item())


if __name__ == "__main__":
    main()
