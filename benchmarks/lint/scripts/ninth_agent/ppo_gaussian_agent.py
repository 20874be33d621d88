"""PPO for continuous actions: a rollout storage, a running normaliser, and an agent that ties them together."""

import argparse
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal


@dataclass
class Config:
    horizon: int = 2048
    epochs: int = 10
    minibatch: int = 64
    gamma: float = 0.95
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 3e-4
    value_coef: float = 0.5
    entropy_coef: float = 0.0
    max_grad_norm: float = 0.5
    target_kl: float = 0.03


class RunningNorm:
    """Mean and variance of all observations so far (Chan et al.'s parallel update)."""

    def __init__(self, dim):
        self.mean, self.var, self.count = np.zeros(dim), np.ones(dim), 1e-4

    def update(self, x):
        x = np.atleast_2d(x)
        batch_mean, batch_var, n = x.mean(0), x.var(0), len(x)
        delta, total = batch_mean - self.mean, self.count + n
        m2 = self.var * self.count + batch_var * n + delta**2 * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.var, self.count = m2 / total, total

    def __call__(self, x):
        return np.clip((x - self.mean) / np.sqrt(self.var + 1e-8), -10, 10).astype(np.float32)


class Storage:
    def __init__(self):
        self.clear()

    def clear(self):
        self.states, self.actions, self.logps, self.rewards = [], [], [], []
        self.values, self.next_values, self.terminals, self.ends = [], [], [], []

    def add(self, state, action, logp, reward, value, next_value, terminal, end):
        self.states.append(state)
        self.actions.append(action)
        self.logps.append(logp)
        self.rewards.append(reward)
        self.values.append(value)
        self.next_values.append(next_value)
        self.terminals.append(terminal)
        self.ends.append(end)

    def advantages(self, gamma, lam):
        advantages = np.zeros(len(self.rewards), dtype=np.float32)
        running = 0.0
        for i in reversed(range(len(self.rewards))):
            delta = self.rewards[i] + gamma * (1.0 - self.terminals[i]) * self.next_values[i] - self.values[i]
            running = delta + gamma * lam * (1.0 - self.ends[i]) * running
            advantages[i] = running
        return advantages


class GaussianActorCritic(nn.Module):
    def __init__(self, state_dim, action_dim):
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(state_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, action_dim)
        )
        self.critic = nn.Sequential(nn.Linear(state_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.full((action_dim,), -0.5))

    def policy(self, state):
        return Normal(self.actor(state), self.log_std.exp())

    def value(self, state):
        return self.critic(state).squeeze(-1)


class PPOAgent:
    def __init__(self, env, config):
        self.env, self.cfg = env, config
        self.norm = RunningNorm(env.observation_space.shape[0])
        self.net = GaussianActorCritic(env.observation_space.shape[0], env.action_space.shape[0])
        self.optim = torch.optim.Adam(self.net.parameters(), lr=config.lr)
        self.storage = Storage()
        self.raw_state, _ = env.reset(seed=0)
        self.norm.update(self.raw_state)
        self.episode_return = 0.0

    @torch.no_grad()
    def collect(self):
        """Fill the storage with cfg.horizon steps; returns the returns of the episodes that ended."""
        self.storage.clear()
        finished = []
        for step in range(self.cfg.horizon):
            state = self.norm(self.raw_state)
            tensor = torch.from_numpy(state)
            dist = self.net.policy(tensor)
            action = dist.sample()
            logp = dist.log_prob(action).sum(-1)
            low, high = self.env.action_space.low, self.env.action_space.high
            # the environment gets a legal action, the storage the one that the density was taken of
            raw_next, reward, terminated, truncated, _ = self.env.step(np.clip(action.numpy(), low, high))
            self.episode_return += reward
            next_value = self.net.value(torch.from_numpy(self.norm(raw_next))).item()
            end = terminated or truncated or step == self.cfg.horizon - 1
            self.storage.add(
                state, action.numpy(), logp.item(), reward, self.net.value(tensor).item(), next_value, terminated, end
            )
            self.norm.update(raw_next)
            self.raw_state = raw_next
            if terminated or truncated:
                finished.append(self.episode_return)
                self.episode_return = 0.0
                self.raw_state, _ = self.env.reset()
        return finished

    def update(self):
        cfg, st = self.cfg, self.storage
        advantages = torch.from_numpy(st.advantages(cfg.gamma, cfg.lam))
        states = torch.from_numpy(np.stack(st.states))
        actions = torch.from_numpy(np.stack(st.actions))
        old_logps = torch.tensor(st.logps)
        targets = advantages + torch.tensor(st.values)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

        for _ in range(cfg.epochs):
            order = torch.randperm(len(states))
            kls = []
            for start in range(0, len(states), cfg.minibatch):
                rows = order[start : start + cfg.minibatch]
                dist = self.net.policy(states[rows])
                logps = dist.log_prob(actions[rows]).sum(-1)
                log_ratio = logps - old_logps[rows]
                ratio = log_ratio.exp()
                adv = advantages[rows]
                surrogate = torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv)
                value_loss = (self.net.value(states[rows]) - targets[rows]).pow(2).mean()
                entropy = dist.entropy().sum(-1).mean()
                loss = -surrogate.mean() + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
                self.optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), cfg.max_grad_norm)
                self.optim.step()
                kls.append((ratio - 1 - log_ratio).mean().item())
            if np.mean(kls) > cfg.target_kl:
                break


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--env", default="Pendulum-v1")
    cli.add_argument("--iterations", type=int, default=150)
    cli.add_argument("--horizon", type=int, default=2048)
    opts = cli.parse_args()
    torch.manual_seed(0)
    agent = PPOAgent(gym.make(opts.env), Config(horizon=opts.horizon))
    for iteration in range(opts.iterations):
        finished = agent.collect()
        agent.update()
        if finished:
            print(f"iteration {iteration}: mean return {np.mean(finished):.1f}")


if __name__ == "__main__":
    main()
