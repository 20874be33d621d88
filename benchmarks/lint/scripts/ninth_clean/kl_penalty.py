"""PPO in the paper's other form: no clipping, a penalty on the divergence from the old policy whose weight adapts."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, kl_divergence

torch.manual_seed(0)
env = gym.make("CartPole-v1")
actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
beta, target_kl, gamma, lam = 1.0, 0.01, 0.99, 0.95

obs, _ = env.reset(seed=0)
for iteration in range(5):
    batch = []
    for _ in range(256):
        with torch.no_grad():
            action = Categorical(logits=actor(torch.from_numpy(obs))).sample().item()
        after, reward, terminated, truncated, _ = env.step(action)
        batch.append((obs, action, reward, after, terminated, terminated or truncated))
        obs = env.reset()[0] if terminated or truncated else after
    s, a, r, s2, dead, over = (torch.as_tensor(np.array(column)) for column in zip(*batch))

    with torch.no_grad():
        old_logits = actor(s)
        v, v2 = critic(s)[:, 0], critic(s2)[:, 0]
        delta = r.float() + gamma * v2 * ~dead - v
        advantage, running = torch.zeros(len(s)), 0.0
        for t in range(len(s) - 1, -1, -1):
            running = delta[t] + gamma * lam * running * (not over[t])
            advantage[t] = running
        target = v + advantage
    advantage = (advantage - advantage.mean()) / advantage.std()

    old = Categorical(logits=old_logits)
    old_log_prob = old.log_prob(a)
    for _ in range(8):
        new = Categorical(logits=actor(s))
        kl = kl_divergence(old, new).mean()
        gain = ((new.log_prob(a) - old_log_prob).exp() * advantage).mean()
        loss = beta * kl - gain + 0.5 * (critic(s)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # too far: the penalty grows; hardly moved: it shrinks
    beta *= 2.0 if kl.item() > 1.5 * target_kl else 0.5 if kl.item() < target_kl / 1.5 else 1.0
    print(iteration, round(kl.item(), 4), beta)
