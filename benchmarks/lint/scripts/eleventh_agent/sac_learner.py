"""Soft actor-critic: Learner (networks and updates), Player (environment) and a replay table."""
from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution


class ReplayTable:
    """Columns of one structured numpy array."""

    def __init__(self, capacity: int, obs_dim: int, act_dim: int):
        self.rows = np.zeros(
            capacity,
            dtype=[("obs", "f4", obs_dim), ("act", "f4", act_dim), ("rew", "f4"), ("obs_next", "f4", obs_dim), ("nonterminal", "f4")],
        )
        self.cursor = 0
        self.stored = 0

    def insert(self, obs, act, rew, obs_next, nonterminal):
        self.rows[self.cursor] = (obs, act, rew, obs_next, nonterminal)
        self.cursor = (self.cursor + 1) % len(self.rows)
        self.stored = min(self.stored + 1, len(self.rows))

    def draw(self, rng: np.random.Generator, size: int) -> dict[str, torch.Tensor]:
        picked = self.rows[rng.integers(self.stored, size=size)]
        return {name: torch.from_numpy(picked[name].copy()) for name in picked.dtype.names}


class Policy(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.loc = nn.Linear(256, act_dim)
        self.log_scale = nn.Linear(256, act_dim)

    def forward(self, obs):
        h = self.trunk(obs)
        base = Normal(self.loc(h), self.log_scale(h).clamp(-10, 2).exp())
        return Independent(TransformedDistribution(base, [TanhTransform(cache_size=1)]), 1)

    def mode(self, obs):
        return torch.tanh(self.loc(self.trunk(obs)))


class TwinQ(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(obs_dim + act_dim, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)) for _ in range(2)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return tuple(head(x).squeeze(-1) for head in self.heads)


class Learner:
    def __init__(self, obs_dim: int, act_dim: int, discount=0.99, polyak=0.005, step_size=3e-4):
        self.discount, self.polyak = discount, polyak
        self.policy = Policy(obs_dim, act_dim)
        self.critic = TwinQ(obs_dim, act_dim)
        self.critic_slow = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.tensor(0.0))
        self.wanted_entropy = -act_dim
        self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), step_size)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), step_size)
        self.temperature_optimizer = torch.optim.Adam([self.log_temperature], step_size)

    @property
    def temperature(self):
        return self.log_temperature.exp().detach()

    def update_critic(self, batch):
        with torch.no_grad():
            dist = self.policy(batch["obs_next"])
            act_next = dist.sample()
            entropy_bonus = -self.temperature * dist.log_prob(act_next)
            worst = torch.min(*self.critic_slow(batch["obs_next"], act_next))
            goal = batch["rew"] + self.discount * batch["nonterminal"] * (worst + entropy_bonus)
        first, second = self.critic(batch["obs"], batch["act"])
        loss = F.mse_loss(first, goal) + F.mse_loss(second, goal)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        return loss.item()

    def update_policy(self, batch):
        dist = self.policy(batch["obs"])
        act = dist.rsample()
        log_prob = dist.log_prob(act)
        worst = torch.min(*self.critic(batch["obs"], act))
        loss = (self.temperature * log_prob - worst).mean()
        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()

        surplus = (-log_prob.detach() - self.wanted_entropy).mean()
        temperature_loss = self.log_temperature * surplus
        self.temperature_optimizer.zero_grad()
        temperature_loss.backward()
        self.temperature_optimizer.step()
        return loss.item()

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.critic_slow.parameters(), self.critic.parameters()):
            slow += self.polyak * (fast - slow)

    def update(self, batch):
        losses = self.update_critic(batch), self.update_policy(batch)
        self.follow()
        return losses


class Player:
    def __init__(self, env_id: str, seed: int):
        self.env = gym.wrappers.RescaleAction(gym.make(env_id), -1.0, 1.0)
        self.obs, _ = self.env.reset(seed=seed)
        self.env.action_space.seed(seed)
        self.score, self.scores = 0.0, []

    def play(self, learner: Learner | None, table: ReplayTable):
        if learner is None:
            act = self.env.action_space.sample()
        else:
            with torch.no_grad():
                act = learner.policy(torch.as_tensor(self.obs, dtype=torch.float32)).sample().numpy()
        obs_next, rew, terminated, truncated, _ = self.env.step(act)
        table.insert(self.obs, act, rew, obs_next, not terminated)
        self.obs = obs_next
        self.score += rew
        if terminated or truncated:
            self.scores.append(self.score)
            self.score = 0.0
            self.obs, _ = self.env.reset()


def main(env_id="HalfCheetah-v5", total=300_000, random_steps=5_000, batch=256, seed=0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    player = Player(env_id, seed)
    obs_dim, act_dim = player.env.observation_space.shape[0], player.env.action_space.shape[0]
    learner, table = Learner(obs_dim, act_dim), ReplayTable(total, obs_dim, act_dim)
    for step in range(total):
        player.play(None if step < random_steps else learner, table)
        if step >= random_steps:
            losses = learner.update(table.draw(rng, batch))
            if step % 5_000 == 0:
                print(step, losses, np.mean(player.scores[-5:]))


if __name__ == "__main__":
    main()
