"""A big training system: configuration, network, n-step memory, agent, trainer."""
import argparse
import logging
import os
from collections import deque
from typing import Dict, List, Optional, Tuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Adam

logger = logging.getLogger(__name__)


class DuelingNetwork(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, hidden: int = 128) -> None:
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU())
        self.advantage_stream = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out_dim))
        self.value_stream = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        feature = self.feature(x)
        value = self.value_stream(feature)
        advantage = self.advantage_stream(feature)
        return value + advantage - advantage.mean(dim=-1, keepdim=True)


class NStepReplay:
    def __init__(self, obs_dim: int, size: int, batch_size: int, n_step: int, gamma: float):
        self.obs_buf = np.zeros([size, obs_dim], dtype=np.float32)
        self.next_obs_buf = np.zeros([size, obs_dim], dtype=np.float32)
        self.acts_buf = np.zeros([size], dtype=np.int64)
        self.rews_buf = np.zeros([size], dtype=np.float32)
        self.done_buf = np.zeros(size, dtype=np.float32)
        self.max_size, self.batch_size = size, batch_size
        self.ptr, self.size = 0, 0
        self.n_step_buffer = deque(maxlen=n_step)
        self.n_step, self.gamma = n_step, gamma

    def store(self, obs, act, rew, next_obs, done, over) -> None:
        self.n_step_buffer.append((obs, act, rew, next_obs, done, over))
        if len(self.n_step_buffer) < self.n_step:
            return
        rew, next_obs, done = self._get_n_step_info()
        obs, act = self.n_step_buffer[0][:2]
        self.obs_buf[self.ptr] = obs
        self.next_obs_buf[self.ptr] = next_obs
        self.acts_buf[self.ptr] = act
        self.rews_buf[self.ptr] = rew
        self.done_buf[self.ptr] = done
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def _get_n_step_info(self):
        rew, next_obs, done, over = self.n_step_buffer[-1][2:]
        for transition in reversed(list(self.n_step_buffer)[:-1]):
            r, n_o, d, o = transition[2:]
            rew = r + self.gamma * rew * (1 - o)
            next_obs, done = (n_o, d) if o else (next_obs, done)
        return rew, next_obs, done

    def sample_batch(self) -> Dict[str, np.ndarray]:
        indices = np.random.choice(self.size, size=self.batch_size, replace=False)
        return dict(
            obs=self.obs_buf[indices],
            next_obs=self.next_obs_buf[indices],
            acts=self.acts_buf[indices],
            rews=self.rews_buf[indices],
            done=self.done_buf[indices],
        )

    def __len__(self) -> int:
        return self.size


class DQNAgent:
    def __init__(self, env: gym.Env, args: argparse.Namespace):
        self.env = env
        self.args = args
        self.device = torch.device("cpu")
        obs_dim = env.observation_space.shape[0]
        action_dim = env.action_space.n
        self.memory = NStepReplay(obs_dim, args.memory_size, args.batch_size, args.n_step, args.gamma)
        self.dqn = DuelingNetwork(obs_dim, action_dim).to(self.device)
        self.dqn_target = DuelingNetwork(obs_dim, action_dim).to(self.device)
        self.dqn_target.load_state_dict(self.dqn.state_dict())
        self.dqn_target.eval()
        self.optimizer = Adam(self.dqn.parameters(), lr=args.lr)
        self.epsilon = args.max_epsilon
        self.is_test = False

    def select_action(self, state: np.ndarray) -> int:
        if self.epsilon > np.random.random() and not self.is_test:
            return self.env.action_space.sample()
        with torch.no_grad():
            selected = self.dqn(torch.FloatTensor(state).to(self.device)).argmax()
        return int(selected.cpu().numpy())

    def update_model(self) -> float:
        samples = self.memory.sample_batch()
        loss = self._compute_dqn_loss(samples)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.dqn.parameters(), 10.0)
        self.optimizer.step()
        return loss.item()

    def _compute_dqn_loss(self, samples: Dict[str, np.ndarray]) -> torch.Tensor:
        device = self.device
        state = torch.FloatTensor(samples["obs"]).to(device)
        next_state = torch.FloatTensor(samples["next_obs"]).to(device)
        action = torch.LongTensor(samples["acts"].reshape(-1, 1)).to(device)
        reward = torch.FloatTensor(samples["rews"].reshape(-1, 1)).to(device)
        done = torch.FloatTensor(samples["done"].reshape(-1, 1)).to(device)
        gamma = self.args.gamma**self.args.n_step
        curr_q_value = self.dqn(state).gather(1, action)
        next_q_value = self.dqn_target(next_state).gather(1, self.dqn(next_state).argmax(dim=1, keepdim=True)).detach()
        mask = 1 - done
        target = (reward + gamma * next_q_value * mask).to(device)
        return F.smooth_l1_loss(curr_q_value, target)

    def _target_hard_update(self) -> None:
        self.dqn_target.load_state_dict(self.dqn.state_dict())

    def decay(self) -> None:
        span = self.args.max_epsilon - self.args.min_epsilon
        self.epsilon = max(self.args.min_epsilon, self.epsilon - span * self.args.epsilon_decay)


class Trainer:
    def __init__(self, agent: DQNAgent, args: argparse.Namespace):
        self.agent, self.args = agent, args
        self.history: List[float] = []

    def fit(self) -> None:
        env = self.agent.env
        state, _ = env.reset(seed=self.args.seed)
        score, updates = 0.0, 0
        for frame in range(1, self.args.num_frames + 1):
            action = self.agent.select_action(state)
            next_state, reward, terminated, truncated, _ = env.step(action)
            self.agent.memory.store(state, action, reward, next_state, terminated, terminated or truncated)
            state = next_state
            score += reward
            if terminated or truncated:
                state, _ = env.reset()
                self.history.append(score)
                score = 0.0
            if len(self.agent.memory) >= self.args.batch_size * 4:
                loss = self.agent.update_model()
                updates += 1
                self.agent.decay()
                if updates % self.args.target_update == 0:
                    self.agent._target_hard_update()
                if updates % 1000 == 0:
                    logger.info("frame %d loss %.3f", frame, loss)

    def test(self, video_env: Optional[gym.Env] = None) -> float:
        self.agent.is_test = True
        env = video_env or gym.make(self.args.env)
        state, _ = env.reset(seed=self.args.seed + 1000)
        done, score = False, 0.0
        while not done:
            state, reward, terminated, truncated, _ = env.step(self.agent.select_action(state))
            done = terminated or truncated
            score += reward
        self.agent.is_test = False
        return score


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=777)
    parser.add_argument("--num-frames", type=int, default=20000)
    parser.add_argument("--memory-size", type=int, default=20000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--target-update", type=int, default=100)
    parser.add_argument("--epsilon-decay", type=float, default=1 / 2000)
    parser.add_argument("--max-epsilon", type=float, default=1.0)
    parser.add_argument("--min-epsilon", type=float, default=0.1)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--n-step", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse()
    trainer = Trainer(DQNAgent(gym.make(args.env), args), args)
    trainer.fit()
    print(trainer.test())
