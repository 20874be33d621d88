"""DDPG, gym 0.21."""
import gym
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class OUNoise:
    def __init__(self, dim, mu=0.0, theta=0.15, sigma=0.2):
        self.dim, self.mu, self.theta, self.sigma = dim, mu, theta, sigma
        self.reset()

    def reset(self):
        self.x = np.ones(self.dim) * self.mu

    def __call__(self):
        self.x = self.x + self.theta * (self.mu - self.x) + self.sigma * np.random.randn(self.dim)
        return self.x


class Actor(nn.Module):
    def __init__(self, n, m, limit):
        super().__init__()
        self.fc1, self.fc2, self.out = nn.Linear(n, 64), nn.Linear(64, 64), nn.Linear(64, m)
        self.limit = limit

    def forward(self, s):
        return torch.tanh(self.out(F.relu(self.fc2(F.relu(self.fc1(s)))))) * self.limit


class Critic(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.fc1, self.fc2, self.out = nn.Linear(n, 64), nn.Linear(64 + m, 64), nn.Linear(64, 1)

    def forward(self, s, a):
        x = F.relu(self.fc1(s))
        return self.out(F.relu(self.fc2(torch.cat([x, a], 1))))


class Memory:
    def __init__(self, cap):
        self.cap, self.data = cap, []

    def push(self, *t):
        self.data.append(t)
        if len(self.data) > self.cap:
            self.data.pop(0)

    def sample(self, n):
        idx = np.random.randint(len(self.data), size=n)
        s, a, r, s2, d = zip(*[self.data[i] for i in idx])
        f = lambda v: torch.FloatTensor(np.array(v))
        return f(s), f(a), f(r).unsqueeze(1), f(s2), f(d).unsqueeze(1)


class DDPG:
    def __init__(self, n, m, limit):
        self.actor, self.actor_t = Actor(n, m, limit), Actor(n, m, limit)
        self.critic, self.critic_t = Critic(n, m), Critic(n, m)
        self.hard(self.actor_t, self.actor)
        self.hard(self.critic_t, self.critic)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-4)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.noise, self.limit = OUNoise(m), limit

    @staticmethod
    def hard(dst, src):
        for d, s in zip(dst.parameters(), src.parameters()):
            d.data.copy_(s.data)

    @staticmethod
    def soft(dst, src, tau=0.01):
        for d, s in zip(dst.parameters(), src.parameters()):
            d.data.copy_(d.data * (1.0 - tau) + s.data * tau)

    def act(self, s, explore=True):
        a = self.actor(torch.FloatTensor(s).unsqueeze(0)).detach().numpy()[0]
        if explore:
            a = a + self.noise() * self.limit
        return np.clip(a, -self.limit, self.limit)

    def learn(self, batch, gamma=0.99):
        s, a, r, s2, d = batch
        a2 = self.actor_t(s2)
        y = r + gamma * self.critic_t(s2, a2).detach() * (1 - d)
        critic_loss = F.mse_loss(self.critic(s, a), y)
        self.opt_critic.zero_grad()
        critic_loss.backward()
        self.opt_critic.step()
        actor_loss = -self.critic(s, self.actor(s)).mean()
        self.opt_actor.zero_grad()
        actor_loss.backward()
        self.opt_actor.step()
        self.soft(self.actor_t, self.actor)
        self.soft(self.critic_t, self.critic)


if __name__ == "__main__":
    env = gym.make("Pendulum-v0")
    env.seed(0)
    agent, memory = DDPG(3, 1, 2.0), Memory(100000)
    for ep in range(200):
        s = env.reset()
        agent.noise.reset()
        done, total = False, 0
        while not done:
            a = agent.act(s)
            s2, r, done, info = env.step(a)
            real = done and not info.get("TimeLimit.truncated", False)
            memory.push(s, a, r, s2, float(real))
            s = s2
            total += r
            if len(memory.data) > 1000:
                agent.learn(memory.sample(64))
        print(ep, total)
