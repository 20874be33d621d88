# Double DQN + 3-step returns + proportional prioritized replay, flat script
import collections
import os
import random
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


@dataclass
class Args:
    env_id: str = "CartPole-v1"
    seed: int = 1
    total_timesteps: int = int(os.getenv("TIMESTEPS", 50_000))
    learning_rate: float = 2.5e-4
    buffer_size: int = 20_000
    gamma: float = 0.99
    n_step: int = 3
    target_network_frequency: int = 500
    max_grad_norm: float = 10.0
    batch_size: int = 64
    start_e: float = 1.0
    end_e: float = 0.05
    exploration_fraction: float = 0.4
    learning_starts: int = int(os.getenv("LEARNING_STARTS", 2_000))
    train_frequency: int = 2
    prioritized_alpha: float = 0.6
    prioritized_beta0: float = 0.4
    prioritized_eps: float = 1e-6


class SumTree:
    def __init__(self, capacity):
        self.capacity = 1
        while self.capacity < capacity:
            self.capacity *= 2
        self.tree = np.zeros(2 * self.capacity, dtype=np.float64)

    def set(self, index, value):
        node = index + self.capacity
        self.tree[node] = value
        node //= 2
        while node >= 1:
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]
            node //= 2

    def total(self):
        return self.tree[1]

    def find(self, mass):
        node = 1
        while node < self.capacity:
            left = 2 * node
            if mass <= self.tree[left]:
                node = left
            else:
                mass -= self.tree[left]
                node = left + 1
        return node - self.capacity

    def get(self, index):
        return self.tree[index + self.capacity]


class PrioritizedBuffer:
    def __init__(self, args, obs_shape):
        self.args = args
        self.obs = np.zeros((args.buffer_size, *obs_shape), dtype=np.float32)
        self.next_obs = np.zeros((args.buffer_size, *obs_shape), dtype=np.float32)
        self.actions = np.zeros(args.buffer_size, dtype=np.int64)
        self.rewards = np.zeros(args.buffer_size, dtype=np.float32)
        self.discounts = np.zeros(args.buffer_size, dtype=np.float32)
        self.tree = SumTree(args.buffer_size)
        self.max_priority = 1.0
        self.pos = 0
        self.count = 0
        self.pending = collections.deque()

    def add(self, obs, action, reward, next_obs, terminated, truncated):
        self.pending.append((obs, action, reward))
        if terminated or truncated:
            # the episode is over: what is left gets shorter returns, all to the same last state
            while self.pending:
                self._store(next_obs, terminated)
        elif len(self.pending) == self.args.n_step:
            self._store(next_obs, False)

    def _store(self, last_obs, terminated):
        ret = 0.0
        for _, _, r in reversed(self.pending):
            ret = r + self.args.gamma * ret
        steps = len(self.pending)
        obs, action, _ = self.pending.popleft()
        self.obs[self.pos] = obs
        self.next_obs[self.pos] = last_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = ret
        self.discounts[self.pos] = 0.0 if terminated else self.args.gamma**steps
        self.tree.set(self.pos, self.max_priority**self.args.prioritized_alpha)
        self.pos = (self.pos + 1) % self.args.buffer_size
        self.count = min(self.count + 1, self.args.buffer_size)

    def sample(self, batch_size, beta):
        segment = self.tree.total() / batch_size
        idx = np.array([self.tree.find(random.uniform(segment * i, segment * (i + 1))) for i in range(batch_size)])
        idx = np.minimum(idx, self.count - 1)
        probs = np.array([self.tree.get(i) for i in idx]) / self.tree.total()
        weights = (self.count * probs) ** (-beta)
        weights = weights / weights.max()
        return (
            idx,
            torch.from_numpy(weights.astype(np.float32)),
            torch.from_numpy(self.obs[idx]),
            torch.from_numpy(self.actions[idx]),
            torch.from_numpy(self.rewards[idx]),
            torch.from_numpy(self.next_obs[idx]),
            torch.from_numpy(self.discounts[idx]),
        )

    def update_priorities(self, idx, td_errors):
        priorities = np.abs(td_errors) + self.args.prioritized_eps
        self.max_priority = max(self.max_priority, priorities.max())
        for i, p in zip(idx, priorities):
            self.tree.set(i, p**self.args.prioritized_alpha)


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(np.array(env.observation_space.shape).prod(), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, env.action_space.n),
        )

    def forward(self, x):
        return self.network(x)


def linear_schedule(start_e, end_e, duration, t):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


if __name__ == "__main__":
    args = Args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    env.action_space.seed(args.seed)

    q_network = QNetwork(env)
    target_network = QNetwork(env)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    rb = PrioritizedBuffer(args, env.observation_space.shape)

    obs, _ = env.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        epsilon = linear_schedule(args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
        if random.random() < epsilon:
            action = int(env.action_space.sample())
        else:
            with torch.no_grad():
                action = int(q_network(torch.from_numpy(obs).float().unsqueeze(0)).argmax(dim=1).item())

        next_obs, reward, terminated, truncated, info = env.step(action)
        rb.add(obs, action, float(reward), next_obs, terminated, truncated)

        obs = next_obs
        if terminated or truncated:
            print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
            obs, _ = env.reset()

        if global_step > args.learning_starts and global_step % args.train_frequency == 0:
            beta = args.prioritized_beta0 + (1.0 - args.prioritized_beta0) * global_step / args.total_timesteps
            idx, weights, b_obs, b_actions, b_rewards, b_next_obs, b_discounts = rb.sample(args.batch_size, beta)
            with torch.no_grad():
                best = q_network(b_next_obs).argmax(dim=1, keepdim=True)
                target_max = target_network(b_next_obs).gather(1, best).squeeze(1)
                td_target = b_rewards + b_discounts * target_max
            old_val = q_network(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
            td_error = td_target - old_val
            loss = (weights * nn.functional.smooth_l1_loss(old_val, td_target, reduction="none")).mean()

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q_network.parameters(), args.max_grad_norm)
            optimizer.step()
            rb.update_priorities(idx, td_error.detach().numpy())

            if global_step % 1000 == 0:
                print(f"step={global_step} loss={loss.item():.4f} q={old_val.mean().item():.2f} eps={epsilon:.2f}")

        if global_step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

    env.close()
