"""DQN written as a Lightning-style module.

The tiny `LightningModule` / `fit` below stand in for the package, so the file runs alone.
"""
import argparse
from collections import OrderedDict, deque, namedtuple
from typing import Iterator, List, Tuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader
from torch.utils.data.dataset import IterableDataset

Experience = namedtuple("Experience", field_names=["state", "action", "reward", "done", "new_state"])


class LightningModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.global_step = 0
        self.logged = {}

    def log(self, name, value):
        self.logged[name] = float(value)


def fit(module: LightningModule, max_steps: int, log_every: int = 500) -> None:
    optimizer = module.configure_optimizers()
    for batch in module.train_dataloader():
        loss = module.training_step(batch, module.global_step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.net.parameters(), 10.0)
        optimizer.step()
        module.global_step += 1
        if module.global_step % log_every == 0:
            print(module.global_step, {k: round(v, 3) for k, v in module.logged.items()})
        if module.global_step >= max_steps:
            break


class DQN(nn.Module):
    def __init__(self, obs_size: int, n_actions: int, hidden_size: int = 128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_size, hidden_size),
            nn.ReLU(),
            nn.Linear(hidden_size, n_actions),
        )

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
        states, actions, rewards, dones, next_states = zip(*(self.buffer[idx] for idx in indices))
        return (
            np.array(states),
            np.array(actions),
            np.array(rewards, dtype=np.float32),
            np.array(dones, dtype=bool),
            np.array(next_states),
        )


class RLDataset(IterableDataset):
    def __init__(self, buffer: ReplayBuffer, sample_size: int = 200) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self) -> Iterator[Tuple]:
        while True:
            states, actions, rewards, dones, new_states = self.buffer.sample(self.sample_size)
            for i in range(len(dones)):
                yield states[i], actions[i], rewards[i], dones[i], new_states[i]


class Agent:
    def __init__(self, env: gym.Env, replay_buffer: ReplayBuffer, seed: int) -> None:
        self.env = env
        self.replay_buffer = replay_buffer
        self.state, _ = self.env.reset(seed=seed)

    def reset(self) -> None:
        self.state, _ = self.env.reset()

    def get_action(self, net: nn.Module, epsilon: float) -> int:
        if np.random.random() < epsilon:
            return self.env.action_space.sample()
        state = torch.tensor(np.array([self.state]))
        q_values = net(state)
        _, action = torch.max(q_values, dim=1)
        return int(action.item())

    @torch.no_grad()
    def play_step(self, net: nn.Module, epsilon: float = 0.0) -> Tuple[float, bool]:
        action = self.get_action(net, epsilon)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        # running out of time is no terminal state: keep bootstrapping there
        exp = Experience(self.state, action, reward, terminated, new_state)
        self.replay_buffer.append(exp)
        self.state = new_state
        episode_over = terminated or truncated
        if episode_over:
            self.reset()
        return float(reward), episode_over


class DQNLightning(LightningModule):
    def __init__(self, hparams: argparse.Namespace) -> None:
        super().__init__()
        self.hparams = hparams
        self.env = gym.make(hparams.env)
        self.env.action_space.seed(hparams.seed)
        obs_size = self.env.observation_space.shape[0]
        n_actions = int(self.env.action_space.n)
        self.net = DQN(obs_size, n_actions)
        self.target_net = DQN(obs_size, n_actions)
        self.target_net.load_state_dict(self.net.state_dict())
        self.buffer = ReplayBuffer(hparams.replay_size)
        self.agent = Agent(self.env, self.buffer, hparams.seed)
        self.total_reward = 0.0
        self.episode_reward = 0.0
        self.populate(hparams.warm_start_steps)

    def populate(self, steps: int) -> None:
        for _ in range(steps):
            self.agent.play_step(self.net, epsilon=1.0)
        self.agent.reset()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def dqn_loss(self, batch: List[Tensor]) -> Tensor:
        states, actions, rewards, dones, next_states = batch
        state_action_values = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[dones] = 0.0
        expected_state_action_values = rewards + self.hparams.gamma * next_state_values
        return nn.functional.smooth_l1_loss(state_action_values, expected_state_action_values)

    def get_epsilon(self) -> float:
        h = self.hparams
        if self.global_step > h.eps_last_frame:
            return h.eps_end
        return h.eps_start - (self.global_step / h.eps_last_frame) * (h.eps_start - h.eps_end)

    def training_step(self, batch: List[Tensor], nb_batch: int) -> Tensor:
        epsilon = self.get_epsilon()
        reward, done = self.agent.play_step(self.net, epsilon)
        self.episode_reward += reward
        loss = self.dqn_loss(batch)
        if done:
            self.total_reward = self.episode_reward
            self.episode_reward = 0.0
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log("total_reward", self.total_reward)
        self.log("epsilon", epsilon)
        self.log("train_loss", loss.detach())
        return loss

    def configure_optimizers(self) -> Optimizer:
        return Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self) -> DataLoader:
        # one batch per draw, so a batch never outlives the buffer it came from
        dataset = RLDataset(self.buffer, self.hparams.batch_size)
        return DataLoader(dataset=dataset, batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--max_steps", type=int, default=20000)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--sync_rate", type=int, default=200)
    parser.add_argument("--replay_size", type=int, default=20000)
    parser.add_argument("--warm_start_steps", type=int, default=1000)
    parser.add_argument("--eps_last_frame", type=int, default=8000)
    parser.add_argument("--eps_start", type=float, default=1.0)
    parser.add_argument("--eps_end", type=float, default=0.02)
    hparams = parser.parse_args()
    np.random.seed(hparams.seed)
    torch.manual_seed(hparams.seed)
    fit(DQNLightning(hparams), hparams.max_steps)
