import copy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from replay import Replay

torch.manual_seed(0)
env = gym.make("Pendulum-v1")
bound = float(env.action_space.high[0])
actor = nn.Sequential(nn.Linear(3, 128), nn.ReLU(), nn.Linear(128, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 1))
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-4)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
replay = Replay(100_000)


def soft_update(target, source, tau=0.005):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_((1 - tau) * t.data + tau * s.data)


state, _ = env.reset(seed=0)
for step in range(50_000):
    if step < 1000:
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            action = bound * actor(torch.from_numpy(state)).numpy()
        action = np.clip(action + np.random.normal(0, 0.1 * bound, size=1), -bound, bound)
    next_state, reward, terminated, truncated, _ = env.step(action)
    replay.add(state, action, reward, next_state, terminated)
    state = next_state
    if terminated or truncated:
        state, _ = env.reset()
    if step < 1000:
        continue
    s, a, r, s2, term = replay.sample(64)  # r and term have shape [64, 1]
    with torch.no_grad():
        q_next = critic_target(torch.cat([s2, bound * actor_target(s2)], dim=1))
        y = r + 0.99 * (1 - term) * q_next
    critic_loss = F.mse_loss(critic(torch.cat([s, a], dim=1)), y)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_loss = -critic(torch.cat([s, bound * actor(s)], dim=1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    soft_update(actor_target, actor)
    soft_update(critic_target, critic)
