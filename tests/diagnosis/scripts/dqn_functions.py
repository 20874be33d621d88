"""DQN with functions and a replay memory of its own."""

# ruff: noqa: NPY002 — as users write it

import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SEED = 0
GAMMA = 0.99
BATCH = 128
LEARNING_STARTS = 1_000
TARGET_EVERY = 500
STEPS = 50_000


class QNetwork(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_obs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_actions))

    def forward(self, x):
        return self.layers(x)


class Memory:
    def __init__(self, size):
        self.rows = deque(maxlen=size)

    def add(self, *row):
        self.rows.append(row)

    def sample(self, count):
        rows = random.sample(self.rows, count)
        obs, action, reward, next_obs, terminated = map(np.array, zip(*rows, strict=True))
        return (
            torch.as_tensor(obs, dtype=torch.float32),
            torch.as_tensor(action),
            torch.as_tensor(reward, dtype=torch.float32),
            torch.as_tensor(next_obs, dtype=torch.float32),
            torch.as_tensor(terminated, dtype=torch.float32),
        )

    def __len__(self):
        return len(self.rows)


def epsilon_at(step):
    return max(0.05, 1.0 - step / (0.5 * STEPS))


def act(q_net, obs, step, env):
    if random.random() < epsilon_at(step):
        return env.action_space.sample()
    with torch.no_grad():
        return int(q_net(torch.as_tensor(obs, dtype=torch.float32)).argmax())


def update(q_net, target_net, optimizer, memory):
    obs, action, reward, next_obs, terminated = memory.sample(BATCH)
    with torch.no_grad():
        next_q = target_net(next_obs).max(1)[0]
        target = reward + GAMMA * next_q * (1 - terminated)
    predicted = q_net(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(predicted, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate(q_net, env, episodes=10):
    total = 0.0
    for _ in range(episodes):
        obs, _ = env.reset()
        over = False
        while not over:
            with torch.no_grad():
                action = int(q_net(torch.as_tensor(obs, dtype=torch.float32)).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            total += reward
            over = terminated or truncated
    return total / episodes


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    env, eval_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    env.action_space.seed(SEED)
    q_net = QNetwork(4, 2)
    target_net = copy.deepcopy(q_net)
    optimizer = torch.optim.Adam(q_net.parameters(), lr=2.5e-4)
    memory = Memory(50_000)
    obs, _ = env.reset(seed=SEED)
    for step in range(STEPS):
        action = act(q_net, obs, step, env)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
        if step > LEARNING_STARTS and len(memory) >= BATCH:
            update(q_net, target_net, optimizer, memory)
        if step % TARGET_EVERY == 0:
            target_net.load_state_dict(q_net.state_dict())
        if step % 10_000 == 0:
            print(step, evaluate(q_net, eval_env))


if __name__ == "__main__":
    main()
