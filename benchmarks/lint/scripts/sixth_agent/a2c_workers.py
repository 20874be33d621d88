"""Advantage actor-critic over several environments at once (n-step returns)."""
from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


@dataclass
class Settings:
    env: str = "CartPole-v1"
    workers: int = 8
    horizon: int = 8
    gamma: float = 0.99
    lr: float = 7e-4
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    max_norm: float = 0.5
    updates: int = 5_000
    seed: int = 0


class Net(nn.Module):
    def __init__(self, n_in: int, n_out: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 128), nn.Tanh())
        self.pi = nn.Linear(128, n_out)
        self.v = nn.Linear(128, 1)

    def forward(self, x: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        h = self.body(x)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


@dataclass
class Rollout:
    log_probs: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    entropies: list[torch.Tensor] = field(default_factory=list)
    rewards: list[torch.Tensor] = field(default_factory=list)
    next_values: list[torch.Tensor] = field(default_factory=list)
    terminated: list[torch.Tensor] = field(default_factory=list)
    truncated: list[torch.Tensor] = field(default_factory=list)
    valid: list[torch.Tensor] = field(default_factory=list)


class A2CAgent:
    def __init__(self, settings: Settings):
        self.s = settings
        torch.manual_seed(settings.seed)
        # gymnasium's default: the step after an episode's end resets, and its action counts for nothing
        self.envs = gym.make_vec(settings.env, num_envs=settings.workers, vectorization_mode="sync")
        n_in = self.envs.single_observation_space.shape[0]
        n_out = int(self.envs.single_action_space.n)
        self.net = Net(n_in, n_out)
        self.optim = torch.optim.RMSprop(self.net.parameters(), lr=settings.lr, alpha=0.99, eps=1e-5)
        self.obs, _ = self.envs.reset(seed=settings.seed)
        self.was_done = np.zeros(settings.workers, dtype=bool)
        self.scores: list[float] = []
        self._running = np.zeros(settings.workers)

    def collect(self) -> Rollout:
        roll = Rollout()
        for _ in range(self.s.horizon):
            dist, value = self.net(torch.as_tensor(self.obs, dtype=torch.float32))
            action = dist.sample()
            next_obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            with torch.no_grad():
                _, next_value = self.net(torch.as_tensor(next_obs, dtype=torch.float32))
            roll.log_probs.append(dist.log_prob(action))
            roll.entropies.append(dist.entropy())
            roll.values.append(value)
            roll.next_values.append(next_value)
            roll.rewards.append(torch.as_tensor(reward, dtype=torch.float32))
            roll.terminated.append(torch.as_tensor(terminated, dtype=torch.float32))
            roll.truncated.append(torch.as_tensor(truncated, dtype=torch.float32))
            roll.valid.append(torch.as_tensor(~self.was_done, dtype=torch.float32))
            self._count(reward, terminated | truncated)
            self.was_done = terminated | truncated
            self.obs = next_obs
        return roll

    def _count(self, reward: np.ndarray, over: np.ndarray) -> None:
        self._running += reward
        for i in np.flatnonzero(over):
            self.scores.append(float(self._running[i]))
            self._running[i] = 0.0

    def returns(self, roll: Rollout) -> torch.Tensor:
        """n-step returns; nothing follows a real end, and the critic speaks for what a limit cut off."""
        out = []
        follow = roll.next_values[-1]
        for t in reversed(range(len(roll.rewards))):
            follow = torch.where(roll.truncated[t].bool(), roll.next_values[t], follow)
            follow = roll.rewards[t] + self.s.gamma * (1.0 - roll.terminated[t]) * follow
            out.append(follow)
        return torch.stack(out[::-1])

    def update(self, roll: Rollout) -> dict[str, float]:
        returns = self.returns(roll)
        values = torch.stack(roll.values)
        valid = torch.stack(roll.valid)
        advantages = returns - values

        policy_loss = -(torch.stack(roll.log_probs) * advantages.detach() * valid).sum() / valid.sum()
        value_loss = (advantages.pow(2) * valid).sum() / valid.sum()
        entropy = (torch.stack(roll.entropies) * valid).sum() / valid.sum()
        loss = policy_loss + self.s.value_weight * value_loss - self.s.entropy_weight * entropy

        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.s.max_norm)
        self.optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "entropy": entropy.item()}

    def train(self) -> None:
        for i in range(1, self.s.updates + 1):
            stats = self.update(self.collect())
            if i % 100 == 0 and self.scores:
                print(f"{i:6d} return {np.mean(self.scores[-50:]):.1f} " + " ".join(f"{k} {v:.3f}" for k, v in stats.items()))

    @torch.no_grad()
    def test(self, episodes: int = 10) -> float:
        env = gym.make(self.s.env)
        total = 0.0
        for k in range(episodes):
            obs, _ = env.reset(seed=self.s.seed + 1000 + k)
            over = False
            while not over:
                dist, _ = self.net(torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0))
                obs, reward, terminated, truncated, _ = env.step(int(dist.probs.argmax(-1)))
                total += float(reward)
                over = terminated or truncated
        env.close()
        return total / episodes


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    for name, default in vars(Settings()).items():
        cli.add_argument(f"--{name}", type=type(default), default=default)
    agent = A2CAgent(Settings(**vars(cli.parse_args())))
    agent.train()
    print("test", agent.test())
