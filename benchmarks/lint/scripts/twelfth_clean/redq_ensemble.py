"""REDQ: ten critics, the target takes the smallest of a random pair, the actor climbs the mean of all.

No time limit is ever reached as an end: Pendulum does not terminate, so a mask would be all ones and is left out.
"""
import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CRITICS, PAIR, UPDATES_PER_STEP = 10, 2, 4
GAMMA, TAU, ALPHA, BATCH = 0.98, 0.005, 0.1, 64


class ManyQ(nn.Module):
    """All the critics at once, as batched matrices: [critics, batch, features]."""

    def __init__(self, n_in, width=64):
        super().__init__()
        shapes = [(n_in, width), (width, width), (width, 1)]
        self.w = nn.ParameterList([nn.Parameter((2 * torch.rand(CRITICS, i, o) - 1) / i**0.5) for i, o in shapes])
        self.b = nn.ParameterList([nn.Parameter(torch.zeros(CRITICS, 1, o)) for _, o in shapes])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=1).expand(CRITICS, -1, -1)
        for k, (w, b) in enumerate(zip(self.w, self.b)):
            x = torch.baddbmm(b, x, w)
            if k < 2:
                x = F.relu(x)
        return x.squeeze(-1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        base = torch.distributions.Normal(mean, log_std.clamp(-5, 1).exp())
        # the transform keeps the log-prob right; cache_size saves the inverse
        squashed = torch.distributions.TransformedDistribution(base, torch.distributions.TanhTransform(cache_size=1))
        action = squashed.rsample()
        return action, squashed.log_prob(action).sum(dim=-1)


def main(total=6_000, begin=500):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env = gym.make("Pendulum-v1")
    actor, critics = Actor(), ManyQ(4)
    lagging = copy.deepcopy(critics).requires_grad_(False)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_opt = torch.optim.Adam(critics.parameters(), lr=1e-3)
    columns = [np.zeros((total, n), np.float32) for n in (3, 1, 1, 3)]

    obs, _ = env.reset(seed=0)
    score = 0.0
    for t in range(total):
        if t < begin:
            action = rng.uniform(-1, 1, size=1)
        else:
            with torch.no_grad():
                action = actor(torch.from_numpy(obs))[0].numpy()
        nxt, reward, _, truncated, _ = env.step(2.0 * action)
        for column, value in zip(columns, (obs, action, reward, nxt)):
            column[t] = value
        score += float(reward)
        obs = nxt
        if truncated:
            print(f"{t + 1}: {score:.0f}")
            score = 0.0
            obs, _ = env.reset()
        if t < begin:
            continue

        for _ in range(UPDATES_PER_STEP):
            rows = rng.integers(t + 1, size=BATCH)
            o, a, r, o2 = (torch.from_numpy(column[rows]) for column in columns)
            with torch.no_grad():
                a2, log_p2 = actor(o2)
                pair = rng.choice(CRITICS, PAIR, replace=False)
                low = lagging(o2, a2)[pair].min(dim=0).values
                goal = r[:, 0] + GAMMA * (low - ALPHA * log_p2)
            critic_loss = CRITICS * F.mse_loss(critics(o, a), goal.expand(CRITICS, -1))
            critic_opt.zero_grad()
            critic_loss.backward()
            critic_opt.step()
            with torch.no_grad():
                for slow, fast in zip(lagging.parameters(), critics.parameters()):
                    slow.lerp_(fast, TAU)

        # the actor moves once per step, after all the critics' updates
        new, log_p = actor(o)
        actor_loss = (ALPHA * log_p - critics(o, new).mean(dim=0)).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()


if __name__ == "__main__":
    main()
