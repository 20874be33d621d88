"""An actor-critic library in one file: base class, storage, algorithm, runner."""
from abc import ABC, abstractmethod
from typing import Callable, Iterator, Tuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn


class Distribution(ABC):
    @abstractmethod
    def head(self, latent: int) -> nn.Module: ...


class DiagGaussian(Distribution, nn.Module):
    def __init__(self, latent, n_act):
        nn.Module.__init__(self)
        self.mu = self.head(latent, n_act)
        self.log_sd = nn.Parameter(torch.zeros(n_act))

    def head(self, latent, n_act=1):
        return nn.Linear(latent, n_act)

    def forward(self, h):
        return torch.distributions.Independent(torch.distributions.Normal(self.mu(h), self.log_sd.exp()), 1)


class Storage:
    fields = ("observations", "actions", "log_probs", "rewards", "values", "advantages", "returns")

    def __init__(self, length, n_obs, n_act):
        self.observations = np.zeros((length, n_obs), dtype=np.float32)
        self.actions = np.zeros((length, n_act), dtype=np.float32)
        for name in ("log_probs", "rewards", "values", "advantages", "returns"):
            setattr(self, name, np.zeros(length, dtype=np.float32))
        self.length, self.cursor, self.path_start = length, 0, 0

    def insert(self, observation, action, log_prob, reward, value):
        i = self.cursor
        self.observations[i] = observation
        self.actions[i] = action
        self.log_probs[i] = log_prob
        self.rewards[i] = reward
        self.values[i] = value
        self.cursor += 1

    def close_path(self, last_value, gamma, lam):
        path = slice(self.path_start, self.cursor)
        values = np.append(self.values[path], last_value)
        deltas = self.rewards[path] + gamma * values[1:] - values[:-1]
        running = 0.0
        for j in range(len(deltas) - 1, -1, -1):
            running = deltas[j] + gamma * lam * running
            self.advantages[self.path_start + j] = running
        self.returns[path] = self.advantages[path] + values[:-1]
        self.path_start = self.cursor

    def batches(self, size) -> Iterator[Tuple[torch.Tensor, ...]]:
        order = np.random.permutation(self.length)
        for start in range(0, self.length, size):
            rows = order[start : start + size]
            yield tuple(torch.from_numpy(getattr(self, f)[rows]) for f in self.fields)

    def clear(self):
        self.cursor = self.path_start = 0


class ActorCritic(nn.Module):
    def __init__(self, n_obs, n_act, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.policy = DiagGaussian(width, n_act)
        self.critic = nn.Linear(width, 1)

    def forward(self, x):
        h = self.encoder(x)
        return self.policy(h), self.critic(h).squeeze(-1)


class Algorithm(ABC):
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def apply_gradients(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()

    @abstractmethod
    def update(self, storage: Storage) -> float: ...


class PPO(Algorithm):
    def __init__(self, model, lr=3e-4, clip=0.2, epochs=10, batch_size=64, vf_coef=0.5, ent_coef=0.0):
        super().__init__(model, lr)
        self.clip, self.epochs, self.batch_size = clip, epochs, batch_size
        self.vf_coef, self.ent_coef = vf_coef, ent_coef

    def update(self, storage):
        for _ in range(self.epochs):
            for obs, act, old_log_prob, _, old_value, adv, ret in storage.batches(self.batch_size):
                dist, value = self.model(obs)
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                log_ratio = dist.log_prob(act) - old_log_prob
                ratio = log_ratio.exp()
                unclipped = ratio * adv
                clipped = ratio.clamp(1 - self.clip, 1 + self.clip) * adv
                actor = -torch.minimum(unclipped, clipped).mean()
                critic = 0.5 * (value - ret).pow(2).mean()
                entropy = dist.entropy().mean()
                self.apply_gradients(actor + self.vf_coef * critic - self.ent_coef * entropy)
        return float(actor)


class Runner:
    def __init__(self, make_env: Callable[[], gym.Env], length=2048, gamma=0.99, lam=0.95):
        self.env, self.length, self.gamma, self.lam = make_env(), length, gamma, lam
        n_obs, n_act = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self.model = ActorCritic(n_obs, n_act)
        self.algorithm = PPO(self.model)
        self.storage = Storage(length, n_obs, n_act)

    def tensor(self, x):
        return torch.as_tensor(x, dtype=torch.float32)

    def run(self, iterations):
        observation, _ = self.env.reset(seed=0)
        low, high = self.env.action_space.low, self.env.action_space.high
        for _ in range(iterations):
            for t in range(self.length):
                with torch.no_grad():
                    dist, value = self.model(self.tensor(observation))
                    action = dist.sample()
                    log_prob = dist.log_prob(action)
                following, reward, terminated, truncated, _ = self.env.step(np.clip(action.numpy(), low, high))
                self.storage.insert(observation, action.numpy(), log_prob.item(), reward, value.item())
                observation = following
                if terminated or truncated or t == self.length - 1:
                    if terminated:
                        tail = 0.0
                    else:
                        with torch.no_grad():
                            tail = self.model(self.tensor(observation))[1].item()
                    self.storage.close_path(tail, self.gamma, self.lam)
                if terminated or truncated:
                    observation, _ = self.env.reset()
            self.algorithm.update(self.storage)
            self.storage.clear()


if __name__ == "__main__":
    Runner(lambda: gym.make("Pendulum-v1")).run(20)
