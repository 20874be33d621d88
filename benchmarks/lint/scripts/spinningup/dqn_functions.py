from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.optim import Adam

from buffers import ReplayBuffer


def dqn(env_fn, seed=0, total_steps=50_000, gamma=0.99, q_lr=5e-4, batch_size=64, start_steps=1000, eps_end=0.05, eps_steps=10_000, sync=500):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env = env_fn()
    q = nn.Sequential(nn.Linear(env.observation_space.shape[0], 128), nn.ReLU(), nn.Linear(128, env.action_space.n))
    q_targ = deepcopy(q)
    q_optimizer = Adam(q.parameters(), lr=q_lr)
    buf = ReplayBuffer(env.observation_space.shape[0], 1, int(1e5))

    def compute_loss(data):
        o, a, r, o2, d = data["obs"], data["act"].long(), data["rew"], data["obs2"], data["done"]
        q_a = q(o).gather(1, a).squeeze(-1)
        with torch.no_grad():
            best = q_targ(o2).max(dim=-1).values
            backup = r + gamma * (1 - d) * best
        return nn.functional.smooth_l1_loss(q_a, backup)

    def get_action(o, eps):
        if np.random.rand() < eps:
            return env.action_space.sample()
        with torch.no_grad():
            return q(torch.as_tensor(o, dtype=torch.float32)).argmax().item()

    o, _ = env.reset(seed=seed)
    for t in range(total_steps):
        eps = max(eps_end, 1.0 - t / eps_steps)
        a = get_action(o, eps)
        o2, r, terminated, truncated, _ = env.step(a)
        buf.store(o, a, r, o2, terminated)
        o = o2
        if terminated or truncated:
            o, _ = env.reset()
        if t > start_steps:
            q_optimizer.zero_grad()
            loss = compute_loss(buf.sample_batch(batch_size))
            loss.backward()
            q_optimizer.step()
        if t % sync == 0:
            q_targ.load_state_dict(q.state_dict())


if __name__ == "__main__":
    dqn(lambda: gym.make("CartPole-v1"))
