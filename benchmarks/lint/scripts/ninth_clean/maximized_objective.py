"""PPO's clipped objective, written as the paper has it and maximised: no minus anywhere, `maximize=True` in the optimiser."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
env = gym.make("CartPole-v1")
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
ascent = torch.optim.Adam(policy.parameters(), lr=1e-3, maximize=True)


def play():
    """One episode: observations, actions, rewards."""
    obs, _ = env.reset()
    episode = []
    over = False
    while not over:
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(torch.from_numpy(obs))).sample()
        after, reward, terminated, truncated, _ = env.step(action.item())
        episode.append((obs, action.item(), reward))
        obs, over = after, terminated or truncated
    return episode


for iteration in range(5):
    episodes = [play() for _ in range(6)]
    obs = torch.from_numpy(np.array([step[0] for episode in episodes for step in episode]))
    action = torch.tensor([step[1] for episode in episodes for step in episode])
    # an episode's own length is its return here, and what is left of it the return from a step on
    to_go = torch.cat([torch.arange(len(episode), 0, -1.0) for episode in episodes])
    advantage = (to_go - to_go.mean()) / to_go.std()
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(obs)).log_prob(action)
    for _ in range(4):
        pi = torch.distributions.Categorical(logits=policy(obs))
        ratio = (pi.log_prob(action) - old).exp()
        objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() + 0.01 * pi.entropy().mean()
        ascent.zero_grad()
        objective.backward()
        ascent.step()
    print(iteration, to_go.max().item())
