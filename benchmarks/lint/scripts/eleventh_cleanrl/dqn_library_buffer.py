"""DQN, single file; replay buffer of stable-baselines3."""
import argparse
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from stable_baselines3.common.buffers import ReplayBuffer


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--env", default="MountainCar-v0")
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--steps", type=int, default=300_000)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--buffer", type=int, default=50_000)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--tau", type=float, default=1.0, help="1 copies, less mixes")
    ap.add_argument("--target-freq", type=int, default=600)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--eps-first", type=float, default=1.0)
    ap.add_argument("--eps-last", type=float, default=0.07)
    ap.add_argument("--eps-share", type=float, default=0.4)
    ap.add_argument("--learn-from", type=int, default=5_000)
    ap.add_argument("--learn-every", type=int, default=8)
    return ap.parse_args()


class Q(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.f = nn.Sequential(
            nn.Linear(env.observation_space.shape[0], 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, env.action_space.n)
        )

    def forward(self, x):
        return self.f(x)


def evaluate(net, env_id, n=10):
    env = gym.make(env_id)
    returns = []
    for k in range(n):
        obs, _ = env.reset(seed=9000 + k)
        ret, over = 0.0, False
        while not over:
            with torch.no_grad():
                a = net(torch.as_tensor(obs).unsqueeze(0)).argmax(1).item()
            obs, r, term, trunc, _ = env.step(a)
            ret += r
            over = term or trunc
        returns.append(ret)
    return float(np.mean(returns))


if __name__ == "__main__":
    a = get_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    env = gym.make(a.env)
    env.action_space.seed(a.seed)

    q, q_target = Q(env), Q(env)
    q_target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=a.lr)
    rb = ReplayBuffer(a.buffer, env.observation_space, env.action_space, "cpu", handle_timeout_termination=False)

    obs, _ = env.reset(seed=a.seed)
    for t in range(a.steps):
        eps = max(a.eps_last, a.eps_first + (a.eps_last - a.eps_first) * t / (a.eps_share * a.steps))
        if random.random() < eps:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = q(torch.as_tensor(obs).unsqueeze(0)).argmax(dim=1).item()
        next_obs, reward, terminated, truncated, info = env.step(action)
        rb.add(obs, next_obs, np.array([action]), np.array([reward]), np.array([terminated]), [info])
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if t > a.learn_from and t % a.learn_every == 0:
            data = rb.sample(a.batch)
            with torch.no_grad():
                target_max, _ = q_target(data.next_observations).max(dim=1)
                td_target = data.rewards.flatten() + a.gamma * target_max * (1 - data.dones.flatten())
            old_val = q(data.observations).gather(1, data.actions).squeeze()
            loss = F.mse_loss(td_target, old_val)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if t % a.target_freq == 0:
            for p_target, p in zip(q_target.parameters(), q.parameters()):
                p_target.data.copy_(a.tau * p.data + (1.0 - a.tau) * p_target.data)
        if (t + 1) % 25_000 == 0:
            print(t + 1, "epsilon", round(eps, 3), "greedy", evaluate(q, a.env))
