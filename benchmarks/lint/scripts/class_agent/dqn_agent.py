import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, n_obs, n_act, hidden=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_act))

    def forward(self, obs):
        return self.net(obs)


class ReplayBuffer:
    def __init__(self, capacity=50_000):
        self.data = deque(maxlen=capacity)

    def push(self, obs, action, reward, next_obs, terminated):
        self.data.append((obs, action, reward, next_obs, terminated))

    def sample(self, n):
        obs, action, reward, next_obs, terminated = zip(*random.sample(self.data, n))
        return (
            torch.as_tensor(np.array(obs), dtype=torch.float32),
            torch.as_tensor(action, dtype=torch.int64),
            torch.as_tensor(reward, dtype=torch.float32),
            torch.as_tensor(np.array(next_obs), dtype=torch.float32),
            torch.as_tensor(terminated, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.data)


class DQNAgent:
    def __init__(self, env, gamma=0.99, lr=5e-4, batch_size=64, sync_every=1000, eps_decay=0.999, warmup=1000):
        self.env = env
        self.gamma = gamma
        self.batch_size = batch_size
        self.sync_every = sync_every
        self.eps_decay = eps_decay
        self.warmup = warmup
        self.epsilon = 1.0
        self.eps_min = 0.02
        n_obs, n_act = env.observation_space.shape[0], env.action_space.n
        self.q = QNet(n_obs, n_act)
        self.target_q = QNet(n_obs, n_act)
        self.target_q.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.memory = ReplayBuffer()
        self.n_steps = 0

    def act(self, obs, greedy=False):
        if not greedy and random.random() < self.epsilon:
            return self.env.action_space.sample()
        with torch.no_grad():
            return int(self.q(torch.as_tensor(obs, dtype=torch.float32)).argmax())

    def td_target(self, reward, next_obs, terminated):
        with torch.no_grad():
            next_q = self.target_q(next_obs).max(dim=1).values
        return reward + self.gamma * (1.0 - terminated) * next_q

    def learn(self):
        obs, action, reward, next_obs, terminated = self.memory.sample(self.batch_size)
        predicted = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        target = self.td_target(reward, next_obs, terminated)
        loss = F.smooth_l1_loss(predicted, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.optimizer.step()
        return loss.item()

    def train(self, episodes):
        for episode in range(episodes):
            obs, _ = self.env.reset()
            total, over = 0.0, False
            while not over:
                action = self.act(obs)
                next_obs, reward, terminated, truncated, _ = self.env.step(action)
                self.memory.push(obs, action, reward, next_obs, terminated)
                obs = next_obs
                total += reward
                over = terminated or truncated
                self.n_steps += 1
                if len(self.memory) >= self.warmup:
                    self.learn()
                if self.n_steps % self.sync_every == 0:
                    self.target_q.load_state_dict(self.q.state_dict())
            self.epsilon = max(self.eps_min, self.epsilon * self.eps_decay)
            print(episode, total, round(self.epsilon, 3))

    def evaluate(self, env, episodes=10):
        returns = []
        for _ in range(episodes):
            obs, _ = env.reset()
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(self.act(obs, greedy=True))
                total += reward
                over = terminated or truncated
            returns.append(total)
        return float(np.mean(returns))


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    agent = DQNAgent(gym.make("CartPole-v1"))
    agent.train(500)
    print(agent.evaluate(gym.make("CartPole-v1")))
