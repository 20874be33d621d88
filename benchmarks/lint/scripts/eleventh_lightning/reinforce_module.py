"""REINFORCE with a baseline network, LightningModule with automatic optimization over both losses."""
import gymnasium as gym
import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


class Episodes(IterableDataset):
    """Every item is the whole of one freshly played episode."""

    def __init__(self, env, policy, per_epoch, gamma):
        self.env = env
        self.policy = policy
        self.per_epoch = per_epoch
        self.gamma = gamma

    def play(self):
        observations, actions, rewards = [], [], []
        observation, _ = self.env.reset()
        over = False
        while not over:
            with torch.no_grad():
                action = Categorical(logits=self.policy(torch.as_tensor(observation))).sample().item()
            observations.append(observation)
            actions.append(action)
            observation, reward, terminated, truncated, _ = self.env.step(action)
            rewards.append(reward)
            over = terminated or truncated
        return np.stack(observations), np.array(actions), rewards

    def returns(self, rewards):
        result = np.zeros(len(rewards), dtype=np.float32)
        g = 0.0
        for i, reward in enumerate(rewards[::-1]):
            g = reward + self.gamma * g
            result[len(rewards) - 1 - i] = g
        return result

    def __iter__(self):
        for _ in range(self.per_epoch):
            observations, actions, rewards = self.play()
            yield observations, actions, self.returns(rewards), float(sum(rewards))


def collate(episodes):
    observations, actions, returns, scores = zip(*episodes)
    return (
        torch.as_tensor(np.concatenate(observations)),
        torch.as_tensor(np.concatenate(actions)),
        torch.as_tensor(np.concatenate(returns)),
        torch.tensor(scores),
    )


class Reinforce(pl.LightningModule):
    def __init__(self, env_id: str = "CartPole-v1", gamma: float = 0.99, lr: float = 3e-3, episodes_per_batch: int = 8,
                 batches_per_epoch: int = 20, entropy_scale: float = 0.005):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_id)
        self.env.reset(seed=0)
        n_obs = self.env.observation_space.shape[0]
        self.policy = nn.Sequential(nn.Linear(n_obs, 64), nn.ReLU(), nn.Linear(64, int(self.env.action_space.n)))
        self.baseline = nn.Sequential(nn.Linear(n_obs, 64), nn.ReLU(), nn.Linear(64, 1))

    def train_dataloader(self):
        hp = self.hparams
        episodes = Episodes(self.env, self.policy, hp.episodes_per_batch * hp.batches_per_epoch, hp.gamma)
        return DataLoader(episodes, batch_size=hp.episodes_per_batch, collate_fn=collate)

    def forward(self, observations):
        return Categorical(logits=self.policy(observations)), self.baseline(observations).squeeze(-1)

    def training_step(self, batch, batch_idx):
        observations, actions, returns, scores = batch
        dist, baseline = self(observations)
        advantage = returns - baseline.detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -(dist.log_prob(actions) * advantage).mean()
        baseline_loss = nn.functional.mse_loss(baseline, returns)
        loss = policy_loss + 0.5 * baseline_loss - self.hparams.entropy_scale * dist.entropy().mean()
        self.log("score", scores.mean(), prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    pl.seed_everything(1)
    pl.Trainer(max_epochs=20, accelerator="cpu", logger=False, gradient_clip_val=1.0).fit(Reinforce())
