"""
Deep Q-learning from scratch
============================

Part 3 of the series. In part 2 we had a table; today the table becomes a neural network. Three tricks make it work:

  1. a replay memory, so that the network does not only see what happened a moment ago
  2. a target network, so that the goal does not move with every step
  3. an epsilon that slowly goes down, so that we explore first and exploit later
"""
import math
import random
from collections import deque, namedtuple

import gymnasium as gym
import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state terminal")

# ---------------------------------------------------------------- settings
BATCH_SIZE = 64
GAMMA = 0.99
EPS_START = 0.95
EPS_END = 0.03
EPS_DECAY = 4000  # steps; larger is slower
TAU = 0.005
LR = 5e-4
MEMORY = 20_000
WARMUP = 500
EPISODES = 250
SEED = 7

random.seed(SEED)
torch.manual_seed(SEED)


# ---------------------------------------------------------------- trick 1
class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = random.sample(self.memory, batch_size)
        states = torch.stack([t.state for t in batch])
        actions = torch.tensor([t.action for t in batch]).unsqueeze(1)
        rewards = torch.tensor([t.reward for t in batch], dtype=torch.float32).unsqueeze(1)
        next_states = torch.stack([t.next_state for t in batch])
        terminals = torch.tensor([t.terminal for t in batch], dtype=torch.float32).unsqueeze(1)
        return states, actions, rewards, next_states, terminals

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_act))

    def forward(self, x):
        return self.layers(x)


env = gym.make("CartPole-v1")
n_obs, n_act = env.observation_space.shape[0], int(env.action_space.n)

policy_net = DQN(n_obs, n_act)
target_net = DQN(n_obs, n_act)
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
memory = ReplayMemory(MEMORY)
steps_done = 0


# ---------------------------------------------------------------- trick 3
def epsilon():
    return EPS_END + (EPS_START - EPS_END) * math.exp(-steps_done / EPS_DECAY)


def select_action(state):
    if random.random() < epsilon():
        return env.action_space.sample()
    with torch.no_grad():
        return policy_net(state.unsqueeze(0)).argmax(1).item()


def optimize():
    if len(memory) < max(WARMUP, BATCH_SIZE):
        return
    states, actions, rewards, next_states, terminals = memory.sample(BATCH_SIZE)

    # Q(s, a) of the actions that we have taken: one column
    q = policy_net(states).gather(1, actions)

    # the goal: r + gamma max Q'(s', .), and just r where the pole fell
    with torch.no_grad():
        best_next = target_net(next_states).max(1, keepdim=True).values
        goal = rewards + GAMMA * best_next * (1.0 - terminals)

    loss = nn.functional.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()


# ---------------------------------------------------------------- trick 2
def soft_update():
    target, online = target_net.state_dict(), policy_net.state_dict()
    for key in online:
        target[key] = TAU * online[key] + (1 - TAU) * target[key]
    target_net.load_state_dict(target)


def train():
    global steps_done
    durations = []
    env.action_space.seed(SEED)
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=SEED if episode == 0 else None)
        state = torch.tensor(obs, dtype=torch.float32)
        duration = 0
        while True:
            action = select_action(state)
            obs, reward, terminated, truncated, _ = env.step(action)
            steps_done += 1
            duration += 1
            next_state = torch.tensor(obs, dtype=torch.float32)

            memory.push(state, action, reward, next_state, terminated)
            state = next_state

            optimize()
            soft_update()

            if terminated or truncated:
                break
        durations.append(duration)
        if (episode + 1) % 10 == 0:
            mean = sum(durations[-10:]) / 10
            print(f"episode {episode + 1:4d}   mean duration {mean:6.1f}   epsilon {epsilon():.2f}   memory {len(memory)}")


if __name__ == "__main__":
    train()
