# REINFORCE on LunarLander with a learned baseline. Old gym: reset gives the state, step gives four values.
import gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical

gamma = 0.99
learning_rate = 1e-3
max_episodes = 2000
seed = 543

env = gym.make('LunarLander-v2')
env.seed(seed)
torch.manual_seed(seed)


class PolicyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 128)
        self.dropout = nn.Dropout(p=0.1)
        self.action_head = nn.Linear(128, 4)
        self.value_head = nn.Linear(128, 1)

    def forward(self, x):
        x = torch.relu(self.dropout(self.fc1(x)))
        probs = torch.softmax(self.action_head(x), dim=-1)
        value = self.value_head(x)
        return probs, value


net = PolicyNet()
opt = optim.Adam(net.parameters(), lr=learning_rate)
eps = np.finfo(np.float32).eps.item()


def pick_action(state):
    state = torch.from_numpy(np.asarray(state, dtype=np.float32)).unsqueeze(0)
    probs, value = net(state)
    m = Categorical(probs)
    action = m.sample()
    return action.item(), m.log_prob(action), value.squeeze()


def finish_episode(log_probs, values, rewards):
    R = 0
    returns = []
    for r in rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns, dtype=torch.float32)
    returns = (returns - returns.mean()) / (returns.std() + eps)

    log_probs = torch.cat(log_probs)
    values = torch.stack(values)
    advantages = returns - values.detach()
    policy_loss = -(log_probs * advantages).sum()
    value_loss = nn.functional.smooth_l1_loss(values, returns, reduction='sum')

    opt.zero_grad()
    (policy_loss + value_loss).backward()
    opt.step()


def play_test_episode():
    net.eval()
    s, total, over = env.reset(), 0.0, False
    while not over:
        with torch.no_grad():
            probs, _ = net(torch.as_tensor(s, dtype=torch.float32).unsqueeze(0))
        s, r, over, _ = env.step(probs.argmax(dim=1).item())
        total += r
    net.train()
    return total


running = 0.0
for i_episode in range(1, max_episodes + 1):
    state = env.reset()
    log_probs, values, rewards = [], [], []
    ep_reward = 0
    for t in range(1000):
        action, log_prob, value = pick_action(state)
        state, reward, done, _ = env.step(action)
        log_probs.append(log_prob)
        values.append(value)
        rewards.append(reward)
        ep_reward += reward
        if done:
            break
    running = 0.05 * ep_reward + 0.95 * running
    finish_episode(log_probs, values, rewards)
    if i_episode % 50 == 0:
        print('Episode {}\tLast: {:.1f}\tAverage: {:.1f}\tTest: {:.1f}'.format(i_episode, ep_reward, running, play_test_episode()))
    if running > 200:
        print('Solved after', i_episode)
        break
