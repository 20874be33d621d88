from collections import deque
from copy import deepcopy

import gymnasium as gym
import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def append(self, experience):
        self.buffer.append(experience)

    def sample(self, batch_size):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        states, actions, rewards, terminals, next_states = zip(*(self.buffer[idx] for idx in indices))
        return (
            np.array(states), np.array(actions), np.array(rewards, dtype=np.float32),
            np.array(terminals, dtype=bool), np.array(next_states),
        )


class ReplayDataset(IterableDataset):
    def __init__(self, buffer, sample_size=200):
        self.buffer, self.sample_size = buffer, sample_size

    def __iter__(self):
        states, actions, rewards, terminals, next_states = self.buffer.sample(self.sample_size)
        for i in range(len(terminals)):
            yield states[i], actions[i], rewards[i], terminals[i], next_states[i]


class Runner:
    def __init__(self, env, buffer):
        self.env, self.buffer = env, buffer
        self.state, _ = env.reset(seed=0)

    @torch.no_grad()
    def play_step(self, net, epsilon):
        if np.random.random() < epsilon:
            action = self.env.action_space.sample()
        else:
            action = int(net(torch.tensor(self.state).unsqueeze(0)).argmax(dim=1))
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.buffer.append((self.state, action, reward, terminated, new_state))
        self.state = new_state
        if terminated or truncated:
            self.state, _ = self.env.reset()
        return reward, terminated or truncated


class DQNLightning(pl.LightningModule):
    def __init__(self, env_name="CartPole-v1", lr=1e-3, gamma=0.99, batch_size=64, sync_rate=200, warm_start_steps=1000, eps_last_step=5000):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env_name)
        n_obs, n_act = self.env.observation_space.shape[0], self.env.action_space.n
        self.net = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_act))
        self.target_net = deepcopy(self.net)
        self.buffer = ReplayBuffer(50_000)
        self.runner = Runner(self.env, self.buffer)
        self.total_reward = 0.0
        for _ in range(self.hparams.warm_start_steps):
            self.runner.play_step(self.net, epsilon=1.0)

    def forward(self, x):
        return self.net(x)

    def get_epsilon(self, start=1.0, end=0.02):
        return max(end, start - self.global_step * (start - end) / self.hparams.eps_last_step)

    def dqn_mse_loss(self, batch):
        states, actions, rewards, terminals, next_states = batch
        state_action_values = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[terminals] = 0.0
        expected_state_action_values = rewards + self.hparams.gamma * next_state_values
        return nn.MSELoss()(state_action_values, expected_state_action_values)

    def training_step(self, batch, batch_idx):
        epsilon = self.get_epsilon()
        reward, over = self.runner.play_step(self.net, epsilon)
        self.total_reward += reward
        loss = self.dqn_mse_loss(batch)
        if over:
            self.log("episode_return", self.total_reward)
            self.total_reward = 0.0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(ReplayDataset(self.buffer), batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    pl.seed_everything(0)
    pl.Trainer(max_epochs=500, accelerator="auto").fit(DQNLightning())
