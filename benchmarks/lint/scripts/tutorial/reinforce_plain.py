import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim

SEED = 5
np.random.seed(SEED)
torch.manual_seed(SEED)


class PolicyNetwork(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc1 = nn.Linear(n_in, 64)
        self.fc2 = nn.Linear(64, n_out)

    def forward(self, x):
        return torch.softmax(self.fc2(torch.relu(self.fc1(x))), dim=-1)


def run_episode(env, net):
    observation, _ = env.reset()
    log_probs, rewards = [], []
    finished = False
    while not finished:
        probs = net(torch.from_numpy(observation).float())
        m = torch.distributions.Categorical(probs)
        action = m.sample()
        log_probs.append(m.log_prob(action))
        observation, reward, terminated, truncated, _ = env.step(action.item())
        rewards.append(reward)
        finished = terminated or truncated
    return log_probs, rewards


def returns_of(rewards, gamma=0.99):
    g = 0.0
    out = []
    for reward in rewards[::-1]:
        g = reward + gamma * g
        out.append(g)
    out = torch.tensor(out[::-1])
    return (out - out.mean()) / (out.std() + 1e-9)


env = gym.make("CartPole-v1")
net = PolicyNetwork(4, 2)
optimizer = optim.Adam(net.parameters(), lr=1e-2)
for episode in range(500):
    log_probs, rewards = run_episode(env, net)
    returns = returns_of(rewards)
    loss = torch.stack([-lp * g for lp, g in zip(log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
