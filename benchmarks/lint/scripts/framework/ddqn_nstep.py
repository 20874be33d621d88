"""minirl.ddqn -- Double DQN with n-step returns and prioritised replay.

One file on purpose: Config, Buffer, Agent and Trainer can be copied around.
"""
from __future__ import annotations

import argparse
import random
from collections import deque
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    env_id: str = "CartPole-v1"
    total_steps: int = 50_000
    seed: int = 11
    gamma: float = 0.99
    n_step: int = 3
    learning_rate: float = 5e-4
    batch_size: int = 64
    buffer_size: int = 50_000
    warmup: int = 1_000
    train_every: int = 1
    sync_every: int = 500
    eps_start: float = 1.0
    eps_end: float = 0.05
    eps_fraction: float = 0.3
    per_alpha: float = 0.6
    per_beta0: float = 0.4
    hidden: tuple = field(default=(128, 128))
    log_every: int = 2_000


class PrioritisedBuffer:
    def __init__(self, cfg: Config, obs_dim: int):
        self.cfg = cfg
        n = cfg.buffer_size
        self.obs = np.zeros((n, obs_dim), np.float32)
        self.next_obs = np.zeros((n, obs_dim), np.float32)
        self.action = np.zeros(n, np.int64)
        self.reward = np.zeros(n, np.float32)
        self.discount = np.zeros(n, np.float32)
        self.priority = np.zeros(n, np.float64)
        self.pos = 0
        self.size = 0
        self.max_priority = 1.0

    def push(self, obs, action, reward, next_obs, discount):
        i = self.pos
        self.obs[i] = obs
        self.action[i] = action
        self.reward[i] = reward
        self.next_obs[i] = next_obs
        self.discount[i] = discount
        self.priority[i] = self.max_priority
        self.pos = (self.pos + 1) % self.cfg.buffer_size
        self.size = min(self.size + 1, self.cfg.buffer_size)

    def sample(self, batch_size: int, beta: float):
        scaled = self.priority[: self.size] ** self.cfg.per_alpha
        prob = scaled / scaled.sum()
        idx = np.random.choice(self.size, batch_size, p=prob)
        weight = (self.size * prob[idx]) ** (-beta)
        weight = weight / weight.max()
        batch = dict(
            obs=torch.from_numpy(self.obs[idx]),
            action=torch.from_numpy(self.action[idx]),
            reward=torch.from_numpy(self.reward[idx]),
            next_obs=torch.from_numpy(self.next_obs[idx]),
            discount=torch.from_numpy(self.discount[idx]),
            weight=torch.from_numpy(weight.astype(np.float32)),
        )
        return idx, batch

    def update_priorities(self, idx, td_error):
        self.priority[idx] = np.abs(td_error) + 1e-6
        self.max_priority = max(self.max_priority, float(self.priority[idx].max()))


class NStepAccumulator:
    """Turns 1-step transitions into n-step ones. `discount` is gamma^k, or 0 after termination."""

    def __init__(self, n: int, gamma: float):
        self.n, self.gamma = n, gamma
        self.window: deque = deque()

    def add(self, obs, action, reward, next_obs, terminated, truncated):
        self.window.append((obs, action, reward))
        out = []
        if len(self.window) == self.n:
            out.append(self._emit(next_obs, terminated))
        if terminated or truncated:
            while self.window:
                out.append(self._emit(next_obs, terminated))
        return out

    def _emit(self, last_obs, terminated):
        ret = 0.0
        for k, (_, _, r) in enumerate(self.window):
            ret += self.gamma ** k * r
        bootstrap = 0.0 if terminated else self.gamma ** len(self.window)
        obs, action, _ = self.window.popleft()
        return obs, action, ret, last_obs, bootstrap


class QNet(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden):
        super().__init__()
        layers, last = [], obs_dim
        for h in hidden:
            layers += [nn.Linear(last, h), nn.ReLU()]
            last = h
        self.body = nn.Sequential(*layers)
        self.value = nn.Linear(last, 1)
        self.adv = nn.Linear(last, n_actions)

    def forward(self, x):
        z = self.body(x)
        adv = self.adv(z)
        return self.value(z) + adv - adv.mean(dim=1, keepdim=True)


class Agent:
    def __init__(self, cfg: Config, obs_dim: int, n_actions: int):
        self.cfg = cfg
        self.n_actions = n_actions
        self.online = QNet(obs_dim, n_actions, cfg.hidden)
        self.target = QNet(obs_dim, n_actions, cfg.hidden)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=cfg.learning_rate)
        self.huber = nn.SmoothL1Loss(reduction="none")

    def epsilon(self, step: int) -> float:
        frac = min(1.0, step / (self.cfg.eps_fraction * self.cfg.total_steps))
        return self.cfg.eps_start + frac * (self.cfg.eps_end - self.cfg.eps_start)

    @torch.no_grad()
    def act(self, obs, eps: float) -> int:
        if random.random() < eps:
            return random.randrange(self.n_actions)
        q = self.online(torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0))
        return int(q.argmax(dim=1).item())

    def learn(self, b):
        with torch.no_grad():
            best = self.online(b["next_obs"]).argmax(dim=1, keepdim=True)
            next_q = self.target(b["next_obs"]).gather(1, best).squeeze(1)
            y = b["reward"] + b["discount"] * next_q
        q = self.online(b["obs"]).gather(1, b["action"].unsqueeze(1)).squeeze(1)
        loss = (b["weight"] * self.huber(q, y)).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        return loss.item(), (q - y).detach().numpy()

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        random.seed(cfg.seed)
        np.random.seed(cfg.seed)
        torch.manual_seed(cfg.seed)
        self.env = gym.make(cfg.env_id)
        self.eval_env = gym.make(cfg.env_id)
        obs_dim = self.env.observation_space.shape[0]
        self.agent = Agent(cfg, obs_dim, int(self.env.action_space.n))
        self.buffer = PrioritisedBuffer(cfg, obs_dim)
        self.nstep = NStepAccumulator(cfg.n_step, cfg.gamma)

    def evaluate(self, episodes: int = 5) -> float:
        total = 0.0
        for i in range(episodes):
            obs, _ = self.eval_env.reset(seed=10_000 + i)
            done = False
            while not done:
                obs, r, term, trunc, _ = self.eval_env.step(self.agent.act(obs, eps=0.0))
                total += r
                done = term or trunc
        return total / episodes

    def run(self):
        cfg = self.cfg
        obs, _ = self.env.reset(seed=cfg.seed)
        loss = float("nan")
        for step in range(1, cfg.total_steps + 1):
            action = self.agent.act(obs, self.agent.epsilon(step))
            next_obs, reward, term, trunc, _ = self.env.step(action)
            for tr in self.nstep.add(obs, action, float(reward), next_obs, term, trunc):
                self.buffer.push(*tr)
            obs = next_obs
            if term or trunc:
                obs, _ = self.env.reset()
            if step >= cfg.warmup and step % cfg.train_every == 0:
                beta = cfg.per_beta0 + (1.0 - cfg.per_beta0) * step / cfg.total_steps
                idx, batch = self.buffer.sample(cfg.batch_size, beta)
                loss, td = self.agent.learn(batch)
                self.buffer.update_priorities(idx, td)
            if step % cfg.sync_every == 0:
                self.agent.sync()
            if step % cfg.log_every == 0:
                print(f"step {step} loss {loss:.4f} eval {self.evaluate():.1f}")
        return self.evaluate(10)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=Config.total_steps)
    ap.add_argument("--warmup", type=int, default=Config.warmup)
    args = ap.parse_args()
    print("final:", Trainer(Config(total_steps=args.steps, warmup=args.warmup)).run())
