import math
import random
from collections import namedtuple, deque
from itertools import count

import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class Net(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(Net, self).__init__()
        self.layer1 = nn.Linear(n_observations, 128)
        self.layer2 = nn.Linear(128, 128)
        self.layer3 = nn.Linear(128, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


env = gym.make("CartPole-v1")
online = Net(4, 2)
lagged = Net(4, 2)
lagged.load_state_dict(online.state_dict())
optimizer = optim.AdamW(online.parameters(), lr=1e-4, amsgrad=True)
memory = ReplayMemory(10000)
steps_done = 0


def select_action(state):
    global steps_done
    threshold = 0.05 + 0.85 * math.exp(-1.0 * steps_done / 1000)
    steps_done += 1
    if random.random() > threshold:
        with torch.no_grad():
            return online(state).max(1).indices.view(1, 1)
    return torch.tensor([[env.action_space.sample()]], dtype=torch.long)


def optimize_model():
    if len(memory) < 128:
        return
    batch = Transition(*zip(*memory.sample(128)))
    alive = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
    onward = torch.cat([s for s in batch.next_state if s is not None])
    state_batch = torch.cat(batch.state)
    action_batch = torch.cat(batch.action)
    reward_batch = torch.cat(batch.reward)
    q = online(state_batch).gather(1, action_batch)
    future = torch.zeros(128)
    with torch.no_grad():
        picks = online(onward).argmax(1, keepdim=True)
        future[alive] = lagged(onward).gather(1, picks).squeeze(1)
    expected = reward_batch + 0.99 * future
    loss = nn.SmoothL1Loss()(q, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(online.parameters(), 100)
    optimizer.step()


for episode in range(300):
    state, info = env.reset()
    state = torch.tensor(state, dtype=torch.float32).unsqueeze(0)
    for t in count():
        action = select_action(state)
        observation, reward, terminated, truncated, _ = env.step(action.item())
        reward = torch.tensor([reward], dtype=torch.float32)
        next_state = None if terminated else torch.tensor(observation, dtype=torch.float32).unsqueeze(0)
        memory.push(state, action, next_state, reward)
        state = next_state
        optimize_model()
        soft = lagged.state_dict()
        fresh = online.state_dict()
        for key in fresh:
            soft[key] = fresh[key] * 0.005 + soft[key] * (1 - 0.005)
        lagged.load_state_dict(soft)
        if terminated or truncated:
            break
