"""DQN whose replay keeps dm_env's `discount`: zero at a terminal state, one elsewhere, so there is no `1 - done` to be seen."""

import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

env = gym.make("CartPole-v1")
q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
q_old = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
q_old.load_state_dict(q.state_dict())
optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
memory = deque(maxlen=10_000)


class TimeStep:
    """What dm_env's step returns: is it the last one, and how much do later rewards count."""

    def __init__(self, observation, reward, terminated, truncated):
        self.observation, self.reward = observation, reward
        self.discount = 0.0 if terminated else 1.0
        self.last = terminated or truncated


observation, _ = env.reset(seed=0)
for step in range(1, 601):
    if random.random() < max(0.05, 1 - step / 400):
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            action = int(q(torch.from_numpy(observation)).argmax())
    timestep = TimeStep(*env.step(action)[:4])
    memory.append((observation, action, timestep.reward, timestep.discount, timestep.observation))
    observation = env.reset()[0] if timestep.last else timestep.observation

    if step > 100:
        s, a, r, discount, s_next = (torch.as_tensor(np.array(x)) for x in zip(*random.sample(memory, 32)))
        with torch.no_grad():
            target = r + 0.99 * discount * q_old(s_next).amax(dim=1)
        chosen = q(s)[torch.arange(32), a]
        loss = nn.functional.huber_loss(chosen, target.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if step % 100 == 0:
        q_old.load_state_dict(q.state_dict())
