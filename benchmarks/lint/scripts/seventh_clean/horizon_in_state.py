"""Here the time limit IS part of the task: the clock is in the observation, so its end is a real end and both flags mean 'no future'."""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class Inventory(gym.Env):
    """Sell stock within 30 days; what is left then is worth nothing."""

    DAYS = 30

    def __init__(self):
        self.observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(5)

    def _obs(self):
        return np.array([self.stock / 50, self.day / self.DAYS], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.day = 50, 0
        return self._obs(), {}

    def step(self, action):
        price = 0.2 + 0.2 * int(action)
        sold = min(self.stock, int(self.np_random.poisson(4.0 * np.exp(-1.5 * price) * 2)))
        self.stock -= sold
        self.day += 1
        over = self.day == self.DAYS or self.stock == 0
        return self._obs(), price * sold, over, False, {}


def main(updates=int(os.environ.get("UPDATES", 300))):
    torch.manual_seed(1)
    env = Inventory()
    actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 5))
    critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
    obs, _ = env.reset(seed=1)
    for update in range(updates):
        observations, actions, rewards, following, masks = [], [], [], [], []
        for _ in range(64):
            x = torch.as_tensor(obs)
            with torch.no_grad():
                action = torch.distributions.Categorical(logits=actor(x)).sample()
            obs, reward, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
            observations.append(x)
            actions.append(action)
            rewards.append(reward)
            following.append(torch.as_tensor(obs))
            masks.append(0.0 if done else 1.0)
            if done:
                obs, _ = env.reset()
        X, A = torch.stack(observations), torch.stack(actions)
        with torch.no_grad():
            # undiscounted: the horizon is finite and short
            target = torch.tensor(rewards, dtype=torch.float32) + torch.tensor(masks) * critic(torch.stack(following)).squeeze(1)
        value = critic(X).squeeze(1)
        advantage = (target - value).detach()
        dist = torch.distributions.Categorical(logits=actor(X))
        loss = (-dist.log_prob(A) * advantage + 0.5 * (value - target) ** 2 - 0.01 * dist.entropy()).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if update % 50 == 0:
            print(update, round(float(np.mean(rewards)), 3))


if __name__ == "__main__":
    main()
