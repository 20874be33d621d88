"""A DDPG agent with Ornstein-Uhlenbeck noise that steers a point towards a goal which is drawn anew in every episode."""

import copy
import sys

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from gymnasium.spaces import Box
from torch import nn, optim


class PointReach(gym.Env):
    LIMIT = 100

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, shape=(6,), dtype=np.float32)
        self.action_space = Box(-2.0, 2.0, shape=(2,), dtype=np.float32)
        self.clock = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, size=2)
        self.velocity = np.zeros(2)
        self.goal = self.np_random.uniform(-1, 1, size=2)
        self.clock = 0
        return self._obs(), {}

    def _obs(self):
        return np.concatenate([self.position, self.velocity, self.goal - self.position]).astype(np.float32)

    def step(self, action):
        self.velocity = 0.9 * self.velocity + 0.05 * np.clip(action, -2.0, 2.0)
        self.position = self.position + 0.1 * self.velocity
        self.clock += 1
        distance = np.linalg.norm(self.goal - self.position)
        arrived = bool(distance < 0.05)
        reward = -distance + (10.0 if arrived else 0.0)
        return self._obs(), float(reward), arrived, self.clock >= self.LIMIT, {}


class OUNoise:
    def __init__(self, size, seed, mu=0.0, theta=0.15, sigma=0.2):
        self.mu = mu * np.ones(size)
        self.theta, self.sigma = theta, sigma
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = self.mu.copy()

    def sample(self):
        self.state = self.state + self.theta * (self.mu - self.state) + self.sigma * self.rng.standard_normal(len(self.state))
        return self.state


class Actor(nn.Module):
    def __init__(self, s, a, bound):
        super().__init__()
        self.l1, self.l2, self.out = nn.Linear(s, 128), nn.Linear(128, 128), nn.Linear(128, a)
        self.bound = bound

    def forward(self, x):
        x = F.relu(self.l2(F.relu(self.l1(x))))
        return self.bound * torch.tanh(self.out(x))


class Critic(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2, self.out = nn.Linear(s + a, 128), nn.Linear(128, 128), nn.Linear(128, 1)

    def forward(self, x, u):
        h = F.relu(self.l1(torch.cat((x, u), dim=1)))
        return self.out(F.relu(self.l2(h)))


class ReplayMemory:
    def __init__(self, s, a, room=50_000):
        self.room, self.used, self.head = room, 0, 0
        self.s, self.a = np.empty((room, s), np.float32), np.empty((room, a), np.float32)
        self.r, self.s2 = np.empty((room, 1), np.float32), np.empty((room, s), np.float32)
        self.alive = np.empty((room, 1), np.float32)

    def add(self, s, a, r, s2, terminated):
        i = self.head
        self.s[i], self.a[i], self.r[i], self.s2[i] = s, a, r, s2
        self.alive[i] = 1.0 - float(terminated)
        self.head = (i + 1) % self.room
        self.used = min(self.used + 1, self.room)

    def draw(self, n):
        rows = np.random.choice(self.used, n)
        return [torch.as_tensor(x[rows]) for x in (self.s, self.a, self.r, self.s2, self.alive)]


class DDPGAgent:
    def __init__(self, env, gamma=0.97, tau=0.01, batch=128, warmup=1000, seed=0):
        s, a = env.observation_space.shape[0], env.action_space.shape[0]
        self.bound = float(env.action_space.high[0])
        self.gamma, self.tau, self.batch, self.warmup = gamma, tau, batch, warmup
        self.actor, self.critic = Actor(s, a, self.bound), Critic(s, a)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = optim.Adam(self.actor.parameters(), lr=5e-4)
        self.critic_optimizer = optim.Adam(self.critic.parameters(), lr=1e-3)
        self.memory = ReplayMemory(s, a)
        self.noise = OUNoise(a, seed)

    def act(self, state, explore=True):
        with torch.no_grad():
            action = self.actor(torch.as_tensor(state).unsqueeze(0))[0].numpy()
        if explore:
            action = action + self.bound * self.noise.sample()
        return np.clip(action, -self.bound, self.bound)

    def step(self, s, a, r, s2, terminated):
        self.memory.add(s, a, r, s2, terminated)
        if self.memory.used >= self.warmup:
            self.learn()

    def learn(self):
        s, a, r, s2, alive = self.memory.draw(self.batch)
        with torch.no_grad():
            a2 = self.actor_target(s2)
            y = r + self.gamma * alive * self.critic_target(s2, a2)
        critic_loss = F.mse_loss(self.critic(s, a), y)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(s, self.actor(s)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        self.follow(self.actor_target, self.actor)
        self.follow(self.critic_target, self.critic)

    def follow(self, slow, fast):
        for old, new in zip(slow.parameters(), fast.parameters()):
            old.data.lerp_(new.data, self.tau)


def main(episodes=200, seed=0):
    np.random.seed(seed)
    torch.manual_seed(seed)
    env = PointReach()
    agent = DDPGAgent(env, seed=seed)
    s, _ = env.reset(seed=seed)
    for episode in range(episodes):
        agent.noise.reset()
        score, over = 0.0, False
        while not over:
            a = agent.act(s)
            s2, r, terminated, truncated, _ = env.step(a)
            agent.step(s, a, r, s2, terminated)
            score += r
            s = s2
            over = terminated or truncated
        s, _ = env.reset()
        if episode % 10 == 9:
            tests = []
            test_env = PointReach()
            for k in range(5):
                x, _ = test_env.reset(seed=500 + k)
                total, stop = 0.0, False
                while not stop:
                    x, r, term, trunc, _ = test_env.step(agent.act(x, explore=False))
                    total += r
                    stop = term or trunc
                tests.append(total)
            print(f"{episode + 1}: {score:.1f}, without noise {np.mean(tests):.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
