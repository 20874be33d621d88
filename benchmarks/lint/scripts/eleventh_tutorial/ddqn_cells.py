# %% [markdown]
# # Double DQN, cell by cell
# CartPole; every cell does one thing. The network that *chooses* the next action is not the one that *values* it.

# %%
import collections
import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn

# %% settings
lr, gamma, batch_size, capacity = 1e-3, 0.99, 64, 20_000
warmup, sync_steps, episodes = 500, 300, 250
eps_high, eps_low, eps_steps = 1.0, 0.02, 6_000

env = gym.make("CartPole-v1")
env.action_space.seed(0)
torch.manual_seed(0)
random.seed(0)

# %% network
def make_net():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


main_net, frozen_net = make_net(), make_net()
frozen_net.load_state_dict(main_net.state_dict())
optimizer = torch.optim.Adam(main_net.parameters(), lr=lr)
criterion = nn.SmoothL1Loss()
memory = collections.deque(maxlen=capacity)


# %% policy
def epsilon(step):
    return eps_low + (eps_high - eps_low) * max(0.0, 1.0 - step / eps_steps)


def policy(obs, eps):
    if random.random() < eps:
        return env.action_space.sample()
    with torch.no_grad():
        return main_net(torch.from_numpy(obs).unsqueeze(0)).argmax(dim=1).item()


# %% one training step
def train_step():
    batch = random.sample(memory, batch_size)
    obs, act, rew, nxt, end = zip(*batch)
    obs = torch.from_numpy(np.stack(obs))
    act = torch.tensor(act).unsqueeze(1)
    rew = torch.tensor(rew, dtype=torch.float32).unsqueeze(1)
    nxt = torch.from_numpy(np.stack(nxt))
    end = torch.tensor(end, dtype=torch.float32).unsqueeze(1)

    prediction = main_net(obs).gather(1, act)
    with torch.no_grad():
        chosen = main_net(nxt).argmax(dim=1, keepdim=True)
        future = frozen_net(nxt).gather(1, chosen)
        target = rew + gamma * future * (1.0 - end)

    loss = criterion(prediction, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% the loop
step, lengths = 0, []
for episode in range(episodes):
    obs, _ = env.reset(seed=episode)
    length, over = 0, False
    while not over:
        act = policy(obs, epsilon(step))
        nxt, rew, terminated, truncated, _ = env.step(act)
        memory.append((obs, act, rew, nxt, terminated))
        obs = nxt
        over = terminated or truncated
        step += 1
        length += 1
        if len(memory) >= warmup:
            train_step()
        if step % sync_steps == 0:
            frozen_net.load_state_dict(main_net.state_dict())
    lengths.append(length)
    if episode % 10 == 9:
        print(f"episode {episode + 1:4d}   mean of ten {np.mean(lengths[-10:]):6.1f}   epsilon {epsilon(step):.2f}")
