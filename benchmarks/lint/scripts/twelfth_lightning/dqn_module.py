"""Deep Q-learning as a LightningModule: the environment is stepped in training_step, the batches come out of the memory."""
import argparse
from collections import OrderedDict, deque
from typing import Iterator, NamedTuple

import gymnasium as gym
import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.utils.data import DataLoader
from torch.utils.data.dataset import IterableDataset


class Experience(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    done: bool
    new_state: np.ndarray
    discount: float


class QNet(nn.Module):
    def __init__(self, obs_size: int, n_actions: int, hidden_size: int = 128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_size, hidden_size),
            nn.ReLU(),
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(),
            nn.Linear(hidden_size, n_actions),
        )

    def forward(self, x):
        return self.net(x.float())


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.buffer: deque = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self.buffer)

    def append(self, experience: Experience) -> None:
        self.buffer.append(experience)

    def sample(self, batch_size: int):
        indices = np.random.choice(len(self.buffer), batch_size, replace=False)
        return zip(*(self.buffer[idx] for idx in indices))


class RLDataset(IterableDataset):
    """What the dataloader asks; each epoch draws `sample_size` experiences."""

    def __init__(self, buffer: ReplayBuffer, sample_size: int) -> None:
        self.buffer = buffer
        self.sample_size = sample_size

    def __iter__(self) -> Iterator:
        states, actions, rewards, dones, new_states, discounts = self.buffer.sample(self.sample_size)
        for i in range(len(dones)):
            yield states[i], actions[i], np.float32(rewards[i]), dones[i], new_states[i], np.float32(discounts[i])


class NStepAgent:
    """Plays, and writes n-step transitions: the state, the discounted rewards of n steps, and the state after them."""

    def __init__(self, env: gym.Env, replay_buffer: ReplayBuffer, n_steps: int, gamma: float) -> None:
        self.env = env
        self.replay_buffer = replay_buffer
        self.n_steps = n_steps
        self.gamma = gamma
        self.pending: deque = deque()
        self.episodes = 0
        self.reset()

    def reset(self) -> None:
        self.pending.clear()
        self.state, _ = self.env.reset(seed=17 if self.episodes == 0 else None)
        self.episodes += 1

    def get_action(self, net: nn.Module, epsilon: float) -> int:
        if np.random.random() < epsilon:
            return int(self.env.action_space.sample())
        q_values = net(torch.tensor(self.state).unsqueeze(0))
        return int(q_values.argmax(dim=1).item())

    def _flush_one(self, done: bool, new_state: np.ndarray) -> None:
        """Write the oldest pending step with all the rewards that came since."""
        ret = 0.0
        for _, _, reward in reversed(self.pending):
            ret = reward + self.gamma * ret
        state, action, _ = self.pending[0]
        self.replay_buffer.append(Experience(state, action, ret, done, new_state, self.gamma ** len(self.pending)))
        self.pending.popleft()

    @torch.no_grad()
    def play_step(self, net: nn.Module, epsilon: float = 0.0) -> tuple[float, bool]:
        action = self.get_action(net, epsilon)
        new_state, reward, terminated, truncated, _ = self.env.step(action)
        self.pending.append((self.state, action, float(reward)))

        if terminated or truncated:
            while self.pending:  # what is left is shorter than n
                self._flush_one(terminated, new_state)
        elif len(self.pending) == self.n_steps:
            self._flush_one(False, new_state)

        self.state = new_state
        if terminated or truncated:
            self.reset()
        return float(reward), terminated or truncated


class DQNLightning(pl.LightningModule):
    def __init__(
        self,
        env: str = "CartPole-v1",
        batch_size: int = 64,
        lr: float = 1e-3,
        gamma: float = 0.99,
        n_steps: int = 3,
        sync_rate: int = 200,
        replay_size: int = 20_000,
        warm_start_size: int = 1_000,
        eps_last_frame: int = 8_000,
        eps_start: float = 1.0,
        eps_end: float = 0.02,
        episode_length: int = 256,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.env = gym.make(env)
        self.env.action_space.seed(17)
        obs_size = self.env.observation_space.shape[0]
        n_actions = self.env.action_space.n

        self.net = QNet(obs_size, n_actions)
        self.target_net = QNet(obs_size, n_actions)
        self.target_net.load_state_dict(self.net.state_dict())
        self.target_net.requires_grad_(False)

        self.buffer = ReplayBuffer(replay_size)
        self.agent = NStepAgent(self.env, self.buffer, n_steps, gamma)
        self.episode_reward = 0.0
        self.finished: deque = deque(maxlen=20)
        self.populate(warm_start_size)

    def populate(self, steps: int) -> None:
        for _ in range(steps):
            self.agent.play_step(self.net, epsilon=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def dqn_mse_loss(self, batch) -> Tensor:
        states, actions, rewards, dones, next_states, discounts = batch
        state_action_values = self.net(states).gather(1, actions.long().unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            next_state_values = self.target_net(next_states).max(1)[0]
            next_state_values[dones] = 0.0
        expected_state_action_values = rewards + discounts * next_state_values
        return nn.functional.mse_loss(state_action_values, expected_state_action_values)

    def get_epsilon(self) -> float:
        if self.global_step > self.hparams.eps_last_frame:
            return self.hparams.eps_end
        share = self.global_step / self.hparams.eps_last_frame
        return self.hparams.eps_start + share * (self.hparams.eps_end - self.hparams.eps_start)

    def training_step(self, batch, batch_idx) -> OrderedDict:
        epsilon = self.get_epsilon()
        reward, done = self.agent.play_step(self.net, epsilon)
        self.episode_reward += reward
        self.log("epsilon", epsilon)

        loss = self.dqn_mse_loss(batch)

        if done:
            self.finished.append(self.episode_reward)
            self.episode_reward = 0.0

        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())

        self.log_dict({"reward": reward, "train_loss": loss.detach(), "steps": float(self.global_step)})
        return OrderedDict({"loss": loss})

    def on_train_epoch_end(self) -> None:
        if self.current_epoch % 100 == 0 and self.finished:
            self.print(f"epoch {self.current_epoch}: return {np.mean(self.finished):.1f}, epsilon {self.get_epsilon():.2f}")

    def configure_optimizers(self):
        return Adam(self.net.parameters(), lr=self.hparams.lr)

    def train_dataloader(self) -> DataLoader:
        dataset = RLDataset(self.buffer, self.hparams.episode_length)
        return DataLoader(dataset=dataset, batch_size=self.hparams.batch_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5_000)
    parser.add_argument("--warm-start", type=int, default=1_000)
    args = parser.parse_args()
    pl.seed_everything(17)
    model = DQNLightning(warm_start_size=args.warm_start)
    # the dataset draws anew in every epoch
    trainer = pl.Trainer(accelerator="cpu", max_epochs=args.epochs, logger=False, enable_checkpointing=False, gradient_clip_val=10.0)
    trainer.fit(model)
