from __future__ import annotations

import argparse
import copy
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SACConfig:
    """Everything that may be tuned."""

    hidden: int = 256
    actor_lr: float = 3e-4
    critic_lr: float = 1e-3
    alpha_lr: float = 1e-3
    gamma: float = 0.99
    polyak: float = 0.005
    batch_size: int = 256
    capacity: int = 200_000
    warmup_steps: int = 1_000
    init_alpha: float = 0.2


class Batch(NamedTuple):
    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor


class Replay:
    def __init__(self, capacity: int, obs_dim: int, act_dim: int, rng: np.random.Generator) -> None:
        self._obs = torch.zeros(capacity, obs_dim)
        self._action = torch.zeros(capacity, act_dim)
        self._reward = torch.zeros(capacity, 1)
        self._next_obs = torch.zeros(capacity, obs_dim)
        self._terminated = torch.zeros(capacity, 1)
        self._capacity = capacity
        self._rng = rng
        self._next = 0
        self._len = 0

    def __len__(self) -> int:
        return self._len

    def push(self, obs: np.ndarray, action: np.ndarray, reward: float, next_obs: np.ndarray, terminated: bool) -> None:
        i = self._next
        self._obs[i] = torch.as_tensor(obs, dtype=torch.float32)
        self._action[i] = torch.as_tensor(action, dtype=torch.float32)
        self._reward[i] = reward
        self._next_obs[i] = torch.as_tensor(next_obs, dtype=torch.float32)
        self._terminated[i] = float(terminated)
        self._next = (i + 1) % self._capacity
        self._len = min(self._len + 1, self._capacity)

    def sample(self, size: int) -> Batch:
        rows = torch.from_numpy(self._rng.integers(0, self._len, size=size))
        return Batch(self._obs[rows], self._action[rows], self._reward[rows], self._next_obs[rows], self._terminated[rows])


class GaussianPolicy(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 2 * act_dim)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.head(self.body(obs)).chunk(2, dim=-1)
        return mean, log_std.clamp(-5.0, 2.0)

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """An action in (-1, 1) with gradient, and its log-density [B, 1]."""
        mean, log_std = self(obs)
        normal = torch.distributions.Normal(mean, log_std.exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(1.0 - action.pow(2) + 1e-6)
        return action, log_prob.sum(dim=-1, keepdim=True)

    @torch.no_grad()
    def mode(self, obs: Tensor) -> Tensor:
        mean, _ = self(obs)
        return torch.tanh(mean)


class TwinQ(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int) -> None:
        super().__init__()
        self.first = self._make(obs_dim + act_dim, hidden)
        self.second = self._make(obs_dim + act_dim, hidden)

    @staticmethod
    def _make(n_in: int, hidden: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat((obs, action), dim=-1)
        return self.first(x), self.second(x)


class SACAgent:
    def __init__(self, env: gym.Env, config: SACConfig, seed: int = 0) -> None:
        obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
        self.config = config
        self.scale = torch.as_tensor(env.action_space.high, dtype=torch.float32)
        self.policy = GaussianPolicy(obs_dim, act_dim, config.hidden)
        self.critic = TwinQ(obs_dim, act_dim, config.hidden)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.tensor(float(np.log(config.init_alpha)), requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=config.actor_lr)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), lr=config.critic_lr)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr=config.alpha_lr)
        self.replay = Replay(config.capacity, obs_dim, act_dim, np.random.default_rng(seed))

    @property
    def alpha(self) -> Tensor:
        return self.log_alpha.exp().detach()

    @torch.no_grad()
    def act(self, obs: np.ndarray, explore: bool = True) -> np.ndarray:
        """The action on the network's scale, in [-1, 1]."""
        x = torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0)
        action = self.policy.sample(x)[0] if explore else self.policy.mode(x)
        return action.squeeze(0).numpy()

    def to_env(self, action: np.ndarray) -> np.ndarray:
        return action * self.scale.numpy()

    def learn(self) -> dict[str, float]:
        batch = self.replay.sample(self.config.batch_size)
        critic_loss = self._update_critic(batch)
        actor_loss, log_prob = self._update_policy(batch)
        alpha_loss = self._update_alpha(log_prob)
        self._update_target()
        return {"critic": critic_loss, "actor": actor_loss, "alpha_loss": alpha_loss, "alpha": self.alpha.item()}

    def _update_critic(self, batch: Batch) -> float:
        with torch.no_grad():
            next_action, next_log_prob = self.policy.sample(batch.next_obs)
            q1, q2 = self.critic_target(batch.next_obs, next_action)
            soft_value = torch.minimum(q1, q2) - self.alpha * next_log_prob
            target = batch.reward + self.config.gamma * (1.0 - batch.terminated) * soft_value
        q1, q2 = self.critic(batch.obs, batch.action)
        loss = nn.functional.mse_loss(q1, target) + nn.functional.mse_loss(q2, target)
        self.critic_optim.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_optim.step()
        return loss.item()

    def _update_policy(self, batch: Batch) -> tuple[float, Tensor]:
        action, log_prob = self.policy.sample(batch.obs)
        q1, q2 = self.critic(batch.obs, action)
        loss = (self.alpha * log_prob - torch.minimum(q1, q2)).mean()
        self.policy_optim.zero_grad(set_to_none=True)
        loss.backward()
        self.policy_optim.step()
        return loss.item(), log_prob.detach()

    def _update_alpha(self, log_prob: Tensor) -> float:
        # too little entropy (log_prob > -target): alpha goes up
        loss = -(self.log_alpha * (log_prob + self.target_entropy)).mean()
        self.alpha_optim.zero_grad(set_to_none=True)
        loss.backward()
        self.alpha_optim.step()
        return loss.item()

    @torch.no_grad()
    def _update_target(self) -> None:
        for slow, fast in zip(self.critic_target.parameters(), self.critic.parameters(), strict=True):
            slow.lerp_(fast, self.config.polyak)


def evaluate(agent: SACAgent, env_id: str, episodes: int, seed: int) -> float:
    env = gym.make(env_id)
    returns: list[float] = []
    for k in range(episodes):
        obs, _ = env.reset(seed=seed + k)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(agent.to_env(agent.act(obs, explore=False)))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns))


def train(env_id: str, steps: int, seed: int, config: SACConfig, eval_every: int) -> SACAgent:
    torch.manual_seed(seed)
    env = gym.make(env_id)
    env.action_space.seed(seed)
    agent = SACAgent(env, config, seed)
    rng = np.random.default_rng(seed + 1)
    obs, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):
        if step <= config.warmup_steps:
            action = rng.uniform(-1.0, 1.0, size=env.action_space.shape).astype(np.float32)
        else:
            action = agent.act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(agent.to_env(action))
        agent.replay.push(obs, action, float(reward), next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        if step > config.warmup_steps:
            stats = agent.learn()
            if step % eval_every == 0:
                print(step, f"{evaluate(agent, env_id, 3, seed + 10_000):.1f}", {k: round(v, 3) for k, v in stats.items()})
    env.close()
    return agent


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=1_000)
    parser.add_argument("--eval-every", type=int, default=2_000)
    options = parser.parse_args()
    train(options.env, options.steps, options.seed, SACConfig(warmup_steps=options.warmup), options.eval_every)
