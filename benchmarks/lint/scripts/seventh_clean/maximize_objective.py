# Gradient ASCENT all the way: the optimizer maximises, so the objective has no minus sign where papers' losses have one.
import os

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim

torch.manual_seed(4)
env = gym.make("CartPole-v1")
policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2), nn.LogSoftmax(dim=-1))
ascent = optim.Adam(policy.parameters(), lr=4e-3, maximize=True)
baseline = 0.0  # moving average of returns

for episode in range(int(os.environ.get("EPISODES", 400))):
    obs, _ = env.reset(seed=4 if episode == 0 else None)
    chosen, entropy, rewards = [], [], []
    while True:
        log_p = policy(torch.as_tensor(obs))
        a = int(torch.multinomial(log_p.detach().exp(), 1))
        chosen.append(log_p[a])
        entropy.append(-(log_p.exp() * log_p).sum())
        obs, r, terminated, truncated, _ = env.step(a)
        rewards.append(r)
        if terminated or truncated:
            break
    # reward to go without a loop: reversed cumulative sum of gamma^t r_t, with gamma^t taken out again
    gammas = 0.99 ** np.arange(len(rewards))
    to_go = (np.cumsum((gammas * np.array(rewards))[::-1])[::-1] / gammas).astype(np.float32)
    advantages = torch.from_numpy(to_go) - baseline
    baseline += 0.05 * (float(to_go.mean()) - baseline)
    objective = (torch.stack(chosen) * advantages).sum() + 0.01 * torch.stack(entropy).sum()
    ascent.zero_grad()
    (objective / 100.0).backward()
    ascent.step()
    if episode % 20 == 0:
        print(episode, len(rewards))
