"""Advantage actor-critic with GAE, Lightning style with manual optimisation; one epoch is one rollout of several environments."""
import os

import gymnasium as gym
import lightning.pytorch as pl
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, Dataset


class RolloutDataset(Dataset):
    """A placeholder: Lightning wants batches, we make our own data."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i)


class Policy(nn.Module):
    def __init__(self, n_obs, n_act, width=64):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, n_act))
        self.log_std = nn.Parameter(torch.full((n_act,), -0.3))

    def forward(self, obs):
        return Normal(self.mean(obs), self.log_std.exp().expand_as(self.mean(obs)))


class LitA2C(pl.LightningModule):
    def __init__(self, env_id="Pendulum-v1", n_envs=8, n_steps=32, gamma=0.95, lam=0.95, actor_lr=3e-4, critic_lr=1e-3, ent_coef=1e-3, seed=0):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.envs = gym.make_vec(env_id, num_envs=n_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP})
        n_obs, n_act = self.envs.single_observation_space.shape[0], self.envs.single_action_space.shape[0]
        self.policy = Policy(n_obs, n_act)
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        obs, _ = self.envs.reset(seed=seed)
        self.current = torch.as_tensor(obs, dtype=torch.float32)
        self.resetting = torch.zeros(n_envs, dtype=torch.bool)
        self.returns = np.zeros(n_envs)
        self.finished = []

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.policy.parameters(), lr=self.hparams.actor_lr),
            torch.optim.Adam(self.critic.parameters(), lr=self.hparams.critic_lr),
        )

    def train_dataloader(self):
        return DataLoader(RolloutDataset(50), batch_size=1)

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    @torch.no_grad()
    def rollout(self):
        T, N = self.hparams.n_steps, self.hparams.n_envs
        low, high = self.envs.single_action_space.low, self.envs.single_action_space.high
        data = {
            "obs": torch.zeros(T, N, self.current.shape[1]),
            "action": torch.zeros(T, N, len(low)),
            "reward": torch.zeros(T, N),
            "terminated": torch.zeros(T, N),
            "ended": torch.zeros(T, N),
            "next_obs": torch.zeros(T, N, self.current.shape[1]),
            "valid": torch.zeros(T, N),
        }
        for t in range(T):
            action = self.policy(self.current).sample()
            obs, reward, terminated, truncated, _ = self.envs.step(np.clip(action.numpy(), low, high))
            data["obs"][t] = self.current
            data["action"][t] = action
            data["reward"][t] = torch.as_tensor(reward, dtype=torch.float32) / 10.0
            data["terminated"][t] = torch.as_tensor(terminated, dtype=torch.float32)
            data["ended"][t] = torch.as_tensor(terminated | truncated, dtype=torch.float32)
            data["next_obs"][t] = torch.as_tensor(obs, dtype=torch.float32)
            # with next-step autoreset the step after an end only resets: the action was ignored
            data["valid"][t] = (~self.resetting).float()
            self.resetting = torch.as_tensor(terminated | truncated)
            self.current = torch.as_tensor(obs, dtype=torch.float32)

            self.returns += reward
            for i in np.flatnonzero(terminated | truncated):
                self.finished.append(self.returns[i])
                self.returns[i] = 0.0
        return data

    @torch.no_grad()
    def gae(self, data):
        values = self.value(data["obs"])
        next_values = self.value(data["next_obs"])
        deltas = data["reward"] + self.hparams.gamma * next_values * (1.0 - data["terminated"]) - values
        advantages = torch.zeros_like(deltas)
        carry = torch.zeros(self.hparams.n_envs)
        for t in reversed(range(self.hparams.n_steps)):
            carry = deltas[t] + self.hparams.gamma * self.hparams.lam * (1.0 - data["ended"][t]) * carry
            # a reset row is nobody's transition
            carry = carry * data["valid"][t]
            advantages[t] = carry
        return advantages, advantages + values

    def training_step(self, batch, batch_idx):
        actor_optim, critic_optim = self.optimizers()
        data = self.rollout()
        advantages, targets = self.gae(data)
        keep = data["valid"].flatten().bool()
        obs = data["obs"].flatten(0, 1)[keep]
        action = data["action"].flatten(0, 1)[keep]
        advantages, targets = advantages.flatten()[keep], targets.flatten()[keep]

        critic_loss = F.mse_loss(self.value(obs), targets)
        critic_optim.zero_grad()
        self.manual_backward(critic_loss)
        critic_optim.step()

        dist = self.policy(obs)
        log_prob = dist.log_prob(action).sum(-1)
        weight = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        actor_loss = -(log_prob * weight).mean() - self.hparams.ent_coef * dist.entropy().sum(-1).mean()
        actor_optim.zero_grad()
        self.manual_backward(actor_loss)
        nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
        actor_optim.step()

        self.log_dict({"actor_loss": actor_loss, "critic_loss": critic_loss})
        if self.finished:
            self.log("return", float(np.mean(self.finished[-20:])), prog_bar=True)

    def act(self, obs):
        with torch.no_grad():
            return self.policy(torch.as_tensor(obs, dtype=torch.float32)).mean.numpy()


def evaluate(module, env_id="Pendulum-v1", episodes=5):
    env = gym.make(env_id)
    scores = []
    for k in range(episodes):
        obs, _ = env.reset(seed=600 + k)
        score, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(np.clip(module.act(obs), env.action_space.low, env.action_space.high))
            score += reward
            over = terminated or truncated
        scores.append(score)
    return np.mean(scores)


if __name__ == "__main__":
    pl.seed_everything(3)
    module = LitA2C()
    trainer = pl.Trainer(max_epochs=int(os.environ.get("EPOCHS", 60)), accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(module)
    print("mean action return", evaluate(module))
