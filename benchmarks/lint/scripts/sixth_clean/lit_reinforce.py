import gymnasium as gym
import lightning.pytorch as pl
import numpy as np
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Episodes(IterableDataset):
    """Plays whole episodes with the current policy and hands out (state, action, weight)."""

    def __init__(self, env, module, n_episodes, gamma):
        self.env, self.module, self.n, self.gamma = env, module, n_episodes, gamma

    def __iter__(self):
        states, actions, weights, lengths = [], [], [], []
        for _ in range(self.n):
            rewards = []
            state, _ = self.env.reset()
            over = False
            while not over:
                with torch.no_grad():
                    logits = self.module(torch.as_tensor(state, dtype=torch.float32))
                action = torch.distributions.Categorical(logits=logits).sample().item()
                states.append(state)
                actions.append(action)
                state, reward, terminated, truncated, _ = self.env.step(action)
                rewards.append(reward)
                over = terminated or truncated
            total, to_go = 0.0, []
            for reward in reversed(rewards):
                total = reward + self.gamma * total
                to_go.append(total)
            weights.extend(reversed(to_go))
            lengths.append(len(rewards))
        self.module.mean_length = float(np.mean(lengths))
        weights = np.array(weights, dtype=np.float32)
        weights = (weights - weights.mean()) / (weights.std() + 1e-6)
        yield np.array(states, dtype=np.float32), np.array(actions), weights


class Reinforce(pl.LightningModule):
    def __init__(self, env_id="CartPole-v1", lr=5e-3, gamma=0.99, n_episodes=10, entropy=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_id)
        self.policy = nn.Sequential(
            nn.Linear(self.env.observation_space.shape[0], 64), nn.ReLU(), nn.Linear(64, int(self.env.action_space.n))
        )
        self.mean_length = 0.0

    def forward(self, x):
        return self.policy(x)

    def training_step(self, batch, batch_idx):
        states, actions, weights = batch
        dist = torch.distributions.Categorical(logits=self(states))
        loss = -(dist.log_prob(actions) * weights).mean() - self.hparams.entropy * dist.entropy().mean()
        self.log("loss", loss)
        self.log("length", self.mean_length, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        data = Episodes(self.env, self, self.hparams.n_episodes, self.hparams.gamma)
        return DataLoader(data, batch_size=None)


if __name__ == "__main__":
    pl.seed_everything(12)
    model = Reinforce()
    model.env.reset(seed=12)
    pl.Trainer(max_epochs=int(os.environ.get("EPOCHS", 200)), logger=False, accelerator="cpu").fit(model)
    print("mean length of the last batch", model.mean_length)
