import gym
import numpy as np
import torch
import torch.optim as optim
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, num_inputs, num_outputs, hidden=128):
        super(ActorCritic, self).__init__()
        self.critic = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.actor = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, num_outputs), nn.Softmax(dim=1))

    def forward(self, x):
        return Categorical(self.actor(x)), self.critic(x)


def compute_returns(next_value, rewards, masks, gamma=0.99):
    R = next_value
    returns = []
    for step in reversed(range(len(rewards))):
        R = rewards[step] + gamma * R * masks[step]
        returns.insert(0, R)
    return returns


class VecEnv:
    def __init__(self, n):
        self.envs = [gym.make("CartPole-v0") for _ in range(n)]
        for i, e in enumerate(self.envs):
            e.seed(100 + i)

    def reset(self):
        return np.stack([e.reset() for e in self.envs])

    def step(self, actions):
        outs = []
        for e, a in zip(self.envs, actions):
            o, r, d, i = e.step(a)
            if d:
                o = e.reset()
            outs.append((o, r, d, i))
        obs, rew, done, info = zip(*outs)
        return np.stack(obs), np.array(rew), np.array(done), info


envs = VecEnv(8)
model = ActorCritic(4, 2)
optimizer = optim.Adam(model.parameters())
num_steps = 5
state = envs.reset()
for frame in range(0, 20000, num_steps):
    log_probs, values, rewards, masks = [], [], [], []
    entropy = 0
    for _ in range(num_steps):
        state = torch.FloatTensor(state)
        dist, value = model(state)
        action = dist.sample()
        next_state, reward, done, _ = envs.step(action.numpy())
        log_prob = dist.log_prob(action)
        entropy += dist.entropy().mean()
        log_probs.append(log_prob)
        values.append(value)
        rewards.append(torch.FloatTensor(reward).unsqueeze(1))
        masks.append(torch.FloatTensor(1 - done).unsqueeze(1))
        state = next_state
    next_state = torch.FloatTensor(next_state)
    _, next_value = model(next_state)
    returns = compute_returns(next_value, rewards, masks)
    log_probs = torch.cat(log_probs)
    returns = torch.cat(returns).detach()
    values = torch.cat(values)
    advantage = returns - values
    actor_loss = -(log_probs.unsqueeze(1) * advantage.detach()).mean()
    critic_loss = advantage.pow(2).mean()
    loss = actor_loss + 0.5 * critic_loss - 0.001 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
