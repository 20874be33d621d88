"""DDPG agent for control-suite-like environments, whose reset and step return a TimeStep (step_type, reward, discount, observation)."""
import collections
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Batch = collections.namedtuple("Batch", "obs action reward discount next_obs")


def flatten(observation):
    return np.concatenate([np.ravel(v) for v in observation.values()]).astype(np.float32)


class OUProcess:
    def __init__(self, dim, theta=0.15, sigma=0.2):
        self.dim, self.theta, self.sigma = dim, theta, sigma
        self.reset()

    def reset(self):
        self.x = np.zeros(self.dim)

    def __call__(self):
        self.x = self.x - self.theta * self.x + self.sigma * np.random.randn(self.dim)
        return self.x


class Memory:
    def __init__(self, capacity):
        self.rows = collections.deque(maxlen=capacity)

    def add(self, *row):
        self.rows.append(row)

    def batch(self, n):
        columns = zip(*random.sample(self.rows, n))
        return Batch(*(torch.as_tensor(np.stack(column), dtype=torch.float32) for column in columns))

    def __len__(self):
        return len(self.rows)


class Actor(nn.Module):
    def __init__(self, obs_dim, spec):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(obs_dim, 400), nn.Linear(400, 300), nn.Linear(300, spec.shape[0])
        self.low = torch.as_tensor(spec.minimum, dtype=torch.float32)
        self.high = torch.as_tensor(spec.maximum, dtype=torch.float32)

    def forward(self, obs):
        h = F.relu(self.l2(F.relu(self.l1(obs))))
        unit = torch.tanh(self.l3(h))
        return self.low + (unit + 1.0) * 0.5 * (self.high - self.low)


class Critic(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(obs_dim + act_dim, 400), nn.Linear(400, 300), nn.Linear(300, 1)

    def forward(self, obs, action):
        h = F.relu(self.l1(torch.cat([obs, action], dim=1)))
        return self.l3(F.relu(self.l2(h))).squeeze(1)


class DDPG:
    def __init__(self, obs_dim, spec, gamma=0.99, tau=0.001, batch_size=64, actor_lr=1e-4, critic_lr=1e-3, capacity=1_000_000):
        self.spec, self.gamma, self.tau, self.batch_size = spec, gamma, tau, batch_size
        self.actor = Actor(obs_dim, spec)
        self.critic = Critic(obs_dim, spec.shape[0])
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=critic_lr, weight_decay=1e-2)
        self.noise = OUProcess(spec.shape[0])
        self.memory = Memory(capacity)

    @torch.no_grad()
    def act(self, obs, explore=True):
        action = self.actor(torch.as_tensor(obs).unsqueeze(0)).squeeze(0).numpy()
        if explore:
            action = action + self.noise() * (self.spec.maximum - self.spec.minimum) / 2
        return np.clip(action, self.spec.minimum, self.spec.maximum)

    def learn(self):
        if len(self.memory) < self.batch_size:
            return
        b = self.memory.batch(self.batch_size)
        # discount is 0 at a real end and 1 everywhere else, also where the time was up
        with torch.no_grad():
            next_q = self.critic_target(b.next_obs, self.actor_target(b.next_obs))
            y = b.reward + self.gamma * b.discount * next_q
        critic_loss = F.mse_loss(self.critic(b.obs, b.action), y)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        actor_loss = -self.critic(b.obs, self.actor(b.obs)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()

        self._track(self.actor, self.actor_target)
        self._track(self.critic, self.critic_target)

    def _track(self, source, target):
        for s, t in zip(source.parameters(), target.parameters()):
            t.data.lerp_(s.data, self.tau)


def run(env, episodes=1000, warmup=1000):
    timestep = env.reset()
    agent = DDPG(flatten(timestep.observation).shape[0], env.action_spec())
    total = 0
    for episode in range(episodes):
        timestep = env.reset()
        agent.noise.reset()
        obs, score = flatten(timestep.observation), 0.0
        while not timestep.last():
            action = agent.act(obs)
            timestep = env.step(action)
            next_obs = flatten(timestep.observation)
            agent.memory.add(obs, action, timestep.reward, timestep.discount, next_obs)
            obs = next_obs
            score += timestep.reward
            total += 1
            if total > warmup:
                agent.learn()
        print(episode, round(score, 2))
    return agent


if __name__ == "__main__":
    from dm_control import suite

    run(suite.load("cartpole", "swingup"))
