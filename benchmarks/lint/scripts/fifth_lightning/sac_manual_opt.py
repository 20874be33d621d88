"""Soft actor-critic, Lightning-style with manual optimisation."""
from __future__ import annotations

import copy
import os
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

MAX_STEPS = int(os.getenv("MAX_STEPS", "20000"))
WARMUP = int(os.getenv("WARMUP", "1000"))


def net(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out))


class Critic(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int):
        super().__init__()
        self.q_a = net(obs_dim + act_dim, 1)
        self.q_b = net(obs_dim + act_dim, 1)

    def forward(self, obs, act):
        x = torch.cat((obs, act), dim=1)
        return self.q_a(x), self.q_b(x)


class TransitionStore:
    def __init__(self, maxlen: int):
        self.data: deque = deque(maxlen=maxlen)

    def push(self, *transition):
        self.data.append(transition)

    def __len__(self):
        return len(self.data)

    def batches(self, size: int):
        while True:
            rows = random.sample(self.data, size)
            cols = [torch.as_tensor(np.stack(c), dtype=torch.float32) for c in zip(*rows)]
            obs, act, rew, nxt, term = cols
            yield obs, act, rew.unsqueeze(1), nxt, term.unsqueeze(1)


class SACModule(nn.Module):
    automatic_optimization = False

    def __init__(self, env_id: str, gamma=0.99, tau=0.005, lr=3e-4, batch_size=128, seed=0):
        super().__init__()
        self.gamma, self.tau, self.lr, self.batch_size = gamma, tau, lr, batch_size
        self.env = gym.make(env_id)
        # the policy lives in [-1, 1]; the wrapper maps to the bounds of the task
        self.env = gym.wrappers.RescaleAction(self.env, -1.0, 1.0)
        self.env.action_space.seed(seed)
        obs_dim = self.env.observation_space.shape[0]
        act_dim = self.env.action_space.shape[0]
        self.actor = net(obs_dim, 2 * act_dim)
        self.critic = Critic(obs_dim, act_dim)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(()))
        self.target_entropy = -act_dim
        self.store = TransitionStore(100_000)
        self.obs, _ = self.env.reset(seed=seed)
        self.episode_return, self.history = 0.0, []

    @property
    def alpha(self):
        return self.log_alpha.exp().detach()

    def policy(self, obs) -> TransformedDistribution:
        mean, log_std = self.actor(obs).chunk(2, dim=-1)
        base = Independent(Normal(mean, log_std.clamp(-10, 2).exp()), 1)
        return TransformedDistribution(base, [TanhTransform(cache_size=1)])

    @torch.no_grad()
    def interact(self, explore_uniformly: bool = False) -> None:
        if explore_uniformly:
            action = self.env.action_space.sample()
        else:
            action = self.policy(torch.as_tensor(self.obs, dtype=torch.float32)).sample().numpy()
        nxt, reward, terminated, truncated, _ = self.env.step(action)
        self.store.push(self.obs, action, reward, nxt, terminated)
        self.episode_return += reward
        self.obs = nxt
        if terminated or truncated:
            self.history.append(self.episode_return)
            self.episode_return = 0.0
            self.obs, _ = self.env.reset()

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.critic.parameters(), lr=self.lr),
            torch.optim.Adam(self.actor.parameters(), lr=self.lr),
            torch.optim.Adam([self.log_alpha], lr=self.lr),
        )

    def critic_loss(self, obs, act, rew, nxt, term):
        with torch.no_grad():
            dist = self.policy(nxt)
            nxt_act = dist.sample()
            nxt_logp = dist.log_prob(nxt_act).unsqueeze(1)
            nxt_q = torch.minimum(*self.critic_target(nxt, nxt_act))
            target = rew + self.gamma * (1.0 - term) * (nxt_q - self.alpha * nxt_logp)
        q_a, q_b = self.critic(obs, act)
        return nn.functional.mse_loss(q_a, target) + nn.functional.mse_loss(q_b, target)

    def actor_loss(self, obs):
        dist = self.policy(obs)
        act = dist.rsample()
        logp = dist.log_prob(act).unsqueeze(1)
        q = torch.minimum(*self.critic(obs, act))
        return (self.alpha * logp - q).mean(), logp.detach()

    def training_step(self, batch, optimizers):
        opt_critic, opt_actor, opt_alpha = optimizers
        loss_q = self.critic_loss(*batch)
        opt_critic.zero_grad()
        loss_q.backward()
        opt_critic.step()

        loss_pi, logp = self.actor_loss(batch[0])
        opt_actor.zero_grad()
        loss_pi.backward()
        opt_actor.step()

        loss_alpha = -(self.log_alpha * (logp + self.target_entropy)).mean()
        opt_alpha.zero_grad()
        loss_alpha.backward()
        opt_alpha.step()

        self.soft_update()
        return {"q": loss_q.item(), "pi": loss_pi.item(), "alpha": self.alpha.item()}

    @torch.no_grad()
    def soft_update(self):
        for src, dst in zip(self.critic.parameters(), self.critic_target.parameters()):
            dst.lerp_(src, self.tau)


@torch.no_grad()
def evaluate(module: SACModule, env_id: str, n: int = 5) -> float:
    env = gym.wrappers.RescaleAction(gym.make(env_id), -1.0, 1.0)
    total = 0.0
    for k in range(n):
        obs, _ = env.reset(seed=777 + k)
        over = False
        while not over:
            mean, _ = module.actor(torch.as_tensor(obs, dtype=torch.float32)).chunk(2, dim=-1)
            obs, reward, terminated, truncated, _ = env.step(torch.tanh(mean).numpy())
            total += float(reward)
            over = terminated or truncated
    return total / n


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    module = SACModule("Pendulum-v1")
    optimizers = module.configure_optimizers()
    for _ in range(WARMUP):
        module.interact(explore_uniformly=True)
    for step, batch in enumerate(module.store.batches(module.batch_size), start=1):
        logs = module.training_step(batch, optimizers)
        module.interact()
        if step % 1000 == 0:
            print(step, f"return {np.mean(module.history[-5:]):.1f}", logs)
        if step >= MAX_STEPS:
            break
    print("evaluation", evaluate(module, "Pendulum-v1"))


if __name__ == "__main__":
    main()
