"""Behaviour cloning from a controller, then advantage-weighted regression on what was recorded: the 'policy loss' is a weighted likelihood and never sees a ratio."""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(8)
rng = np.random.default_rng(8)


def controller(obs):
    cos, sin, velocity = obs
    angle = np.arctan2(sin, cos)
    if abs(angle) < 0.6:
        return np.array([-10.0 * angle - 2.0 * velocity])
    return np.array([2.0 * np.sign(velocity + 1e-3)])


def record(env, steps):
    rows = []
    obs, _ = env.reset(seed=8)
    for _ in range(steps):
        action = np.clip(controller(obs) + rng.normal(0, 0.6, 1), -2.0, 2.0).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, action, np.float32(reward) / 10.0, next_obs, np.float32(terminated)))
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
    return [torch.as_tensor(np.array(column, dtype=np.float32)) for column in zip(*rows)]


def main(steps=int(os.environ.get("STEPS", 20_000)), updates=int(os.environ.get("UPDATES", 4_000))):
    env = gym.make("Pendulum-v1")
    O, A, R, O2, END = record(env, steps)
    actor = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
    critic = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    lagging = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    lagging.load_state_dict(critic.state_dict())
    actor_opt, critic_opt = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
    for update in range(updates):
        rows = torch.randint(len(O), (256,))
        o, a, r, o2, end = O[rows], A[rows], R[rows], O2[rows], END[rows]
        with torch.no_grad():
            target = r + 0.98 * (1 - end) * lagging(o2)[:, 0]
        v = critic(o)[:, 0]
        critic_opt.zero_grad()
        F.mse_loss(v, target).backward()
        critic_opt.step()
        for slow, fast in zip(lagging.parameters(), critic.parameters()):
            slow.data += 0.01 * (fast.data - slow.data)

        error = (2.0 * actor(o) - a).square().sum(-1)
        if update < updates // 4:
            loss = error.mean()  # plain cloning first
        else:
            weight = ((target - v.detach()) / 0.3).exp().clamp(max=20.0)
            loss = (weight * error).mean()
        actor_opt.zero_grad()
        loss.backward()
        actor_opt.step()
        if update % 500 == 0:
            print(update, round(loss.item(), 4))
    totals = []
    for k in range(3):
        obs, _ = env.reset(seed=100 + k)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = 2.0 * actor(torch.as_tensor(obs)).numpy()
            obs, reward, terminated, truncated, _ = env.step(action)
            total += reward
            over = terminated or truncated
        totals.append(total)
    print("cloned and improved:", np.mean(totals))


if __name__ == "__main__":
    main()
