"""DQN on a task without an end: falling off only puts the cart back, and life goes on from there.

`gym` reports a fall as terminated, but here it is a jump to a new state that costs ten points. So the transition that is
stored leads to the state *after* the reset, and its value is bootstrapped like any other. There is no mask, on purpose.
"""
import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

STEPS, WARMUP, BATCH, GAMMA = 60_000, 1_000, 64, 0.98

random.seed(0)
torch.manual_seed(0)
env = gym.make("CartPole-v1", max_episode_steps=-1)
env.action_space.seed(0)
q = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
frozen = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), lr=5e-4)
memory = deque(maxlen=30_000)

obs, _ = env.reset(seed=0)
falls = 0
for step in range(STEPS):
    epsilon = max(0.05, 1 - step / 15_000)
    if random.random() < epsilon:
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            action = int(q(torch.from_numpy(obs)).argmax())
    next_obs, _, fallen, _, _ = env.step(action)
    reward = 0.0
    if fallen:
        falls += 1
        reward = -10.0
        next_obs, _ = env.reset()
    memory.append((obs, action, reward, next_obs))
    obs = next_obs

    if len(memory) >= WARMUP:
        states, actions, rewards, successors = zip(*random.sample(memory, BATCH))
        states, successors = torch.from_numpy(np.stack(states)), torch.from_numpy(np.stack(successors))
        with torch.no_grad():
            target = torch.tensor(rewards) + GAMMA * frozen(successors).amax(dim=1)
        predicted = q(states)[torch.arange(BATCH), torch.tensor(actions)]
        loss = nn.functional.smooth_l1_loss(predicted, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    if step % 500 == 0:
        frozen.load_state_dict(q.state_dict())
    if (step + 1) % 5_000 == 0:
        print(f"{step + 1} steps: {falls} falls in the last 5000")
        falls = 0
