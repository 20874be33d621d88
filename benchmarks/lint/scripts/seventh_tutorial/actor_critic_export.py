#!/usr/bin/env python
# coding: utf-8

# # Actor-critic from scratch
#
# *One network, two heads. We use the Monte Carlo return with a learned baseline.*

# In[1]:


import os
from collections import deque

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


# ## 1. Hyperparameters

# In[2]:


ENV_NAME = "CartPole-v1"
GAMMA = 0.99
LEARNING_RATE = 3e-3
HIDDEN = 128
N_EPISODES = int(os.environ.get("N_EPISODES", 600))
ENTROPY_BETA = 0.005
VALUE_COEF = 0.5
SEED = 42

torch.manual_seed(SEED)
np.random.seed(SEED)


# ## 2. The network

# In[3]:


class ActorCritic(nn.Module):
    def __init__(self, n_obs, n_actions):
        super().__init__()
        self.affine1 = nn.Linear(n_obs, HIDDEN)
        self.affine2 = nn.Linear(HIDDEN, HIDDEN)
        self.action_head = nn.Linear(HIDDEN, n_actions)
        self.value_head = nn.Linear(HIDDEN, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        x = F.relu(self.affine2(x))
        action_prob = F.softmax(self.action_head(x), dim=-1)
        state_value = self.value_head(x).squeeze(-1)
        return action_prob, state_value


env = gym.make(ENV_NAME)
model = ActorCritic(env.observation_space.shape[0], env.action_space.n)
optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)


# ## 3. One episode

# In[4]:


def run_episode(env, seed=None):
    log_probs, values, rewards, entropies = [], [], [], []
    state, _ = env.reset(seed=seed)
    finished = False
    while not finished:
        probs, value = model(torch.from_numpy(state).float())
        m = Categorical(probs)
        action = m.sample()
        state, reward, terminated, truncated, _ = env.step(action.item())
        log_probs.append(m.log_prob(action))
        entropies.append(m.entropy())
        values.append(value)
        rewards.append(reward)
        finished = terminated or truncated
    # if the clock stopped the episode, the last state still had a future
    if terminated:
        tail = 0.0
    else:
        with torch.no_grad():
            _, v = model(torch.from_numpy(state).float())
        tail = v.item()
    return log_probs, values, rewards, entropies, tail


# ## 4. Discounted returns

# In[5]:


def discount(rewards, tail, gamma=GAMMA):
    R = tail
    returns = []
    for r in rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    return torch.tensor(returns, dtype=torch.float32)


# ## 5. Learning

# In[6]:


scores = []
window = deque(maxlen=50)
for i_episode in range(N_EPISODES):
    log_probs, values, rewards, entropies, tail = run_episode(env, seed=SEED if i_episode == 0 else None)
    returns = discount(rewards, tail)

    log_probs = torch.stack(log_probs)
    values = torch.stack(values)
    entropies = torch.stack(entropies)

    advantage = returns - values.detach()
    if len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    policy_loss = -(log_probs * advantage).mean()
    value_loss = F.smooth_l1_loss(values, returns)
    loss = policy_loss + VALUE_COEF * value_loss - ENTROPY_BETA * entropies.mean()

    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()

    scores.append(sum(rewards))
    window.append(scores[-1])
    if i_episode % 25 == 0:
        print(f"episode {i_episode}\tlast {scores[-1]:.0f}\taverage {np.mean(window):.1f}")
    if np.mean(window) > env.spec.reward_threshold:
        print("solved at", i_episode)
        break


# ## 6. Plot

# In[7]:


plt.plot(scores, alpha=0.4)
if len(scores) >= 20:
    plt.plot(np.convolve(scores, np.ones(20) / 20, mode="valid"))
plt.xlabel("episode")
plt.ylabel("return")
plt.savefig(os.environ.get("FIGURE", "actor_critic.png"))


# ## 7. Watch it without sampling

# In[8]:


def evaluate(n=5):
    totals = []
    for k in range(n):
        s, _ = env.reset(seed=1000 + k)
        total, over = 0, False
        while not over:
            with torch.no_grad():
                probs, _ = model(torch.from_numpy(s).float())
            s, r, term, trunc, _ = env.step(probs.argmax().item())
            total += r
            over = term or trunc
        totals.append(total)
    return np.mean(totals), np.std(totals)


print("greedy:", evaluate())
env.close()
