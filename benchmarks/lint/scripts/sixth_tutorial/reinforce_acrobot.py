# REINFORCE with a learned baseline. Written for a course; one episode batch per update.
import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser(description="policy gradient with a baseline")
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--seed", type=int, default=543)
parser.add_argument("--updates", type=int, default=400)
parser.add_argument("--episodes-per-update", type=int, default=8)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--baseline-lr", type=float, default=1e-2)
parser.add_argument("--entropy", type=float, default=0.01)
parser.add_argument("--env", default="Acrobot-v1")
config = parser.parse_args()

torch.manual_seed(config.seed)
env = gym.make(config.env)


class Policy(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.affine1 = nn.Linear(n_in, 64)
        self.dropout_free = nn.ReLU()
        self.affine2 = nn.Linear(64, n_out)

    def forward(self, x):
        return self.affine2(self.dropout_free(self.affine1(x)))


class Baseline(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


policy = Policy(env.observation_space.shape[0], int(env.action_space.n))
baseline = Baseline(env.observation_space.shape[0])
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=config.lr)
baseline_optimizer = torch.optim.Adam(baseline.parameters(), lr=config.baseline_lr)


def pick(obs):
    dist = Categorical(logits=policy(torch.from_numpy(obs)))
    action = dist.sample()
    return action.item(), dist.log_prob(action), dist.entropy()


def play_episode(seed=None):
    """One episode: what was seen, log-probabilities, entropies, rewards, and where it was cut."""
    obs, _ = env.reset(seed=seed)
    seen, log_probs, entropies, rewards = [], [], [], []
    while True:
        action, log_prob, entropy = pick(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        seen.append(obs)
        log_probs.append(log_prob)
        entropies.append(entropy)
        rewards.append(float(reward))
        obs = next_obs
        if terminated or truncated:
            break
    with torch.no_grad():
        rest = 0.0 if terminated else baseline(torch.from_numpy(obs)).item()
    return seen, log_probs, entropies, rewards, rest


def rewards_to_go(rewards, rest):
    R = rest
    out = []
    for r in reversed(rewards):
        R = r + config.gamma * R
        out.insert(0, R)
    return out


def update(episodes):
    observations, returns, log_probs, entropies = [], [], [], []
    for seen, lp, ent, rewards, rest in episodes:
        observations.extend(seen)
        returns.extend(rewards_to_go(rewards, rest))
        log_probs.extend(lp)
        entropies.extend(ent)
    observations = torch.from_numpy(np.stack(observations))
    returns = torch.tensor(returns, dtype=torch.float32)

    values = baseline(observations)
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    policy_loss = -(torch.stack(log_probs) * advantage).mean()
    entropy_bonus = torch.stack(entropies).mean()
    loss = policy_loss - config.entropy * entropy_bonus
    policy_optimizer.zero_grad()
    loss.backward()
    policy_optimizer.step()

    value_loss = nn.functional.mse_loss(values, returns)
    baseline_optimizer.zero_grad()
    value_loss.backward()
    baseline_optimizer.step()
    return policy_loss.item(), value_loss.item()


def greedy(n=5):
    eval_env = gym.make(config.env)
    total = 0.0
    for i in range(n):
        obs, _ = eval_env.reset(seed=i)
        done = False
        while not done:
            with torch.no_grad():
                action = policy(torch.from_numpy(obs)).argmax().item()
            obs, reward, terminated, truncated, _ = eval_env.step(action)
            total += float(reward)
            done = terminated or truncated
    eval_env.close()
    return total / n


running_reward = None
for i in range(config.updates):
    batch = []
    for k in range(config.episodes_per_update):
        first = i == 0 and k == 0
        batch.append(play_episode(seed=config.seed if first else None))
    mean_return = np.mean([sum(rewards) for _, _, _, rewards, _ in batch])
    running_reward = mean_return if running_reward is None else 0.9 * running_reward + 0.1 * mean_return
    p_loss, v_loss = update(batch)
    if i % 10 == 0:
        print(f"update {i}: mean {mean_return:.1f} running {running_reward:.1f} policy {p_loss:.3f} value {v_loss:.2f}")
print("greedy:", greedy())
