"""TD3 with an agent class, a replay class and a trainer function, type hints everywhere."""
from __future__ import annotations

import copy
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Batch(NamedTuple):
    obs: Tensor
    actions: Tensor
    rewards: Tensor
    next_obs: Tensor
    not_done: Tensor


class Replay:
    def __init__(self, obs_dim: int, act_dim: int, capacity: int = 1_000_000) -> None:
        self.capacity = capacity
        self.cursor = 0
        self.count = 0
        self.obs = np.zeros((capacity, obs_dim))
        self.actions = np.zeros((capacity, act_dim))
        self.rewards = np.zeros((capacity, 1))
        self.next_obs = np.zeros((capacity, obs_dim))
        self.not_done = np.zeros((capacity, 1))

    def add(self, obs, action, reward, next_obs, terminated) -> None:
        i = self.cursor
        self.obs[i] = obs
        self.actions[i] = action
        self.rewards[i] = reward
        self.next_obs[i] = next_obs
        self.not_done[i] = 1.0 - float(terminated)
        self.cursor = (i + 1) % self.capacity
        self.count = min(self.count + 1, self.capacity)

    def sample(self, n: int) -> Batch:
        rows = np.random.randint(0, self.count, size=n)
        pick = lambda x: torch.as_tensor(x[rows], dtype=torch.float32)
        return Batch(pick(self.obs), pick(self.actions), pick(self.rewards), pick(self.next_obs), pick(self.not_done))


class Actor(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, limit: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(obs_dim, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, act_dim), nn.Tanh())
        self.limit = limit

    def forward(self, obs: Tensor) -> Tensor:
        return self.limit * self.layers(obs)


class TwinCritic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int) -> None:
        super().__init__()
        self.one = self._make(obs_dim + act_dim)
        self.two = self._make(obs_dim + act_dim)

    @staticmethod
    def _make(n_in: int) -> nn.Module:
        return nn.Sequential(nn.Linear(n_in, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, obs: Tensor, act: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat([obs, act], 1)
        return self.one(x), self.two(x)

    def first(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.one(torch.cat([obs, act], 1))


class TD3:
    def __init__(self, obs_dim: int, act_dim: int, limit: float, discount: float = 0.99, tau: float = 0.005,
                 policy_noise: float = 0.2, noise_clip: float = 0.5, policy_freq: int = 2) -> None:
        self.actor = Actor(obs_dim, act_dim, limit)
        self.actor_target = copy.deepcopy(self.actor)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic = TwinCritic(obs_dim, act_dim)
        self.critic_target = copy.deepcopy(self.critic)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.limit = limit
        self.discount, self.tau = discount, tau
        self.policy_noise, self.noise_clip, self.policy_freq = policy_noise * limit, noise_clip * limit, policy_freq
        self.updates = 0

    def select_action(self, obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.actor(torch.as_tensor(obs, dtype=torch.float32).reshape(1, -1)).numpy().flatten()

    def train(self, replay: Replay, batch_size: int = 256) -> None:
        self.updates += 1
        batch = replay.sample(batch_size)
        with torch.no_grad():
            noise = (torch.randn_like(batch.actions) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_action = (self.actor_target(batch.next_obs) + noise).clamp(-self.limit, self.limit)
            target_1, target_2 = self.critic_target(batch.next_obs, next_action)
            target_q = batch.rewards + batch.not_done * self.discount * torch.min(target_1, target_2)

        current_1, current_2 = self.critic(batch.obs, batch.actions)
        critic_loss = F.mse_loss(current_1, target_q) + F.mse_loss(current_2, target_q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        if self.updates % self.policy_freq == 0:
            actor_loss = -self.critic.first(batch.obs, self.actor(batch.obs)).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            self._track(self.critic, self.critic_target)
            self._track(self.actor, self.actor_target)

    def _track(self, net: nn.Module, slow: nn.Module) -> None:
        for param, target_param in zip(net.parameters(), slow.parameters()):
            target_param.data.copy_(self.tau * param.data + (1 - self.tau) * target_param.data)


def evaluate(agent: TD3, env_id: str, seed: int, episodes: int = 10) -> float:
    env = gym.make(env_id)
    total = 0.0
    for k in range(episodes):
        obs, _ = env.reset(seed=seed + 100 + k)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.select_action(obs))
            total += float(reward)
            over = terminated or truncated
    return total / episodes


def main(env_id: str = "Walker2d-v5", seed: int = 0, steps: int = 1_000_000, start: int = 25_000) -> None:
    env = gym.make(env_id)
    torch.manual_seed(seed)
    np.random.seed(seed)
    env.action_space.seed(seed)
    limit = float(env.action_space.high[0])
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    agent = TD3(obs_dim, act_dim, limit)
    replay = Replay(obs_dim, act_dim)
    obs, _ = env.reset(seed=seed)
    for t in range(steps):
        if t < start:
            action = env.action_space.sample()
        else:
            action = (agent.select_action(obs) + np.random.normal(0, limit * 0.1, size=act_dim)).clip(-limit, limit)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if t >= start:
            agent.train(replay)
        if terminated or truncated:
            obs, _ = env.reset()
        if (t + 1) % 5000 == 0:
            print(t + 1, evaluate(agent, env_id, seed))


if __name__ == "__main__":
    main()
