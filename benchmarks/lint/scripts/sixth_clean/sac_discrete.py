"""Soft actor-critic for discrete actions: expectations instead of samples."""
import copy
import os
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", 30_000))
START = int(os.environ.get("START", 1_000))
GAMMA, TAU, LR, BATCH = 0.99, 0.005, 3e-4, 64


def net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out))


class SACDiscrete:
    def __init__(self, n_obs, n_act):
        self.pi = net(n_obs, n_act)
        self.qs = nn.ModuleList([net(n_obs, n_act), net(n_obs, n_act)])
        self.qs_t = copy.deepcopy(self.qs)
        self.log_alpha = torch.tensor(np.log(0.1), dtype=torch.float32, requires_grad=True)
        self.goal = 0.5 * np.log(n_act)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=LR)
        self.q_opt = torch.optim.Adam(self.qs.parameters(), lr=LR)
        self.a_opt = torch.optim.Adam([self.log_alpha], lr=LR)

    @property
    def alpha(self):
        return self.log_alpha.exp().detach()

    def act(self, obs, greedy=False):
        with torch.no_grad():
            logits = self.pi(torch.as_tensor(obs, dtype=torch.float32))
        if greedy:
            return int(logits.argmax())
        return int(torch.distributions.Categorical(logits=logits).sample())

    def update(self, o, a, r, o2, d):
        with torch.no_grad():
            logp2 = F.log_softmax(self.pi(o2), dim=1)
            p2 = logp2.exp()
            qmin = torch.min(self.qs_t[0](o2), self.qs_t[1](o2))
            v2 = (p2 * (qmin - self.alpha * logp2)).sum(1)
            y = r + GAMMA * (1 - d) * v2
        q_loss = sum(F.mse_loss(q(o).gather(1, a[:, None])[:, 0], y) for q in self.qs)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        logp = F.log_softmax(self.pi(o), dim=1)
        p = logp.exp()
        with torch.no_grad():
            q = torch.min(self.qs[0](o), self.qs[1](o))
        pi_loss = (p * (self.alpha * logp - q)).sum(1).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()

        entropy = -(p * logp).sum(1).detach()
        a_loss = (self.log_alpha.exp() * (entropy - self.goal)).mean()
        self.a_opt.zero_grad()
        a_loss.backward()
        self.a_opt.step()

        with torch.no_grad():
            for w, wt in zip(self.qs.parameters(), self.qs_t.parameters()):
                wt += TAU * (w - wt)


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    env = gym.make("CartPole-v1")
    agent = SACDiscrete(4, 2)
    memory = deque(maxlen=50_000)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    for t in range(STEPS):
        action = int(env.action_space.sample()) if t < START else agent.act(obs)
        nxt, reward, terminated, truncated, _ = env.step(action)
        memory.append((obs, action, reward, nxt, terminated))
        obs = env.reset()[0] if terminated or truncated else nxt
        if t >= START:
            o, a, r, o2, d = zip(*random.sample(memory, BATCH))
            agent.update(
                torch.as_tensor(np.array(o), dtype=torch.float32),
                torch.as_tensor(a),
                torch.as_tensor(r, dtype=torch.float32),
                torch.as_tensor(np.array(o2), dtype=torch.float32),
                torch.as_tensor(d, dtype=torch.float32),
            )
    env.close()

    judge = gym.make("CartPole-v1")
    total = 0.0
    for i in range(5):
        obs, _ = judge.reset(seed=100 + i)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = judge.step(agent.act(obs, greedy=True))
            total += float(reward)
            over = terminated or truncated
    print("mean return", total / 5)
