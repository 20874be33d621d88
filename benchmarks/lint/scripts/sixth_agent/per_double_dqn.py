import os
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

STEPS = int(os.getenv("STEPS", "80000"))
LEARN_START = int(os.getenv("LEARN_START", "1000"))


def set_seed(seed: int):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class PrioritizedReplay:
    """Proportional prioritisation (arrays, no tree: small memories only)."""

    def __init__(self, capacity, obs_shape, alpha=0.6, eps=1e-5):
        self.capacity, self.alpha, self.eps = capacity, alpha, eps
        self.obs = np.zeros((capacity, *obs_shape), np.float32)
        self.nxt = np.zeros((capacity, *obs_shape), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.end = np.zeros(capacity, np.float32)
        self.prio = np.zeros(capacity, np.float64)
        self.top = 1.0
        self.i = self.count = 0

    def put(self, obs, act, rew, nxt, end):
        k = self.i
        self.obs[k], self.act[k], self.rew[k], self.nxt[k], self.end[k] = obs, act, rew, nxt, end
        self.prio[k] = self.top
        self.i = (k + 1) % self.capacity
        self.count = min(self.count + 1, self.capacity)

    def get(self, n, beta):
        p = self.prio[: self.count] ** self.alpha
        p /= p.sum()
        idx = np.random.choice(self.count, n, p=p)
        w = (self.count * p[idx]) ** (-beta)
        w /= w.max()
        t = torch.from_numpy
        batch = (t(self.obs[idx]), t(self.act[idx]), t(self.rew[idx]), t(self.nxt[idx]), t(self.end[idx]))
        return idx, t(w.astype(np.float32)), batch

    def refresh(self, idx, td):
        self.prio[idx] = np.abs(td) + self.eps
        self.top = max(self.top, self.prio[idx].max())


class QNet(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(n_in, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, n_out))

    def forward(self, x):
        return self.f(x)


class Agent:
    def __init__(self, env, lr=2.5e-4, gamma=0.99, batch=64, sync=500, capacity=20_000, eps=(1.0, 0.05), eps_frac=0.2,
                 beta=(0.4, 1.0), train_every=2):
        self.env = env
        n_in, self.n_act = env.observation_space.shape[0], int(env.action_space.n)
        self.online = QNet(n_in, self.n_act)
        self.frozen = QNet(n_in, self.n_act)
        self.frozen.load_state_dict(self.online.state_dict())
        self.frozen.eval()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.memory = PrioritizedReplay(capacity, env.observation_space.shape)
        self.gamma, self.batch, self.sync, self.train_every = gamma, batch, sync, train_every
        self.eps, self.eps_frac, self.beta = eps, eps_frac, beta
        self.frame = 0

    def epsilon(self):
        frac = min(1.0, self.frame / (self.eps_frac * STEPS))
        return self.eps[0] + frac * (self.eps[1] - self.eps[0])

    def current_beta(self):
        return self.beta[0] + min(1.0, self.frame / STEPS) * (self.beta[1] - self.beta[0])

    @torch.no_grad()
    def choose(self, obs, explore=True):
        if explore and random.random() < self.epsilon():
            return random.randrange(self.n_act)
        return int(self.online(torch.as_tensor(obs, dtype=torch.float32)[None]).argmax(1))

    def learn(self):
        idx, weights, (s, a, r, s2, end) = self.memory.get(self.batch, self.current_beta())
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            a2 = self.online(s2).argmax(1, keepdim=True)
            y = r + self.gamma * (1 - end) * self.frozen(s2).gather(1, a2).squeeze(1)
        td = y - q
        loss = (weights * nn.functional.smooth_l1_loss(q, y, reduction="none")).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10)
        self.opt.step()
        self.memory.refresh(idx, td.detach().numpy())
        return loss.item()

    def run(self, steps, seed):
        scores, score = [], 0.0
        obs, _ = self.env.reset(seed=seed)
        for self.frame in range(1, steps + 1):
            act = self.choose(obs)
            nxt, rew, terminated, truncated, _ = self.env.step(act)
            self.memory.put(obs, act, rew, nxt, terminated)
            score += rew
            obs = nxt
            if terminated or truncated:
                scores.append(score)
                score = 0.0
                obs, _ = self.env.reset()
            if self.memory.count >= LEARN_START and self.frame % self.train_every == 0:
                self.learn()
            if self.frame % self.sync == 0:
                self.frozen.load_state_dict(self.online.state_dict())
            if self.frame % 2000 == 0:
                print(f"{self.frame}: {np.mean(scores[-20:]):.1f} eps {self.epsilon():.2f}")
        return scores

    def score(self, make, episodes=10, seed=99):
        env = make()
        out = []
        for n in range(episodes):
            obs, _ = env.reset(seed=seed + n)
            total, over = 0.0, False
            while not over:
                obs, rew, terminated, truncated, _ = env.step(self.choose(obs, explore=False))
                total += rew
                over = terminated or truncated
            out.append(total)
        env.close()
        return float(np.mean(out))


if __name__ == "__main__":
    set_seed(3)
    make = lambda: gym.make("CartPole-v1")
    agent = Agent(make())
    agent.run(STEPS, seed=3)
    print("evaluation", agent.score(make))
