"""Soft Q-learning: the value of the next state is a log-sum-exp, not a max, and the behaviour is the softmax of Q (no epsilon anywhere)."""
import os
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
TEMPERATURE = 0.2
GAMMA = 0.99
STEPS = int(os.environ.get("STEPS", 40_000))

env = gym.make("CartPole-v1")
q = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
frozen = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
frozen.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=5e-4)
replay = deque(maxlen=30_000)


def soft_value(values):
    return TEMPERATURE * torch.logsumexp(values / TEMPERATURE, dim=-1)


obs, _ = env.reset(seed=0)
score = 0.0
for step in range(STEPS):
    with torch.no_grad():
        action = torch.distributions.Categorical(logits=q(torch.as_tensor(obs)) / TEMPERATURE).sample().item()
    next_obs, reward, terminated, truncated, _ = env.step(action)
    replay.append((obs, action, reward, next_obs, terminated))
    score += reward
    obs = next_obs
    if terminated or truncated:
        print(step, score)
        score = 0.0
        obs, _ = env.reset()
    if len(replay) < 500:
        continue
    o, a, r, o2, end = (np.array(column) for column in zip(*random.sample(replay, 64)))
    with torch.no_grad():
        y = torch.as_tensor(r, dtype=torch.float32) + GAMMA * soft_value(frozen(torch.as_tensor(o2))) * torch.as_tensor(~end).float()
    chosen = q(torch.as_tensor(o)).gather(1, torch.as_tensor(a)[:, None])[:, 0]
    loss = (chosen - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 400 == 0:
        frozen.load_state_dict(q.state_dict())
