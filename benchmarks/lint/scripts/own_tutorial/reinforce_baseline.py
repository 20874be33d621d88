"""REINFORCE with a learned baseline, as blog posts write it."""
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

SEED = 7
GAMMA = 0.99
ENTROPY_WEIGHT = 0.01

env = gym.make("CartPole-v1")
torch.manual_seed(SEED)
np.random.seed(SEED)


class Policy(nn.Module):
    def __init__(self, s_size=4, a_size=2, h_size=64):
        super().__init__()
        self.fc1 = nn.Linear(s_size, h_size)
        self.fc2 = nn.Linear(h_size, a_size)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), dim=1)

    def act(self, state):
        state = torch.from_numpy(state).float().unsqueeze(0)
        probs = self.forward(state)
        m = Categorical(probs)
        action = m.sample()
        return action.item(), m.log_prob(action), m.entropy()


class Baseline(nn.Module):
    def __init__(self, s_size=4, h_size=64):
        super().__init__()
        self.l1 = nn.Linear(s_size, h_size)
        self.l2 = nn.Linear(h_size, 1)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x))).squeeze(-1)


policy, baseline = Policy(), Baseline()
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
baseline_optimizer = torch.optim.Adam(baseline.parameters(), lr=1e-2)


def rewards_to_go(rewards, gamma):
    result = []
    running = 0.0
    for reward in rewards[::-1]:
        running = reward + gamma * running
        result.insert(0, running)
    return torch.tensor(result, dtype=torch.float32)


scores = []
for episode in range(1000):
    state, _ = env.reset(seed=SEED + episode)
    states, log_probs, rewards, entropies = [], [], [], []
    finished = False
    while not finished:
        action, log_prob, entropy = policy.act(state)
        states.append(torch.as_tensor(state, dtype=torch.float32))
        state, reward, terminated, truncated, _ = env.step(action)
        log_probs.append(log_prob)
        entropies.append(entropy)
        rewards.append(reward)
        finished = terminated or truncated
    scores.append(sum(rewards))

    returns = rewards_to_go(rewards, GAMMA)
    values = baseline(torch.stack(states))
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-9)

    policy_loss = -(torch.cat(log_probs) * advantage).sum() - ENTROPY_WEIGHT * torch.cat(entropies).sum()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()

    baseline_loss = F.mse_loss(values, returns)
    baseline_optimizer.zero_grad()
    baseline_loss.backward()
    baseline_optimizer.step()

    if episode % 50 == 0:
        print(episode, np.mean(scores[-50:]))
