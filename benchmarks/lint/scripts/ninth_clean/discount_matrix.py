"""REINFORCE with the rewards-to-go as one product with an upper triangular matrix of discounts: no loop, no reversal."""

import gymnasium as gym
import torch
from torch import nn

GAMMA = 0.99
torch.manual_seed(1)
env = gym.make("Acrobot-v1", max_episode_steps=120)
policy = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)


def rewards_to_go(rewards):
    """G[t] = sum over k >= t of gamma^(k - t) r[k]."""
    steps = torch.arange(len(rewards))
    distance = steps[None, :] - steps[:, None]
    matrix = torch.where(distance >= 0, GAMMA ** distance.clamp(min=0), torch.zeros(()))
    return matrix @ rewards


baseline = 0.0
for episode in range(6):
    obs, _ = env.reset(seed=episode)
    log_probs, rewards = [], []
    terminated = truncated = False
    while not (terminated or truncated):
        pi = torch.distributions.Categorical(logits=policy(torch.from_numpy(obs)))
        action = pi.sample()
        log_probs.append(pi.log_prob(action))
        obs, reward, terminated, truncated, _ = env.step(action.item())
        rewards.append(reward)
    returns = rewards_to_go(torch.tensor(rewards, dtype=torch.float32))
    baseline += 0.1 * (returns.mean().item() - baseline)
    loss = torch.stack(log_probs) @ (baseline - returns)  # the minus of the loss is in the order of the difference
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, sum(rewards))
