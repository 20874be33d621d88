"""TD3 as an object with methods for each loss; tensors are [batch, 1] throughout."""

import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pi(nn.Module):
    def __init__(self, ns, na, top):
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(ns, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, na), nn.Tanh())
        self.top = top

    def forward(self, s):
        return self.top * self.stack(s)


class Q(nn.Module):
    def __init__(self, ns, na):
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(ns + na, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, s, a):
        return self.stack(torch.cat((s, a), 1))


class Pool:
    def __init__(self, size):
        self.size, self.items = size, []

    def insert(self, item):
        self.items.append(item)
        if len(self.items) > self.size:
            self.items.pop(0)

    def pick(self, k):
        chosen = [self.items[j] for j in np.random.randint(len(self.items), size=k)]
        s, a, r, s2, end = (torch.as_tensor(np.array(column), dtype=torch.float32) for column in zip(*chosen))
        return s, a, r.unsqueeze(1), s2, end.unsqueeze(1)


class TD3:
    def __init__(self, env, gamma=0.99, tau=0.005, smooth=0.2, bound=0.5, delay=2, explore=0.1):
        ns, na = env.observation_space.shape[0], env.action_space.shape[0]
        self.top = float(env.action_space.high[0])
        self.pi, self.qs = Pi(ns, na, self.top), nn.ModuleList([Q(ns, na), Q(ns, na)])
        self.pi_slow, self.qs_slow = copy.deepcopy(self.pi), copy.deepcopy(self.qs)
        self.pi_optimizer = torch.optim.Adam(self.pi.parameters(), lr=1e-3)
        self.q_optimizer = torch.optim.Adam(self.qs.parameters(), lr=1e-3)
        self.pool = Pool(100_000)
        self.gamma, self.tau, self.smooth, self.bound, self.delay, self.explore = gamma, tau, smooth, bound, delay, explore
        self.count = 0

    def behave(self, s):
        with torch.no_grad():
            a = self.pi(torch.as_tensor(s, dtype=torch.float32).unsqueeze(0)).squeeze(0).numpy()
        noisy = a + np.random.normal(0, self.explore * self.top, size=a.shape)
        return np.clip(noisy, -self.top, self.top)

    @torch.no_grad()
    def goal(self, r, s2, end):
        noise = (torch.randn(s2.shape[0], 1) * self.smooth).clamp(-self.bound, self.bound)
        a2 = (self.pi_slow(s2) + noise).clamp(-self.top, self.top)
        low = torch.min(*(q(s2, a2) for q in self.qs_slow))
        return r + self.gamma * (1 - end) * low

    def critic_loss(self, s, a, r, s2, end):
        y = self.goal(r, s2, end)
        return sum(F.mse_loss(q(s, a), y) for q in self.qs)

    def actor_loss(self, s):
        return -self.qs[0](s, self.pi(s)).mean()

    def drift(self):
        for slow, fast in ((self.pi_slow, self.pi), (self.qs_slow, self.qs)):
            for p_slow, p in zip(slow.parameters(), fast.parameters()):
                p_slow.data.copy_(self.tau * p.data + (1 - self.tau) * p_slow.data)

    def improve(self, k=256):
        s, a, r, s2, end = self.pool.pick(k)
        q_loss = self.critic_loss(s, a, r, s2, end)
        self.q_optimizer.zero_grad()
        q_loss.backward()
        self.q_optimizer.step()
        self.count += 1
        if self.count % self.delay == 0:
            pi_loss = self.actor_loss(s)
            self.pi_optimizer.zero_grad()
            pi_loss.backward()
            self.pi_optimizer.step()
            self.drift()


def main():
    torch.manual_seed(2)
    np.random.seed(2)
    env = gym.make("Pendulum-v1")
    learner = TD3(env)
    s, _ = env.reset(seed=2)
    for t in range(50_000):
        a = env.action_space.sample() if t < 1000 else learner.behave(s)
        s2, r, end, late, _ = env.step(a)
        learner.pool.insert((s, a, r, s2, float(end)))
        s = env.reset()[0] if end or late else s2
        if t >= 1000:
            learner.improve()


if __name__ == "__main__":
    main()
