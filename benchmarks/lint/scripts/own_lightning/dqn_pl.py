"""DQN as a LightningModule with a replay dataset and an agent object."""
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataset import IterableDataset

Experience = namedtuple("Experience", field_names=["state", "action", "reward", "done", "new_state"])


class DQN(nn.Module):
    def __init__(self, obs_size, n_actions, hidden_size=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, n_actions))

    def forward(self, x):
        return self.net(x.float())


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def __len__(self):
        return len(self.buffer)

    def append(self, experience):
        self.buffer.append(experience)

    def sample(self, batch_size):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        states, actions, rewards, dones, next_states = zip(*(self.buffer[idx] for idx in indices))
        return (
            np.array(states),
            np.array(actions),
            np.array(rewards, dtype=np.float32),
            np.array(dones, dtype=bool),
            np.array(next_states),
        )


class RLDataset(IterableDataset):
    def __init__(self, buffer, sample_size=200):
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self):
        states, actions, rewards, dones, new_states = self.buffer.sample(self.sample_size)
        for i in range(len(dones)):
            yield states[i], actions[i], rewards[i], dones[i], new_states[i]


class Agent:
    def __init__(self, env, replay_buffer):
        self.env = env
        self.replay_buffer = replay_buffer
        self.reset()

    def reset(self):
        self.state, _ = self.env.reset()

    def get_action(self, net, epsilon, device):
        if np.random.random() < epsilon:
            return self.env.action_space.sample()
        state = torch.tensor(np.array([self.state]), device=device)
        q_values = net(state)
        _, action = torch.max(q_values, dim=1)
        return int(action.item())

    @torch.no_grad()
    def play_step(self, net, epsilon=0.0, device="cpu"):
        action = self.get_action(net, epsilon, device)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.replay_buffer.append(Experience(self.state, action, reward, terminated, new_state))
        self.state = new_state
        if terminated or truncated:
            self.reset()
        return reward, terminated or truncated


class DQNLightning(pl.LightningModule):
    def __init__(self, batch_size=16, lr=1e-2, env="CartPole-v1", gamma=0.99, sync_rate=10, replay_size=10_000,
                 warm_start_steps=1000, eps_last_frame=10_000, eps_start=1.0, eps_end=0.01, episode_length=200):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(self.hparams.env)
        obs_size, n_actions = self.env.observation_space.shape[0], self.env.action_space.n
        self.net = DQN(obs_size, n_actions)
        self.target_net = DQN(obs_size, n_actions)
        self.target_net.load_state_dict(self.net.state_dict())
        self.buffer = ReplayBuffer(self.hparams.replay_size)
        self.agent = Agent(self.env, self.buffer)
        self.total_reward = 0
        self.populate(self.hparams.warm_start_steps)

    def populate(self, steps):
        for _ in range(steps):
            self.agent.play_step(self.net, epsilon=1.0)

    def forward(self, x):
        return self.net(x)

    def dqn_mse_loss(self, batch):
        states, actions, rewards, dones, next_states = batch
        state_action_values = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[dones] = 0.0
            next_state_values = next_state_values.detach()
        expected_state_action_values = next_state_values * self.hparams.gamma + rewards
        return nn.MSELoss()(state_action_values, expected_state_action_values)

    def get_epsilon(self, start, end, frames):
        if self.global_step > frames:
            return end
        return start - (self.global_step / frames) * (start - end)

    def training_step(self, batch, nb_batch):
        device = self.get_device(batch)
        epsilon = self.get_epsilon(self.hparams.eps_start, self.hparams.eps_end, self.hparams.eps_last_frame)
        reward, done = self.agent.play_step(self.net, epsilon, device)
        self.total_reward += reward
        loss = self.dqn_mse_loss(batch)
        if done:
            self.log("episode_reward", float(self.total_reward))
            self.total_reward = 0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(RLDataset(self.buffer, self.hparams.episode_length), batch_size=self.hparams.batch_size)

    def get_device(self, batch):
        return batch[0].device.index if self.on_gpu else "cpu"


def main():
    pl.seed_everything(42)
    pl.Trainer(max_epochs=150, val_check_interval=50, logger=pl.loggers.CSVLogger("logs")).fit(DQNLightning())


if __name__ == "__main__":
    main()
