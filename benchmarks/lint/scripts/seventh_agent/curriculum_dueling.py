"""A dueling double DQN agent on an own corridor task whose length grows as the agent gets better."""
import os
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium import spaces


class Corridor(gym.Env):
    """Walk right to the door. A wrong key at the door ends the episode without pay; the key to use is shown only at the start cell.

    Observation: position / max length, length / max length, key shown (one-hot 2), key carried (one-hot 2), time left.
    Actions: 0 left, 1 right, 2 take key A, 3 take key B.
    """

    MAX_LENGTH = 12

    def __init__(self, length=3):
        self.length = length
        self.observation_space = spaces.Box(0.0, 1.0, shape=(7,), dtype=np.float32)
        self.action_space = spaces.Discrete(4)

    def _get_obs(self):
        shown = np.zeros(2, dtype=np.float32)
        if self.pos == 0:
            shown[self.key] = 1.0
        carried = np.zeros(2, dtype=np.float32)
        if self.carried is not None:
            carried[self.carried] = 1.0
        left = 1.0 - self.t / self.limit
        return np.concatenate([[self.pos / self.MAX_LENGTH, self.length / self.MAX_LENGTH], shown, carried, [left]]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos, self.t, self.carried = 0, 0, None
        self.limit = 4 * self.length
        self.key = int(self.np_random.integers(2))
        return self._get_obs(), {}

    def step(self, action):
        self.t += 1
        reward, terminated = -0.02, False
        if action == 0:
            self.pos = max(0, self.pos - 1)
        elif action == 1:
            self.pos += 1
        elif self.pos == 0:
            self.carried = action - 2
        if self.pos == self.length:
            terminated = True
            reward = 1.0 if self.carried == self.key else -0.5
        truncated = not terminated and self.t >= self.limit
        return self._get_obs(), reward, terminated, truncated, {"success": terminated and reward > 0}


class DuelingNet(nn.Module):
    def __init__(self, n_obs, n_act, width=64):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.advantage = nn.Linear(width, n_act)
        self.value = nn.Linear(width, 1)

    def forward(self, x):
        h = self.features(x)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class Memory:
    def __init__(self, limit):
        self.limit = limit
        self.rows = []
        self.cursor = 0

    def remember(self, row):
        if len(self.rows) < self.limit:
            self.rows.append(row)
        else:
            self.rows[self.cursor] = row
        self.cursor = (self.cursor + 1) % self.limit

    def draw(self, n):
        s, a, r, s2, end = zip(*random.sample(self.rows, n))
        return (
            torch.tensor(np.array(s)),
            torch.tensor(a).long(),
            torch.tensor(r, dtype=torch.float32),
            torch.tensor(np.array(s2)),
            torch.tensor(end, dtype=torch.float32),
        )


class Agent:
    def __init__(self, n_obs, n_act, lr=5e-4, gamma=0.98, batch=64, memory=30_000, tau=0.01):
        self.n_act, self.gamma, self.batch, self.tau = n_act, gamma, batch, tau
        self.net = DuelingNet(n_obs, n_act)
        self.slow_net = DuelingNet(n_obs, n_act)
        self.slow_net.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr, weight_decay=0.0)
        self.memory = Memory(memory)
        self.eps = 1.0
        self.eps_min = 0.05
        self.eps_step = 1e-4

    def pick(self, obs, greedy=False):
        if not greedy and random.random() < self.eps:
            return random.randrange(self.n_act)
        with torch.no_grad():
            return int(self.net(torch.from_numpy(obs)[None]).argmax(dim=1))

    def observe(self, obs, action, reward, next_obs, terminated):
        self.memory.remember((obs, action, reward, next_obs, terminated))
        self.eps = max(self.eps_min, self.eps - self.eps_step)
        if len(self.memory.rows) >= 10 * self.batch:
            return self.improve()
        return None

    def improve(self):
        s, a, r, s2, end = self.memory.draw(self.batch)
        q = self.net(s)[torch.arange(self.batch), a]
        with torch.no_grad():
            a2 = self.net(s2).argmax(dim=1)
            q2 = self.slow_net(s2)[torch.arange(self.batch), a2]
            y = r + self.gamma * q2 * (1.0 - end)
        loss = nn.functional.huber_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.opt.step()
        for old, new in zip(self.slow_net.parameters(), self.net.parameters()):
            old.data.mul_(1.0 - self.tau).add_(self.tau * new.data)
        return loss.item()


class Curriculum:
    """Longer corridors once the last 50 episodes go well."""

    def __init__(self, start=3, end=Corridor.MAX_LENGTH, bar=0.85):
        self.length, self.end, self.bar = start, end, bar
        self.results = []

    def report(self, success):
        self.results.append(float(success))
        if len(self.results) >= 50 and np.mean(self.results[-50:]) >= self.bar and self.length < self.end:
            self.length += 1
            self.results.clear()
            return True
        return False


def success_rate(agent, length, episodes=20):
    env = Corridor(length)
    won = 0
    for k in range(episodes):
        obs, _ = env.reset(seed=5_000 + k)
        over = False
        while not over:
            obs, _, terminated, truncated, info = env.step(agent.pick(obs, greedy=True))
            over = terminated or truncated
        won += info["success"]
    return won / episodes


def main(episodes=int(os.environ.get("EPISODES", 2_000)), seed=11):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    curriculum = Curriculum()
    env = Corridor(curriculum.length)
    agent = Agent(env.observation_space.shape[0], env.action_space.n)
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        over = False
        while not over:
            action = agent.pick(obs)
            next_obs, reward, terminated, truncated, info = env.step(action)
            agent.observe(obs, action, reward, next_obs, terminated)
            obs = next_obs
            over = terminated or truncated
        if curriculum.report(info["success"]):
            env.length = curriculum.length
            agent.eps = max(agent.eps, 0.3)
            print("episode", episode, "corridor is now", curriculum.length)
        if episode % 100 == 99:
            print(episode + 1, "greedy success", success_rate(agent, curriculum.length), "eps", round(agent.eps, 2))


if __name__ == "__main__":
    main()
