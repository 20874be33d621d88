"""Double DQN with noisy layers and n-step returns, as a class with act / observe / learn."""

from __future__ import annotations

import argparse
import math
from collections import deque
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Transition(NamedTuple):
    state: np.ndarray
    action: int
    reward: float
    next_state: np.ndarray
    terminal: bool


class NoisyLinear(nn.Module):
    """Factorised Gaussian noise on the weights (Fortunato et al. 2018)."""

    def __init__(self, n_in: int, n_out: int, sigma0: float = 0.5) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_in)
        self.weight_mu = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((n_out, n_in), sigma0 * bound))
        self.bias_mu = nn.Parameter(torch.empty(n_out).uniform_(-bound, bound))
        self.bias_sigma = nn.Parameter(torch.full((n_out,), sigma0 * bound))
        self.register_buffer("noise_in", torch.zeros(n_in))
        self.register_buffer("noise_out", torch.zeros(n_out))
        self.resample()

    @staticmethod
    def _scaled(x: Tensor) -> Tensor:
        return x.sign() * x.abs().sqrt()

    def resample(self) -> None:
        self.noise_in.copy_(self._scaled(torch.randn_like(self.noise_in)))
        self.noise_out.copy_(self._scaled(torch.randn_like(self.noise_out)))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.linear(x, self.weight_mu, self.bias_mu)
        weight = self.weight_mu + self.weight_sigma * torch.outer(self.noise_out, self.noise_in)
        return F.linear(x, weight, self.bias_mu + self.bias_sigma * self.noise_out)


class NoisyQNet(nn.Module):
    def __init__(self, state_dim: int, n_actions: int, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Linear(state_dim, width)
        self.hidden = NoisyLinear(width, width)
        self.out = NoisyLinear(width, n_actions)

    def forward(self, state: Tensor) -> Tensor:
        return self.out(F.relu(self.hidden(F.relu(self.embed(state)))))

    def resample(self) -> None:
        self.hidden.resample()
        self.out.resample()


class NStepReplay:
    """Turns single steps into n-step transitions, and keeps those."""

    def __init__(self, capacity: int, n: int, gamma: float) -> None:
        self.memory: deque[tuple[Transition, float]] = deque(maxlen=capacity)
        self.window: deque[Transition] = deque()
        self.n, self.gamma = n, gamma

    def push(self, step: Transition, episode_over: bool) -> None:
        self.window.append(step)
        if len(self.window) == self.n:
            self._emit()
        if episode_over:
            # what is left is shorter than n: it ends where the episode ended
            while self.window:
                self._emit()

    def _emit(self) -> None:
        first, last = self.window[0], self.window[-1]
        total = sum(self.gamma**k * step.reward for k, step in enumerate(self.window))
        discount = self.gamma ** len(self.window)
        self.memory.append((Transition(first.state, first.action, total, last.next_state, last.terminal), discount))
        self.window.popleft()

    def sample(self, size: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
        picked = [self.memory[i] for i in rng.integers(len(self.memory), size=size)]
        steps = Transition(*zip(*(step for step, _ in picked)))
        return (
            torch.as_tensor(np.stack(steps.state), dtype=torch.float32),
            torch.as_tensor(steps.action, dtype=torch.int64),
            torch.as_tensor(steps.reward, dtype=torch.float32),
            torch.as_tensor(np.stack(steps.next_state), dtype=torch.float32),
            torch.as_tensor(steps.terminal, dtype=torch.float32),
            torch.as_tensor([discount for _, discount in picked], dtype=torch.float32),
        )

    def __len__(self) -> int:
        return len(self.memory)


class NoisyDQNAgent:
    def __init__(self, env: gym.Env, *, gamma: float = 0.99, n: int = 3, lr: float = 5e-4, batch_size: int = 64,
                 capacity: int = 50_000, warmup: int = 1_000, tau: float = 0.01, seed: int = 0) -> None:
        state_dim, n_actions = env.observation_space.shape[0], int(env.action_space.n)
        self.online = NoisyQNet(state_dim, n_actions)
        self.target = NoisyQNet(state_dim, n_actions)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.replay = NStepReplay(capacity, n, gamma)
        self.batch_size, self.warmup, self.tau = batch_size, warmup, tau
        self.rng = np.random.default_rng(seed)

    @torch.no_grad()
    def act(self, state: np.ndarray, explore: bool = True) -> int:
        self.online.train(explore)
        if explore:
            self.online.resample()
        q = self.online(torch.as_tensor(state, dtype=torch.float32).unsqueeze(0))
        self.online.train()
        return int(q.argmax(dim=1))

    def observe(self, state, action, reward, next_state, terminated, truncated) -> None:
        step = Transition(state, action, float(reward), next_state, terminated)
        self.replay.push(step, terminated or truncated)

    def learn(self) -> float | None:
        if len(self.replay) < self.warmup:
            return None
        state, action, reward, next_state, terminal, discount = self.replay.sample(self.batch_size, self.rng)
        self.online.resample()
        self.target.resample()
        with torch.no_grad():
            greedy = self.online(next_state).argmax(dim=1, keepdim=True)
            bootstrap = self.target(next_state).gather(1, greedy).squeeze(1)
            target = reward + discount * (1.0 - terminal) * bootstrap
        prediction = self.online(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(prediction, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimizer.step()
        self._track()
        return loss.item()

    @torch.no_grad()
    def _track(self) -> None:
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.lerp_(fast, self.tau)


def evaluate(agent: NoisyDQNAgent, env: gym.Env, episodes: int = 5) -> float:
    total = 0.0
    for _ in range(episodes):
        state, _ = env.reset()
        over = False
        while not over:
            state, reward, terminated, truncated, _ = env.step(agent.act(state, explore=False))
            total += float(reward)
            over = terminated or truncated
    return total / episodes


def train(env_id: str, steps: int, warmup: int) -> None:
    env, eval_env = gym.make(env_id), gym.make(env_id)
    agent = NoisyDQNAgent(env, warmup=warmup)
    state, _ = env.reset(seed=0)
    for step in range(1, steps + 1):
        action = agent.act(state)
        next_state, reward, terminated, truncated, _ = env.step(action)
        agent.observe(state, action, reward, next_state, terminated, truncated)
        state = next_state
        if terminated or truncated:
            state, _ = env.reset()
        agent.learn()
        if step % 2_000 == 0:
            print(f"{step}: evaluation {evaluate(agent, eval_env):.1f}")


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--env", default="CartPole-v1")
    cli.add_argument("--steps", type=int, default=60_000)
    cli.add_argument("--warmup", type=int, default=1_000)
    options = cli.parse_args()
    train(options.env, options.steps, options.warmup)
