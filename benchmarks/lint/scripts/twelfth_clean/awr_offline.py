"""Advantage-weighted regression on a fixed data set: nobody explores, nothing new is collected, the policy imitates
what turned out well. The data come from a clumsy hand-written controller."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn

GAMMA, BETA, W_MAX = 0.97, 0.5, 20.0


def clumsy(obs, rng):
    """Energy pumping far from the top, a proportional rule near it, and a lot of noise everywhere."""
    cos, sin, speed = obs
    if cos > 0.9:
        torque = -8.0 * sin - 1.5 * speed
    else:
        torque = 1.2 * np.sign(speed if abs(speed) > 1e-3 else 1.0)
    return np.clip(torque + rng.normal(0, 0.8), -2, 2)


def gather(episodes, rng):
    env = gym.make("Pendulum-v1")
    data = []
    for k in range(episodes):
        obs, _ = env.reset(seed=k)
        observations, actions, rewards, over = [], [], [], False
        while not over:
            action = clumsy(obs, rng)
            nxt, reward, terminated, truncated, _ = env.step(np.array([action], dtype=np.float32))
            observations.append(obs)
            actions.append([action])
            rewards.append(float(reward) / 10)
            obs, over = nxt, terminated or truncated
        g, returns = 0.0, []
        for reward in reversed(rewards):
            g = reward + GAMMA * g
            returns.append(g)
        returns.reverse()
        # the last steps' returns are cut short by the clock, so they are left out
        keep = len(rewards) - 80
        data += list(zip(observations[:keep], actions[:keep], returns[:keep]))
    return [torch.tensor(np.array(column), dtype=torch.float32) for column in zip(*data)]


def score(policy, episodes=5):
    env = gym.make("Pendulum-v1")
    totals = []
    for k in range(episodes):
        obs, _ = env.reset(seed=9_000 + k)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = policy(torch.from_numpy(obs)).clamp(-2, 2).numpy()
            obs, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
        totals.append(total)
    return np.mean(totals)


def main(episodes=100, value_steps=2_000, policy_steps=4_000):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    obs, actions, returns = gather(episodes, rng)

    value = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    policy = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    log_std = nn.Parameter(torch.zeros(1))
    value_opt = torch.optim.Adam(value.parameters(), lr=1e-3)
    policy_opt = torch.optim.Adam([*policy.parameters(), log_std], lr=5e-4)

    for _ in range(value_steps):
        rows = torch.from_numpy(rng.integers(len(obs), size=256))
        loss = (value(obs[rows]).squeeze(-1) - returns[rows]).square().mean()
        value_opt.zero_grad()
        loss.backward()
        value_opt.step()

    with torch.no_grad():
        advantages = returns - value(obs).squeeze(-1)
        weights = (advantages / (BETA * advantages.std())).exp().clamp(max=W_MAX)

    for step in range(1, policy_steps + 1):
        rows = torch.from_numpy(rng.integers(len(obs), size=256))
        dist = torch.distributions.Normal(policy(obs[rows]), log_std.exp())
        # the actions of the data, not of the policy: weighted likelihood
        loss = -(weights[rows] * dist.log_prob(actions[rows]).sum(dim=-1)).mean()
        policy_opt.zero_grad()
        loss.backward()
        policy_opt.step()
        if step % 500 == 0:
            print(f"{step}: {score(policy):.1f}")


if __name__ == "__main__":
    main()
