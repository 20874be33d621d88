"""Deep Q-learning as a LightningModule (automatic optimisation)."""
import argparse
import copy
from collections import OrderedDict, deque, namedtuple
from typing import Iterator

import gymnasium as gym
import lightning as L
import numpy as np
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
        states, actions, rewards, terminated, new_states = zip(*(self.buffer[i] for i in indices))
        return (
            np.array(states, dtype=np.float32),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float32),
            np.array(terminated, dtype=bool),
            np.array(new_states, dtype=np.float32),
        )


class RLDataset(IterableDataset):
    """Draws afresh from the buffer in every epoch."""

    def __init__(self, buffer: ReplayBuffer, sample_size: int) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self) -> Iterator:
        states, actions, rewards, terminated, new_states = self.buffer.sample(self.sample_size)
        for i in range(len(terminated)):
            yield states[i], actions[i], rewards[i], terminated[i], new_states[i]


class Player:
    """Holds the environment's state and adds what it meets to the buffer."""

    def __init__(self, env: gym.Env, buffer: ReplayBuffer, seed: int) -> None:
        self.env = env
        self.buffer = buffer
        self.env.action_space.seed(seed)
        self.state, _ = self.env.reset(seed=seed)

    def get_action(self, net: nn.Module, epsilon: float) -> int:
        if np.random.random() < epsilon:
            return int(self.env.action_space.sample())
        q_values = net(torch.as_tensor(self.state, dtype=torch.float32).unsqueeze(0))
        return int(q_values.argmax(dim=1).item())

    @torch.no_grad()
    def play_step(self, net: nn.Module, epsilon: float) -> tuple[float, bool]:
        action = self.get_action(net, epsilon)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.buffer.append(Experience(self.state, action, reward, terminated, new_state))
        self.state = new_state
        if terminated or truncated:
            self.state, _ = self.env.reset()
        return float(reward), terminated or truncated


class DQNLightning(L.LightningModule):
    def __init__(
        self,
        env: str = "CartPole-v1",
        batch_size: int = 64,
        lr: float = 1e-3,
        gamma: float = 0.99,
        sync_rate: int = 200,
        replay_size: int = 20_000,
        warm_start_steps: int = 1_000,
        eps_last_frame: int = 10_000,
        eps_start: float = 1.0,
        eps_end: float = 0.02,
        episode_length: int = 500,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(self.hparams.env)
        obs_size = self.env.observation_space.shape[0]
        n_actions = int(self.env.action_space.n)
        self.net = nn.Sequential(OrderedDict([
            ("fc1", nn.Linear(obs_size, 128)),
            ("act1", nn.ReLU()),
            ("fc2", nn.Linear(128, 128)),
            ("act2", nn.ReLU()),
            ("out", nn.Linear(128, n_actions)),
        ]))
        self.target_net = copy.deepcopy(self.net).requires_grad_(False)
        self.buffer = ReplayBuffer(self.hparams.replay_size)
        self.player = Player(self.env, self.buffer, seed)
        self.episode_reward = 0.0
        self.last_reward = 0.0
        self.populate(self.hparams.warm_start_steps)

    def populate(self, steps: int) -> None:
        for _ in range(steps):
            self.player.play_step(self.net, epsilon=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def get_epsilon(self, frame: int) -> float:
        if frame > self.hparams.eps_last_frame:
            return self.hparams.eps_end
        share = frame / self.hparams.eps_last_frame
        return self.hparams.eps_start - share * (self.hparams.eps_start - self.hparams.eps_end)

    def dqn_loss(self, batch) -> Tensor:
        states, actions, rewards, terminated, next_states = batch
        q_sa = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_q = self.target_net(next_states).max(1)[0]
            next_q[terminated] = 0.0
            expected = rewards + self.hparams.gamma * next_q
        return nn.functional.mse_loss(q_sa, expected)

    def training_step(self, batch, batch_idx: int) -> Tensor:
        epsilon = self.get_epsilon(self.global_step)
        reward, over = self.player.play_step(self.net, epsilon)
        self.episode_reward += reward
        if over:
            self.last_reward = self.episode_reward
            self.episode_reward = 0.0
        loss = self.dqn_loss(batch)
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log_dict({"train_loss": loss, "epsilon": epsilon, "episode_reward": self.last_reward})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self) -> DataLoader:
        dataset = RLDataset(self.buffer, self.hparams.episode_length)
        return DataLoader(dataset, batch_size=self.hparams.batch_size)

    @torch.no_grad()
    def play_greedily(self, episodes: int = 5) -> float:
        env = gym.make(self.hparams.env)
        total = 0.0
        for i in range(episodes):
            state, _ = env.reset(seed=9_000 + i)
            over = False
            while not over:
                action = self.net(torch.as_tensor(state, dtype=torch.float32).unsqueeze(0)).argmax(dim=1).item()
                state, reward, terminated, truncated, _ = env.step(action)
                total += reward
                over = terminated or truncated
        env.close()
        return total / episodes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4_000)
    parser.add_argument("--warm", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    L.seed_everything(args.seed)
    model = DQNLightning(warm_start_steps=args.warm, seed=args.seed)
    trainer = L.Trainer(max_epochs=args.epochs, gradient_clip_val=10.0, log_every_n_steps=50, accelerator="cpu")
    trainer.fit(model)
    print("greedy return", model.play_greedily())


if __name__ == "__main__":
    main()
