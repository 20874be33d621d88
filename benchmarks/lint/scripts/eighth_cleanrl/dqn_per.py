# double DQN + proportional prioritized replay + n-step returns
import argparse
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--env-id", type=str, default="CartPole-v1")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--total-timesteps", type=int, default=60_000)
    p.add_argument("--learning-rate", type=float, default=5e-4)
    p.add_argument("--buffer-size", type=int, default=20_000)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--n-step", type=int, default=3)
    p.add_argument("--target-network-frequency", type=int, default=500)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--start-e", type=float, default=1.0)
    p.add_argument("--end-e", type=float, default=0.05)
    p.add_argument("--exploration-fraction", type=float, default=0.3)
    p.add_argument("--learning-starts", type=int, default=1000)
    p.add_argument("--train-frequency", type=int, default=2)
    p.add_argument("--per-alpha", type=float, default=0.6)
    p.add_argument("--per-beta", type=float, default=0.4)
    p.add_argument("--eval-episodes", type=int, default=10)
    return p.parse_args()


class QNetwork(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(obs_dim, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_actions))

    def forward(self, x):
        return self.network(x)


class PrioritizedReplay:
    """Ring of transitions with priorities; new ones get the largest priority seen, so that each is drawn soon."""

    def __init__(self, size, obs_dim, alpha, rng):
        self.obs = np.zeros((size, obs_dim), np.float32)
        self.next_obs = np.zeros((size, obs_dim), np.float32)
        self.actions = np.zeros(size, np.int64)
        self.rewards = np.zeros(size, np.float32)
        self.discounts = np.zeros(size, np.float32)
        self.priorities = np.zeros(size, np.float64)
        self.size, self.alpha, self.rng = size, alpha, rng
        self.pos, self.full, self.top = 0, False, 1.0

    def __len__(self):
        return self.size if self.full else self.pos

    def add(self, obs, action, reward, next_obs, discount):
        i = self.pos
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.actions[i], self.rewards[i], self.discounts[i] = action, reward, discount
        self.priorities[i] = self.top
        self.pos = (self.pos + 1) % self.size
        self.full = self.full or self.pos == 0

    def sample(self, batch_size, beta):
        scaled = self.priorities[: len(self)] ** self.alpha
        probs = scaled / scaled.sum()
        idx = self.rng.choice(len(self), size=batch_size, p=probs)
        weights = (len(self) * probs[idx]) ** (-beta)
        weights /= weights.max()
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.discounts)
        return idx, torch.as_tensor(weights, dtype=torch.float32), [torch.as_tensor(c[idx]) for c in columns]

    def update(self, idx, td_error):
        self.priorities[idx] = np.abs(td_error) + 1e-6
        self.top = max(self.top, self.priorities[idx].max())


class NStep:
    """Collects single steps and hands out (obs, action, n-step return, obs n later, discount of its value)."""

    def __init__(self, n, gamma):
        self.n, self.gamma, self.steps = n, gamma, deque()

    def _head(self, last_obs, terminated):
        ret = 0.0
        for k, (_, _, r) in enumerate(self.steps):
            ret += self.gamma**k * r
        discount = 0.0 if terminated else self.gamma ** len(self.steps)
        obs, action, _ = self.steps.popleft()
        return obs, action, ret, last_obs, discount

    def push(self, obs, action, reward, next_obs, terminated, truncated):
        self.steps.append((obs, action, reward))
        if terminated or truncated:
            while self.steps:
                yield self._head(next_obs, terminated)
        elif len(self.steps) == self.n:
            yield self._head(next_obs, False)


def linear_schedule(start_e: float, end_e: float, duration: float, t: int):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


def evaluate(env_id, q_network, episodes, seed):
    env = gym.make(env_id)
    totals = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = q_network(torch.as_tensor(obs).unsqueeze(0)).argmax(dim=1).item()
            obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
        totals.append(total)
    return float(np.mean(totals))


if __name__ == "__main__":
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = gym.make(args.env_id)
    env.action_space.seed(args.seed)
    obs_dim, n_actions = env.observation_space.shape[0], env.action_space.n

    q_network = QNetwork(obs_dim, n_actions)
    target_network = QNetwork(obs_dim, n_actions)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    replay = PrioritizedReplay(args.buffer_size, obs_dim, args.per_alpha, np.random.default_rng(args.seed))
    lookahead = NStep(args.n_step, args.gamma)

    obs, _ = env.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        epsilon = linear_schedule(args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
        if random.random() < epsilon:
            action = int(env.action_space.sample())
        else:
            with torch.no_grad():
                action = q_network(torch.as_tensor(obs).unsqueeze(0)).argmax(dim=1).item()

        next_obs, reward, terminated, truncated, _ = env.step(action)
        for transition in lookahead.push(obs, action, float(reward), next_obs, terminated, truncated):
            replay.add(*transition)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if global_step > args.learning_starts:
            if global_step % args.train_frequency == 0:
                beta = args.per_beta + (1.0 - args.per_beta) * global_step / args.total_timesteps
                idx, weights, (b_obs, b_actions, b_rewards, b_next_obs, b_discounts) = replay.sample(args.batch_size, beta)
                with torch.no_grad():
                    best = q_network(b_next_obs).argmax(dim=1, keepdim=True)
                    bootstrap = target_network(b_next_obs).gather(1, best).squeeze(1)
                    td_target = b_rewards + b_discounts * bootstrap
                old_val = q_network(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
                loss = (weights * F.smooth_l1_loss(old_val, td_target, reduction="none")).mean()

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                replay.update(idx, (td_target - old_val).detach().numpy())

            if global_step % args.target_network_frequency == 0:
                target_network.load_state_dict(q_network.state_dict())

    print("greedy return:", evaluate(args.env_id, q_network, args.eval_episodes, seed=10_000 + args.seed))
    env.close()
