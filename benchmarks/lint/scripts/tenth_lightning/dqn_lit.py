"""DQN as a LightningModule: the agent steps the environment inside training_step, batches come of an IterableDataset over the buffer."""

import copy
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

Experience = namedtuple("Experience", ["state", "action", "reward", "terminated", "new_state"])


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.buffer = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self.buffer)

    def append(self, experience: Experience) -> None:
        self.buffer.append(experience)

    def sample(self, batch_size: int):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        states, actions, rewards, terminations, new_states = zip(*(self.buffer[i] for i in indices))
        return (
            np.array(states, dtype=np.float32),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float32),
            np.array(terminations, dtype=bool),
            np.array(new_states, dtype=np.float32),
        )


class RLDataset(IterableDataset):
    def __init__(self, buffer: ReplayBuffer, sample_size: int) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self):
        states, actions, rewards, terminations, new_states = self.buffer.sample(self.sample_size)
        for i in range(len(terminations)):
            yield states[i], actions[i], rewards[i], terminations[i], new_states[i]


class Agent:
    def __init__(self, env: gym.Env, replay_buffer: ReplayBuffer) -> None:
        self.env = env
        self.replay_buffer = replay_buffer
        self.reset()

    def reset(self) -> None:
        self.state, _ = self.env.reset()

    def get_action(self, net: nn.Module, epsilon: float, device) -> int:
        if np.random.random() < epsilon:
            return int(self.env.action_space.sample())
        state = torch.tensor(self.state[None], dtype=torch.float32, device=device)
        _, action = torch.max(net(state), dim=1)
        return int(action.item())

    @torch.no_grad()
    def play_step(self, net: nn.Module, epsilon: float = 0.0, device="cpu"):
        action = self.get_action(net, epsilon, device)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.replay_buffer.append(Experience(self.state, action, reward, terminated, new_state))
        self.state = new_state
        over = terminated or truncated
        if over:
            self.reset()
        return reward, over


class DQNLightning(pl.LightningModule):
    def __init__(self, env="CartPole-v1", batch_size=32, lr=1e-3, gamma=0.99, sync_rate=200, replay_size=10000,
                 warm_start_steps=1000, eps_last_frame=5000, eps_start=1.0, eps_end=0.02, episode_length=200):
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(self.hparams.env)
        n_obs, n_actions = self.env.observation_space.shape[0], int(self.env.action_space.n)
        self.net = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_actions))
        self.target_net = copy.deepcopy(self.net)
        self.buffer = ReplayBuffer(self.hparams.replay_size)
        self.agent = Agent(self.env, self.buffer)
        self.total_reward = 0.0
        self.episode_reward = 0.0
        self.populate(self.hparams.warm_start_steps)

    def populate(self, steps: int) -> None:
        for _ in range(steps):
            self.agent.play_step(self.net, epsilon=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def dqn_mse_loss(self, batch) -> Tensor:
        states, actions, rewards, terminations, next_states = batch
        state_action_values = self.net(states).gather(1, actions.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[terminations] = 0.0
        expected = rewards + self.hparams.gamma * next_state_values
        return nn.functional.mse_loss(state_action_values, expected)

    def get_epsilon(self, start: float, end: float, frames: int) -> float:
        if self.global_step > frames:
            return end
        return start - (self.global_step / frames) * (start - end)

    def training_step(self, batch, nb_batch) -> Tensor:
        epsilon = self.get_epsilon(self.hparams.eps_start, self.hparams.eps_end, self.hparams.eps_last_frame)
        reward, over = self.agent.play_step(self.net, epsilon, self.device)
        self.episode_reward += reward
        loss = self.dqn_mse_loss(batch)
        if over:
            self.total_reward = self.episode_reward
            self.episode_reward = 0.0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log_dict({"train_loss": loss, "epsilon": epsilon, "total_reward": self.total_reward}, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self) -> DataLoader:
        dataset = RLDataset(self.buffer, self.hparams.episode_length)
        return DataLoader(dataset=dataset, batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    pl.seed_everything(42)
    trainer = pl.Trainer(accelerator="auto", devices=1, max_epochs=2000, logger=False)
    trainer.fit(DQNLightning())
