"""Deep Q-learning as a LightningModule: the environment is stepped inside training_step, the batches come from a replay dataset."""

from collections import deque
from typing import Iterator, NamedTuple

import gymnasium as gym
import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset


class Experience(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    terminated: bool
    new_state: np.ndarray


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.buffer: deque = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self.buffer)

    def append(self, experience: Experience) -> None:
        self.buffer.append(experience)

    def sample(self, batch_size: int):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        states, actions, rewards, terminated, new_states = zip(*(self.buffer[i] for i in indices))
        return (
            np.array(states, dtype=np.float32),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float32),
            np.array(terminated, dtype=bool),
            np.array(new_states, dtype=np.float32),
        )


class RLDataset(IterableDataset):
    """Yields single experiences of a fresh sample; the loader puts them together again."""

    def __init__(self, buffer: ReplayBuffer, sample_size: int) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self) -> Iterator:
        states, actions, rewards, terminated, new_states = self.buffer.sample(self.sample_size)
        for i in range(len(terminated)):
            yield states[i], actions[i], rewards[i], terminated[i], new_states[i]


class Player:
    """Holds the environment, and remembers each step that it takes."""

    def __init__(self, env: gym.Env, buffer: ReplayBuffer) -> None:
        self.env = env
        self.buffer = buffer
        self.state, _ = env.reset(seed=0)

    def choose(self, net: nn.Module, epsilon: float) -> int:
        if np.random.random() < epsilon:
            return int(self.env.action_space.sample())
        with torch.no_grad():
            q_values = net(torch.as_tensor(self.state).unsqueeze(0))
        return int(q_values.argmax(dim=1))

    def play_step(self, net: nn.Module, epsilon: float) -> tuple[float, bool]:
        action = self.choose(net, epsilon)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.buffer.append(Experience(self.state, action, float(reward), terminated, new_state))
        self.state = new_state
        if terminated or truncated:
            self.state, _ = self.env.reset()
        return float(reward), terminated or truncated


class DQNLightning(L.LightningModule):
    def __init__(self, env_id="CartPole-v1", batch_size=64, lr=1e-3, gamma=0.99, sync_rate=100, replay_size=20_000, warm_start_size=1000,
                 eps_last_step=5000, eps_start=1.0, eps_end=0.02):
        super().__init__()
        self.save_hyperparameters()
        env = gym.make(env_id)
        n_obs, n_actions = env.observation_space.shape[0], int(env.action_space.n)
        self.net = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_actions))
        self.target_net = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_actions))
        self.target_net.load_state_dict(self.net.state_dict())
        self.buffer = ReplayBuffer(replay_size)
        self.player = Player(env, self.buffer)
        self.episode_reward = 0.0
        self.total_reward = 0.0
        for _ in range(warm_start_size):
            self.player.play_step(self.net, epsilon=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def get_epsilon(self) -> float:
        fraction = min(self.global_step / self.hparams.eps_last_step, 1.0)
        return self.hparams.eps_start + fraction * (self.hparams.eps_end - self.hparams.eps_start)

    def dqn_mse_loss(self, batch) -> Tensor:
        states, actions, rewards, terminated, next_states = batch
        state_action_values = self.net(states).gather(1, actions.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[terminated] = 0.0
        expected_state_action_values = rewards + self.hparams.gamma * next_state_values
        return nn.functional.mse_loss(state_action_values, expected_state_action_values)

    def training_step(self, batch, batch_idx: int) -> Tensor:
        reward, over = self.player.play_step(self.net, self.get_epsilon())
        self.episode_reward += reward
        if over:
            self.total_reward = self.episode_reward
            self.episode_reward = 0.0
        loss = self.dqn_mse_loss(batch)
        self.log("total_reward", self.total_reward, prog_bar=True)
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx) -> None:
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(RLDataset(self.buffer, self.hparams.batch_size), batch_size=self.hparams.batch_size)


def test(model: DQNLightning, episodes: int = 10) -> float:
    env = gym.make(model.hparams.env_id)
    model.eval()
    rewards = []
    for episode in range(episodes):
        state, _ = env.reset(seed=2000 + episode)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = int(model(torch.as_tensor(state).unsqueeze(0)).argmax(dim=1))
            state, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
        rewards.append(total)
    return float(np.mean(rewards))


if __name__ == "__main__":
    import sys

    L.seed_everything(1)
    model = DQNLightning()
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 15_000,
        gradient_clip_val=10.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model)
    print("greedy:", test(model))
