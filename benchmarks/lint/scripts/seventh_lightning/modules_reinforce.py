"""REINFORCE with a value baseline in a home-made trainer with Lightning's hooks (setup, training_step, on_epoch_end, validation_step)."""
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class Module(nn.Module, ABC):
    trainer: Trainer

    @abstractmethod
    def configure_optimizers(self) -> dict[str, torch.optim.Optimizer]: ...

    @abstractmethod
    def collect(self) -> Any: ...

    @abstractmethod
    def training_step(self, batch: Any) -> dict[str, torch.Tensor]: ...

    def on_epoch_end(self) -> None: ...

    def validation_step(self) -> float:
        raise NotImplementedError


class Trainer:
    def __init__(self, max_epochs: int, steps_per_epoch: int, clip: float | None = None, validate_every: int = 5) -> None:
        self.max_epochs, self.steps_per_epoch, self.clip, self.validate_every = max_epochs, steps_per_epoch, clip, validate_every
        self.logged: dict[str, float] = {}

    def fit(self, module: Module) -> None:
        module.trainer = self
        optimizers = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            for _ in range(self.steps_per_epoch):
                module.train()
                losses = module.training_step(module.collect())
                for name, optimizer in optimizers.items():
                    optimizer.zero_grad()
                    losses[name].backward()
                    if self.clip is not None:
                        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], self.clip)
                    optimizer.step()
                    self.logged[name] = losses[name].item()
            module.on_epoch_end()
            if (epoch + 1) % self.validate_every == 0:
                module.eval()
                with torch.no_grad():
                    self.logged["val"] = module.validation_step()
                print(epoch + 1, {k: round(v, 3) for k, v in self.logged.items()})


class Reinforce(Module):
    def __init__(self, env_id: str, batch_episodes: int = 5, gamma: float = 0.99, policy_lr: float = 3e-3, value_lr: float = 5e-3, entropy: float = 0.01, seed: int = 0) -> None:
        super().__init__()
        self.env = gym.make(env_id)
        self.val_env = gym.make(env_id)
        self.batch_episodes, self.gamma, self.entropy = batch_episodes, gamma, entropy
        self.policy_lr, self.value_lr = policy_lr, value_lr
        n_obs, n_act = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.policy = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, n_act))
        self.baseline = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
        self.seed: int | None = seed
        self.recent: list[float] = []

    def configure_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        policy = torch.optim.Adam(self.policy.parameters(), lr=self.policy_lr)
        baseline = torch.optim.Adam(self.baseline.parameters(), lr=self.value_lr)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(policy, 0.995)
        return {"policy": policy, "baseline": baseline}

    def dist(self, obs: torch.Tensor) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.policy(obs))

    @torch.no_grad()
    def collect(self) -> dict[str, torch.Tensor]:
        obs_list, action_list, return_list = [], [], []
        for _ in range(self.batch_episodes):
            obs, _ = self.env.reset(seed=self.seed)
            self.seed = None  # only the very first reset is seeded, later ones go on from there
            rewards, over = [], False
            while not over:
                x = torch.as_tensor(obs, dtype=torch.float32)
                action = self.dist(x).sample()
                obs_list.append(x)
                action_list.append(action)
                obs, reward, terminated, truncated, _ = self.env.step(int(action))
                rewards.append(float(reward))
                over = terminated or truncated
            future = 0.0 if terminated else self.baseline(torch.as_tensor(obs, dtype=torch.float32)[None]).item()
            episode_returns = []
            for reward in reversed(rewards):
                future = reward + self.gamma * future
                episode_returns.append(future)
            return_list += episode_returns[::-1]
            self.recent.append(sum(rewards))
        return {"obs": torch.stack(obs_list), "action": torch.stack(action_list), "returns": torch.tensor(return_list)}

    def training_step(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        dist = self.dist(batch["obs"])
        baseline = self.baseline(batch["obs"])
        advantage = batch["returns"] - baseline.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        policy_loss = -(dist.log_prob(batch["action"]) * advantage).mean() - self.entropy * dist.entropy().mean()
        baseline_loss = nn.functional.mse_loss(baseline, batch["returns"])
        return {"policy": policy_loss, "baseline": baseline_loss}

    def on_epoch_end(self) -> None:
        self.schedule.step()
        self.trainer.logged["train_return"] = float(np.mean(self.recent[-50:]))

    def validation_step(self) -> float:
        scores = []
        for k in range(5):
            obs, _ = self.val_env.reset(seed=40_000 + k)
            score, over = 0.0, False
            while not over:
                logits = self.policy(torch.as_tensor(obs, dtype=torch.float32))
                obs, reward, terminated, truncated, _ = self.val_env.step(int(logits.argmax()))
                score += float(reward)
                over = terminated or truncated
            scores.append(score)
        return float(np.mean(scores))


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(max_epochs=int(os.environ.get("EPOCHS", 60)), steps_per_epoch=5, clip=1.0)
    trainer.fit(Reinforce("CartPole-v1"))
