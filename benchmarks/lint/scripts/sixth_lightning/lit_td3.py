"""TD3 with Lightning's manual optimisation; the environment is stepped inside training_step."""
from __future__ import annotations

import copy
import os
from dataclasses import asdict, dataclass

import gymnasium as gym
import lightning.pytorch as pl
import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class HParams:
    env_id: str = "Pendulum-v1"
    seed: int = 1
    steps: int = int(os.environ.get("STEPS", 30_000))
    warmup: int = int(os.environ.get("WARMUP", 1_000))
    capacity: int = 100_000
    batch_size: int = 128
    gamma: float = 0.98
    tau: float = 0.005
    lr: float = 1e-3
    explore_std: float = 0.1
    smooth_std: float = 0.2
    smooth_clip: float = 0.5
    delay: int = 2


class Ticks(Dataset):
    """So many training steps; the data come from the replay memory."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


class Memory:
    def __init__(self, capacity, obs_dim, act_dim, seed):
        self.capacity = capacity
        self.width = 2 * obs_dim + act_dim + 2
        self.rows = np.zeros((capacity, self.width), dtype=np.float32)
        self.cuts = np.cumsum([obs_dim, act_dim, 1, obs_dim])
        self.rng = np.random.default_rng(seed)
        self.written = 0

    def add(self, obs, action, reward, next_obs, terminated):
        self.rows[self.written % self.capacity] = np.concatenate([obs, action, [reward], next_obs, [float(terminated)]])
        self.written += 1

    def sample(self, n):
        rows = self.rows[self.rng.integers(min(self.written, self.capacity), size=n)]
        return [torch.from_numpy(part) for part in np.split(rows, self.cuts, axis=1)]


class Actor(nn.Module):
    def __init__(self, n_obs, n_act, limit):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_obs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_act), nn.Tanh())
        self.limit = limit

    def forward(self, obs):
        return self.limit * self.layers(obs)


class Critic(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.one = nn.Sequential(nn.Linear(n_obs + n_act, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
        self.two = nn.Sequential(nn.Linear(n_obs + n_act, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, obs, act):
        both = torch.cat([obs, act], dim=1)
        return self.one(both), self.two(both)


class TD3(pl.LightningModule):
    def __init__(self, hp: HParams):
        super().__init__()
        self.save_hyperparameters(asdict(hp))
        self.hp = hp
        self.automatic_optimization = False
        self.env = gym.make(hp.env_id)
        self.env.action_space.seed(hp.seed)
        n_obs, n_act = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self.limit = float(self.env.action_space.high[0])
        self.actor, self.critic = Actor(n_obs, n_act, self.limit), Critic(n_obs, n_act)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.memory = Memory(hp.capacity, n_obs, n_act, hp.seed)
        self.obs, _ = self.env.reset(seed=hp.seed)
        for _ in range(hp.warmup):
            self.interact(self.env.action_space.sample())

    def interact(self, action):
        next_obs, reward, terminated, truncated, _ = self.env.step(action)
        self.memory.add(self.obs, action, reward, next_obs, terminated)
        self.obs = next_obs
        if terminated or truncated:
            self.obs, _ = self.env.reset()

    @torch.no_grad()
    def act(self, obs, noise=0.0):
        action = self.actor(torch.as_tensor(obs, dtype=torch.float32, device=self.device).unsqueeze(0)).squeeze(0).cpu().numpy()
        action = action + noise * self.limit * np.random.standard_normal(action.shape)
        return np.clip(action, -self.limit, self.limit).astype(np.float32)

    def td_target(self, reward, next_obs, terminated):
        with torch.no_grad():
            next_action = self.actor_target(next_obs)
            noise = (torch.randn_like(next_action) * self.hp.smooth_std).clamp(-self.hp.smooth_clip, self.hp.smooth_clip)
            next_action = (next_action + self.limit * noise).clamp(-self.limit, self.limit)
            q1, q2 = self.critic_target(next_obs, next_action)
            return reward + self.hp.gamma * (1 - terminated) * torch.minimum(q1, q2)

    def training_step(self, batch, batch_idx):
        self.interact(self.act(self.obs, self.hp.explore_std))
        obs, action, reward, next_obs, terminated = self.memory.sample(self.hp.batch_size)
        actor_opt, critic_opt = self.optimizers()

        target = self.td_target(reward, next_obs, terminated)
        q1, q2 = self.critic(obs, action)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()
        self.log("critic_loss", critic_loss)

        if batch_idx % self.hp.delay == 0:
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            actor_opt.zero_grad()
            self.manual_backward(actor_loss)
            actor_opt.step()
            self.log("actor_loss", actor_loss)
            self.follow(self.actor, self.actor_target)
            self.follow(self.critic, self.critic_target)

    @torch.no_grad()
    def follow(self, source, target):
        for mine, theirs in zip(source.parameters(), target.parameters()):
            theirs.lerp_(mine, self.hp.tau)

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.actor.parameters(), lr=self.hp.lr),
            torch.optim.Adam(self.critic.parameters(), lr=self.hp.lr),
        ]

    def train_dataloader(self):
        return DataLoader(Ticks(self.hp.steps), batch_size=1)


class Evaluate(Callback):
    def __init__(self, env_id, every, episodes=3):
        self.env = gym.make(env_id)
        self.every, self.episodes = every, episodes

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every:
            return
        scores = []
        for i in range(self.episodes):
            obs, _ = self.env.reset(seed=777 + i)
            score, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = self.env.step(module.act(obs))
                score += float(reward)
                over = terminated or truncated
            scores.append(score)
        print(f"step {batch_idx + 1}: return {np.mean(scores):.1f}")


if __name__ == "__main__":
    hp = HParams()
    pl.seed_everything(hp.seed)
    model = TD3(hp)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", callbacks=[Evaluate(hp.env_id, every=max(hp.steps // 10, 1))], logger=False)
    trainer.fit(model)
