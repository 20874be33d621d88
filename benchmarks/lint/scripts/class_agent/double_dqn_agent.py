import numpy as np
import torch
import torch.nn as nn


class Agent:
    def __init__(self, online, target, buffer, gamma=0.99, lr=1e-4, batch_size=32, tau=0.01, eps=1.0, eps_step=1e-4, eps_floor=0.05):
        self.online, self.target, self.buffer = online, target, buffer
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.loss_fn = nn.HuberLoss()
        self.gamma, self.batch_size, self.tau = gamma, batch_size, tau
        self.eps, self.eps_step, self.eps_floor = eps, eps_step, eps_floor

    def choose(self, obs, n_actions):
        if np.random.random() < self.eps:
            return np.random.randint(n_actions)
        with torch.no_grad():
            q = self.online(torch.tensor(obs, dtype=torch.float32).unsqueeze(0))
        return q.argmax(dim=1).item()

    def remember(self, obs, action, reward, next_obs, terminated):
        self.buffer.append((obs, action, reward, next_obs, terminated))

    def learn(self):
        if len(self.buffer) < 10 * self.batch_size:
            return
        obs, actions, rewards, next_obs, terminals = self.buffer.sample(self.batch_size)
        q = self.online(obs)[torch.arange(self.batch_size), actions]
        with torch.no_grad():
            best = self.online(next_obs).argmax(dim=1)
            next_q = self.target(next_obs)[torch.arange(self.batch_size), best]
            next_q[terminals] = 0.0
            y = rewards + self.gamma * next_q
        loss = self.loss_fn(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.soft_update()
        self.eps = max(self.eps_floor, self.eps - self.eps_step)

    @torch.no_grad()
    def soft_update(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.lerp_(fast, self.tau)
