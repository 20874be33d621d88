"""A recurrent actor-critic on a task that needs memory: the first observation says which arm to choose at the end."""
import os

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical


class TMaze(gym.Env):
    def __init__(self, length=6):
        self.length = length
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(3)  # ahead, left, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        self.x = 0
        return self._obs(first=True), {}

    def _obs(self, first=False):
        hint = (1.0 if self.side else -1.0) if first else 0.0
        return np.array([hint, float(self.x == self.length), self.x / self.length], dtype=np.float32)

    def step(self, action):
        if self.x < self.length:
            self.x += int(action == 0)
            return self._obs(), -0.01 if action == 0 else -0.1, False, False, {}
        if action == 0:
            return self._obs(), -0.1, False, False, {}
        won = (action == 2) == bool(self.side)
        return self._obs(), 1.0 if won else -1.0, True, False, {"is_success": won}


class Recurrent(nn.Module):
    def __init__(self, n_in, n_out, width=32):
        super().__init__()
        self.width = width
        self.cell = nn.GRUCell(n_in, width)
        self.pi = nn.Linear(width, n_out)
        self.v = nn.Linear(width, 1)

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.pi(h), self.v(h).squeeze(-1), h


def episode(env, model, sample=True, seed=None):
    obs, _ = env.reset(seed=seed)
    h = torch.zeros(1, model.width)
    log_probs, values, entropies, rewards = [], [], [], []
    while True:
        logits, value, h = model(torch.from_numpy(obs).unsqueeze(0), h)
        dist = Categorical(logits=logits)
        action = dist.sample() if sample else logits.argmax(-1)
        obs, reward, terminated, truncated, _ = env.step(action.item())
        log_probs.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        values.append(value)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    with torch.no_grad():
        after = 0.0 if terminated else model(torch.from_numpy(obs).unsqueeze(0), h)[1].item()
    return torch.cat(log_probs), torch.cat(values), torch.cat(entropies), rewards, after


def main(iterations=int(os.environ.get("ITERATIONS", 300)), gamma=0.98, per=16):
    torch.manual_seed(0)
    env = gym.wrappers.TimeLimit(TMaze(), 40)
    env.reset(seed=0)
    model = Recurrent(3, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for it in range(iterations):
        losses, totals = [], []
        for _ in range(per):
            logp, value, entropy, rewards, after = episode(env, model)
            ret, out = after, []
            for r in rewards[::-1]:
                ret = r + gamma * ret
                out.append(ret)
            returns = torch.tensor(out[::-1])
            adv = returns - value
            losses.append(-(logp * adv.detach()).sum() + 0.5 * adv.pow(2).sum() - 0.02 * entropy.sum())
            totals.append(sum(rewards))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % 20 == 0:
            print(it, round(float(np.mean(totals)), 3))
    check = gym.wrappers.TimeLimit(TMaze(), 40)
    with torch.no_grad():
        print("greedy", np.mean([sum(episode(check, model, sample=False, seed=1_000 + i)[3]) for i in range(20)]))


if __name__ == "__main__":
    main()
