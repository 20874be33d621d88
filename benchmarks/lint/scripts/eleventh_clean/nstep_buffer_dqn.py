"""DQN with n-step rows: each row has its own discount for the bootstrap, gamma**k, and zero where the episode ended."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

N, GAMMA = 3, 0.99


def rows_of(window, last_obs, terminated):
    """All rows that a finished or full window gives; the oldest first."""
    for start in range(len(window)):
        part = window[start:]
        reward = sum(GAMMA**k * r for k, (_, _, r) in enumerate(part))
        yield part[0][0], part[0][1], reward, last_obs, 0.0 if terminated else GAMMA ** len(part)


def main(total=25_000):
    random.seed(1), torch.manual_seed(1)
    env = gym.make("CartPole-v1")
    env.action_space.seed(1)
    online = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    lagged = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 2))
    lagged.load_state_dict(online.state_dict())
    opt = torch.optim.RMSprop(online.parameters(), lr=5e-4)
    replay, window = deque(maxlen=30_000), []
    obs, _ = env.reset(seed=1)
    length = 0
    for t in range(total):
        eps = 0.05 if t > 8000 else 1.0 - 0.95 * t / 8000
        if random.random() < eps:
            act = int(env.action_space.sample())
        else:
            act = int(online(torch.as_tensor(obs)).argmax())
        nxt, r, term, trunc, _ = env.step(act)
        window.append((obs, act, r))
        obs, length = nxt, length + 1
        if term or trunc:
            replay.extend(rows_of(window, nxt, term))
            window.clear()
            if t % 20 == 0:
                print(t, length)
            obs, length = env.reset()[0], 0
        elif len(window) == N:
            replay.append(next(rows_of(window, nxt, False)))
            window.pop(0)
        if t > 1000 and t % 2:
            o, a, g, o2, disc = (torch.as_tensor(np.array(c)) for c in zip(*random.sample(replay, 64)))
            with torch.no_grad():
                y = (g + disc * lagged(o2).amax(1)).float()
            loss = nn.functional.mse_loss(online(o)[torch.arange(64), a], y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if t % 400 == 0:
            lagged.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
