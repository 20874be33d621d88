"""Vanilla policy gradient with a learned baseline on a small task of its own: keep a cart near a moving beacon."""
from __future__ import annotations

from typing import Callable, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn, optim
from torch.distributions import Independent, Normal


class Beacon(gym.Env):
    """State: where the cart is, how fast, and where the beacon is. The episode ends in failure if the cart leaves the track."""

    metadata = {"render_modes": []}

    def __init__(self, horizon: int = 200):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.horizon = horizon
        self.t = 0

    def _observe(self) -> np.ndarray:
        return np.array([self.x, self.v, self.beacon], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = self.np_random.uniform(-1, 1), 0.0
        self.beacon = self.np_random.uniform(-1, 1)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        force = float(np.clip(action, -1, 1)[0])
        self.v = 0.95 * self.v + 0.1 * force
        self.x += 0.1 * self.v
        self.beacon = float(np.clip(self.beacon + 0.02 * self.np_random.normal(), -1, 1))
        self.t += 1
        terminated = abs(self.x) > 2.0
        reward = 1.0 - abs(self.x - self.beacon) - 0.01 * force**2
        if terminated:
            reward -= 10.0
        return self._observe(), reward, terminated, self.t >= self.horizon, {}


class GaussianPolicy(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, act_dim))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def forward(self, obs: Tensor) -> Independent:
        mean = self.body(obs)
        return Independent(Normal(mean, self.log_std.exp().expand_as(mean)), 1)


class Baseline(nn.Module):
    def __init__(self, obs_dim: int, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, obs: Tensor) -> Tensor:
        return self.body(obs)[:, 0]


class Path(NamedTuple):
    obs: Tensor
    acts: Tensor
    rews: np.ndarray
    tail: float
    """Value of what would have come after the last step: 0 if the episode really ended."""


def rewards_to_go(path: Path, gamma: float) -> Tensor:
    out = np.empty(len(path.rews), np.float32)
    running = path.tail
    for i in reversed(range(len(path.rews))):
        running = path.rews[i] + gamma * running
        out[i] = running
    return torch.from_numpy(out)


def rollout(env: gym.Env, policy: GaussianPolicy, baseline: Baseline) -> tuple[Path, bool]:
    observations, actions, rewards = [], [], []
    obs, _ = env.reset()
    while True:
        tensor = torch.from_numpy(obs)
        with torch.no_grad():
            action = policy(tensor).sample()
        observations.append(tensor)
        actions.append(action)
        obs, reward, terminated, truncated, _ = env.step(action.numpy())
        rewards.append(reward)
        if terminated or truncated:
            break
    tail = 0.0
    if not terminated:
        with torch.no_grad():
            tail = baseline(torch.from_numpy(obs)[None]).item()
    return Path(torch.stack(observations), torch.stack(actions), np.asarray(rewards), tail), terminated


def train(make: Callable[[], gym.Env], epochs=60, paths_per_epoch=10, gamma=0.98, pi_lr=5e-3, v_lr=1e-2, v_iters=20, width=32, seed=0):
    torch.manual_seed(seed)
    env = make()
    env.reset(seed=seed)
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    policy, baseline = GaussianPolicy(obs_dim, act_dim, width), Baseline(obs_dim, width)
    pi_opt = optim.Adam(policy.parameters(), lr=pi_lr)
    v_opt = optim.Adam(baseline.parameters(), lr=v_lr)

    def compute_loss_pi(obs: Tensor, acts: Tensor, adv: Tensor) -> Tensor:
        return -(policy(obs).log_prob(acts) * adv).mean()

    def compute_loss_v(obs: Tensor, ret: Tensor) -> Tensor:
        return (baseline(obs) - ret).pow(2).mean()

    for epoch in range(epochs):
        gathered = [rollout(env, policy, baseline) for _ in range(paths_per_epoch)]
        paths = [path for path, _ in gathered]
        obs = torch.cat([path.obs for path in paths])
        acts = torch.cat([path.acts for path in paths])
        ret = torch.cat([rewards_to_go(path, gamma) for path in paths])
        with torch.no_grad():
            adv = ret - baseline(obs)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        pi_opt.zero_grad()
        compute_loss_pi(obs, acts, adv).backward()
        pi_opt.step()
        for _ in range(v_iters):
            v_opt.zero_grad()
            loss_v = compute_loss_v(obs, ret)
            loss_v.backward()
            v_opt.step()

        mean = np.mean([path.rews.sum() for path in paths])
        print(f"{epoch:3d}  return {mean:8.2f}  fell off {sum(fell for _, fell in gathered)}  value loss {loss_v.item():.3f}")
    return policy


if __name__ == "__main__":
    import sys

    train(Beacon, epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 60)
