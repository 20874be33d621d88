"""Double DQN as a LightningModule: the data loader is fed by the replay memory, one environment step a batch."""
import argparse
from collections import deque, namedtuple
from typing import Iterator, List, Tuple

import gymnasium as gym
import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader
from torch.utils.data.dataset import IterableDataset

Experience = namedtuple("Experience", field_names=["state", "action", "reward", "terminal", "new_state"])


class DQN(nn.Module):
    def __init__(self, obs_size: int, n_actions: int, hidden_size: int = 128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, n_actions))

    def forward(self, x):
        return self.net(x.float())


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.buffer = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self.buffer)

    def append(self, experience: Experience) -> None:
        self.buffer.append(experience)

    def sample(self, batch_size: int) -> Tuple:
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        states, actions, rewards, terminals, next_states = zip(*(self.buffer[idx] for idx in indices))
        return (
            np.array(states, dtype=np.float32),
            np.array(actions, dtype=np.int64),
            np.array(rewards, dtype=np.float32),
            np.array(terminals, dtype=bool),
            np.array(next_states, dtype=np.float32),
        )


class RLDataset(IterableDataset):
    def __init__(self, buffer: ReplayBuffer, sample_size: int) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self) -> Iterator[Tuple]:
        while True:
            states, actions, rewards, terminals, new_states = self.buffer.sample(self.sample_size)
            for i in range(self.sample_size):
                yield states[i], actions[i], rewards[i], terminals[i], new_states[i]


class Agent:
    def __init__(self, env: gym.Env, replay_buffer: ReplayBuffer, seed: int) -> None:
        self.env = env
        self.replay_buffer = replay_buffer
        self.state, _ = self.env.reset(seed=seed)

    def get_action(self, net: nn.Module, epsilon: float) -> int:
        if np.random.random() < epsilon:
            return int(self.env.action_space.sample())
        q_values = net(torch.tensor(self.state).unsqueeze(0))
        return int(torch.argmax(q_values, dim=1).item())

    @torch.no_grad()
    def play_step(self, net: nn.Module, epsilon: float) -> Tuple[float, bool]:
        action = self.get_action(net, epsilon)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.replay_buffer.append(Experience(self.state, action, reward, terminated, new_state))
        self.state = new_state
        over = terminated or truncated
        if over:
            self.state, _ = self.env.reset()
        return float(reward), over


class DoubleDQNLightning(pl.LightningModule):
    def __init__(
        self,
        env: str = "CartPole-v1",
        batch_size: int = 64,
        lr: float = 1e-3,
        gamma: float = 0.99,
        sync_rate: int = 250,
        replay_size: int = 20_000,
        warm_start_steps: int = 1_000,
        eps_last_frame: int = 8_000,
        eps_start: float = 1.0,
        eps_end: float = 0.02,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env)
        self.env.action_space.seed(seed)
        obs_size = self.env.observation_space.shape[0]
        n_actions = self.env.action_space.n

        self.net = DQN(obs_size, n_actions)
        self.target_net = DQN(obs_size, n_actions)
        self.target_net.load_state_dict(self.net.state_dict())

        self.buffer = ReplayBuffer(self.hparams.replay_size)
        self.agent = Agent(self.env, self.buffer, seed)
        self.episode_reward = 0.0
        self.total_reward = 0.0
        self.populate(self.hparams.warm_start_steps)

    def populate(self, steps: int) -> None:
        for _ in range(steps):
            self.agent.play_step(self.net, epsilon=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def double_dqn_loss(self, batch: Tuple[Tensor, ...]) -> Tensor:
        states, actions, rewards, terminals, next_states = batch
        state_action_values = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_actions = self.net(next_states).argmax(1, keepdim=True)
            next_state_values = self.target_net(next_states).gather(1, next_actions).squeeze(-1)
            next_state_values[terminals] = 0.0
            expected_state_action_values = rewards + self.hparams.gamma * next_state_values
        return nn.functional.mse_loss(state_action_values, expected_state_action_values)

    def get_epsilon(self) -> float:
        if self.global_step > self.hparams.eps_last_frame:
            return self.hparams.eps_end
        return self.hparams.eps_start - (self.global_step / self.hparams.eps_last_frame) * (self.hparams.eps_start - self.hparams.eps_end)

    def training_step(self, batch: Tuple[Tensor, ...], nb_batch: int) -> Tensor:
        epsilon = self.get_epsilon()
        reward, over = self.agent.play_step(self.net, epsilon)
        self.episode_reward += reward
        loss = self.double_dqn_loss(batch)
        if over:
            self.total_reward = self.episode_reward
            self.episode_reward = 0.0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log("loss", loss)
        self.log("epsilon", epsilon, prog_bar=True)
        self.log("total_reward", self.total_reward, prog_bar=True)
        return loss

    def configure_optimizers(self) -> List[Optimizer]:
        return [Adam(self.net.parameters(), lr=self.hparams.lr)]

    def train_dataloader(self) -> DataLoader:
        dataset = RLDataset(self.buffer, self.hparams.batch_size)
        return DataLoader(dataset=dataset, batch_size=self.hparams.batch_size)


def evaluate(module: DoubleDQNLightning, episodes: int = 10) -> float:
    env = gym.make(module.hparams.env)
    module.eval()
    total = 0.0
    for k in range(episodes):
        state, _ = env.reset(seed=300 + k)
        over = False
        while not over:
            with torch.no_grad():
                action = int(module(torch.tensor(state).unsqueeze(0)).argmax(1).item())
            state, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / episodes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=20_000)
    parser.add_argument("--warm-start-steps", type=int, default=1_000)
    cli = parser.parse_args()
    pl.seed_everything(0)
    model = DoubleDQNLightning(warm_start_steps=cli.warm_start_steps)
    trainer = pl.Trainer(accelerator="cpu", max_steps=cli.max_steps, max_epochs=-1, gradient_clip_val=10.0, enable_checkpointing=False, logger=False)
    trainer.fit(model)
    print("greedy return", evaluate(model))
