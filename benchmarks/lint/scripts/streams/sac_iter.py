"""SAC fed by an endless sampler; a vector of critics as one module."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution
from torch.utils.data import IterableDataset


class Replay(IterableDataset):
    def __init__(self, limit=100_000, batch=128):
        self.rows, self.limit, self.batch = [], limit, batch

    def store(self, row):
        self.rows.append(row)
        if len(self.rows) > self.limit:
            self.rows = self.rows[1:]

    def __iter__(self):
        while True:
            ids = np.random.randint(0, len(self.rows), self.batch)
            cols = list(zip(*[self.rows[i] for i in ids]))
            yield [torch.tensor(np.array(c), dtype=torch.float32) for c in cols]


class Policy(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 128), nn.ReLU(), nn.Linear(128, 2 * m))

    def forward(self, s):
        loc, scale = self.net(s).chunk(2, -1)
        base = Normal(loc, F.softplus(scale) + 1e-3)
        return Independent(TransformedDistribution(base, [TanhTransform(cache_size=1)]), 1)


class Critics(nn.Module):
    def __init__(self, n, m, count=2):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(n + m, 128), nn.ReLU(), nn.Linear(128, 1)) for _ in range(count))

    def forward(self, s, a):
        z = torch.cat([s, a], -1)
        return torch.cat([part(z) for part in self.parts], -1)


def main(total=15_000, gamma=0.99, tau=0.005):
    env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0)
    policy, critics, slow = Policy(3, 1), Critics(3, 1), Critics(3, 1)
    slow.load_state_dict(critics.state_dict())
    log_alpha = nn.Parameter(torch.tensor(-1.0))
    goal_entropy = -1.0
    pi_opt = torch.optim.Adam(policy.parameters(), 3e-4)
    q_opt = torch.optim.Adam(critics.parameters(), 3e-4)
    a_opt = torch.optim.Adam([log_alpha], 3e-4)
    replay = Replay()
    feed = None
    s, _ = env.reset(seed=0)
    for k in range(total):
        with torch.no_grad():
            a = policy(torch.as_tensor(s, dtype=torch.float32)).sample().numpy()
        s2, r, term, trunc, _ = env.step(a)
        replay.store((s, a, r, s2, term))
        s = s2
        if term or trunc:
            s, _ = env.reset()
        if k < 1000:
            continue
        feed = feed or iter(replay)
        bs, ba, br, bs2, bt = next(feed)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            d2 = policy(bs2)
            a2 = d2.sample()
            v2 = slow(bs2, a2).min(-1).values - alpha * d2.log_prob(a2)
            y = br + gamma * (1.0 - bt) * v2
        q_loss = (critics(bs, ba) - y.unsqueeze(-1)).pow(2).sum(-1).mean()
        q_opt.zero_grad()
        q_loss.backward()
        q_opt.step()
        d = policy(bs)
        an = d.rsample()
        lp = d.log_prob(an)
        pi_loss = (alpha * lp - critics(bs, an).min(-1).values).mean()
        pi_opt.zero_grad()
        pi_loss.backward()
        pi_opt.step()
        a_loss = -(log_alpha.exp() * (lp + goal_entropy).detach()).mean()
        a_opt.zero_grad()
        a_loss.backward()
        a_opt.step()
        for p, q in zip(critics.parameters(), slow.parameters()):
            q.data += tau * (p.data - q.data)


if __name__ == "__main__":
    main()
