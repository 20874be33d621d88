# REINFORCE with a learned baseline, as short as I could make it.
#
# For the write-up: the policy gradient needs three things from every episode:
#   1. the observations we saw, 2. the actions we took, 3. the discounted reward-to-go.
# The baseline (a value network) only lowers the variance.
import os

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

EPISODES = int(os.environ.get("EPISODES", 600))
GAMMA = 0.99
LR_POLICY = 3e-3
LR_BASELINE = 1e-2

torch.manual_seed(543)
np.random.seed(543)

env = gym.make("CartPole-v1")
n_obs = env.observation_space.shape[0]
n_act = env.action_space.n

policy = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, n_act))
baseline = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU(), nn.Linear(128, 1))
policy_opt = torch.optim.Adam(policy.parameters(), lr=LR_POLICY)
baseline_opt = torch.optim.Adam(baseline.parameters(), lr=LR_BASELINE)


def pick_action(obs):
    logits = policy(torch.from_numpy(obs).float())
    dist = Categorical(logits=logits)
    action = dist.sample()
    return action.item(), dist.log_prob(action), dist.entropy()


def reward_to_go(rewards, last_value):
    """Discounted return from every step on; last_value stands for what lies behind a time limit."""
    g = last_value
    out = []
    for r in reversed(rewards):
        g = r + GAMMA * g
        out.append(g)
    out.reverse()
    return torch.tensor(out, dtype=torch.float32)


def run_episode(seed=None):
    obs, _ = env.reset(seed=seed)
    observations, log_probs, entropies, rewards = [], [], [], []
    while True:
        action, log_prob, entropy = pick_action(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        observations.append(obs)
        log_probs.append(log_prob)
        entropies.append(entropy)
        rewards.append(float(reward))
        obs = next_obs
        if terminated:
            return observations, log_probs, entropies, rewards, 0.0
        if truncated:
            with torch.no_grad():
                tail = baseline(torch.from_numpy(obs).float()).item()
            return observations, log_probs, entropies, rewards, tail


def update(observations, log_probs, entropies, rewards, tail):
    returns = reward_to_go(rewards, tail)
    values = baseline(torch.from_numpy(np.stack(observations)).float()).squeeze(1)
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-8)

    policy_loss = -(torch.stack(log_probs) * advantage).sum() - 0.01 * torch.stack(entropies).sum()
    baseline_loss = nn.functional.mse_loss(values, returns)
    policy_opt.zero_grad()
    baseline_opt.zero_grad()
    (policy_loss + baseline_loss).backward()
    policy_opt.step()
    baseline_opt.step()
    return policy_loss.item(), baseline_loss.item()


def test(n=10):
    test_env = gym.make("CartPole-v1")
    scores = []
    for i in range(n):
        obs, _ = test_env.reset(seed=2000 + i)
        score, finished = 0.0, False
        while not finished:
            with torch.no_grad():
                action = policy(torch.from_numpy(obs).float()).argmax().item()
            obs, reward, terminated, truncated, _ = test_env.step(action)
            score += reward
            finished = terminated or truncated
        scores.append(score)
    return np.mean(scores)


running = 10.0
for episode in range(1, EPISODES + 1):
    trajectory = run_episode(seed=543 if episode == 1 else None)
    losses = update(*trajectory)
    length = len(trajectory[3])
    running = 0.05 * length + 0.95 * running
    if episode % 20 == 0:
        print(f"Episode {episode}\tlast length: {length}\taverage: {running:.1f}\tlosses {losses}")
    if running > 475:
        print("Solved!")
        break
print("greedy test score:", test())
