"""Q-learning where the time that is left belongs to the state: here the limit is a real end, and is stored as one.

Exploration is by temperature; there is no epsilon.
"""
import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import TimeAwareObservation
from torch import nn

HORIZON = 100
env = TimeAwareObservation(gym.make("CartPole-v1", max_episode_steps=HORIZON), normalize_time=True)  # the observation ends with the time, as a share
torch.manual_seed(1)
rng = np.random.default_rng(1)
n = env.observation_space.shape[0]
q = nn.Sequential(nn.Linear(n, 96), nn.ReLU(), nn.Linear(96, 2))
q_old = nn.Sequential(nn.Linear(n, 96), nn.ReLU(), nn.Linear(96, 2))
q_old.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
S, A, R, S1, F = np.zeros((20_000, n), np.float32), np.zeros(20_000, np.int64), np.zeros(20_000, np.float32), np.zeros((20_000, n), np.float32), np.zeros(20_000, np.float32)

s, _ = env.reset(seed=1)
length = 0
for t in range(20_000):
    temperature = max(0.05, 2.0 * (1 - t / 10_000))
    with torch.no_grad():
        p = torch.softmax(q(torch.as_tensor(s, dtype=torch.float32)) / temperature, -1).double().numpy()
    a = rng.choice(2, p=p / p.sum())
    s1, r, fell, time_up, _ = env.step(int(a))
    S[t], A[t], R[t], S1[t], F[t] = s, a, r, s1, fell or time_up
    s = s1
    length += 1
    if fell or time_up:
        if t > 15_000:
            print(t, length)
        length = 0
        s, _ = env.reset()
    if t > 500:
        i = rng.integers(0, t + 1, 64)
        b, act, rew, b1, f = map(torch.from_numpy, (S[i], A[i], R[i], S1[i], F[i]))
        y = rew + (1 - f) * q_old(b1).detach().amax(1)  # a finite horizon needs no discount
        loss = (q(b)[torch.arange(64), act] - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if t % 250 == 0:
        q_old.load_state_dict(q.state_dict())
