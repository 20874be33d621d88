"""
Advantage actor-critic with Lightning Fabric.

Fabric only does the device, the backward and the clipping; the loop is our own. Several environments are stepped in
plain Python, each with its own seed.
"""
import argparse
import time

import gymnasium as gym
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch import nn
from torch.distributions import Normal


class GaussianPolicy(nn.Module):
    """A tanh mean and a log-std that depends on nothing, next to a value of its own."""

    def __init__(self, obs_dim, act_dim, bound):
        super().__init__()
        self.bound = bound
        self.mean = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, act_dim), nn.Tanh())
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.3))
        self.value = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs):
        dist = Normal(self.bound * self.mean(obs), self.log_std.exp().expand(obs.shape[0], -1))
        return dist, self.value(obs)[:, 0]


class Workers:
    """A handful of environments that begin anew by themselves; `finals` holds the last observations of what has ended."""

    def __init__(self, env_id, n, seed):
        self.envs = [gym.make(env_id) for _ in range(n)]
        self.low = torch.as_tensor(self.envs[0].action_space.low)
        self.high = torch.as_tensor(self.envs[0].action_space.high)
        self.obs = self._stack([env.reset(seed=seed + k)[0] for k, env in enumerate(self.envs)])
        self.totals = [0.0] * n
        self.scores = []

    @staticmethod
    def _stack(rows):
        return torch.stack([torch.as_tensor(row, dtype=torch.float32) for row in rows])

    def step(self, actions):
        # the policy is unbounded: only the environment sees the clipped action
        actions = torch.max(torch.min(actions, self.high), self.low)
        obs, finals, rewards, terminated, ended = [], [], [], [], []
        for k, env in enumerate(self.envs):
            o, r, term, trunc, _ = env.step(actions[k].numpy())
            self.totals[k] += r
            finals.append(o)
            if term or trunc:
                self.scores.append(self.totals[k])
                self.totals[k] = 0.0
                o, _ = env.reset()
            obs.append(o)
            rewards.append(r)
            terminated.append(float(term))
            ended.append(float(term or trunc))
        self.obs = self._stack(obs)
        return self._stack(finals), torch.tensor(rewards, dtype=torch.float32), torch.tensor(terminated), torch.tensor(ended)


def collect(fabric, model, workers, n_steps, reward_scale):
    steps = []
    for _ in range(n_steps):
        obs = fabric.to_device(workers.obs)
        with torch.no_grad():
            dist, _ = model(obs)
        action = dist.sample()
        finals, rewards, terminated, ended = workers.step(action.cpu())
        steps.append((obs, action, fabric.to_device(finals), reward_scale * rewards, terminated, ended))
    return [torch.stack(column) for column in zip(*steps)]


def lambda_returns(rewards, next_values, terminated, ended, gamma, lam):
    """TD(lambda) targets; `next_values[t]` is the value of the state that step t has really led to."""
    n_steps = rewards.shape[0]
    targets = torch.zeros_like(rewards)
    carry = next_values[-1]
    for t in reversed(range(n_steps)):
        # behind an end there is nothing to be mixed in: only the value of the last state
        mixed = torch.where(ended[t] > 0, next_values[t], (1 - lam) * next_values[t] + lam * carry)
        carry = rewards[t] + gamma * (1 - terminated[t]) * mixed
        targets[t] = carry
    return targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--n-steps", type=int, default=16)
    parser.add_argument("--updates", type=int, default=6_000)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--lam", type=float, default=0.9)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--entropy", type=float, default=1e-3)
    parser.add_argument("--reward-scale", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=9)
    args = parser.parse_args()

    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(args.seed)

    workers = Workers(args.env, args.workers, args.seed)
    env = workers.envs[0]
    model = GaussianPolicy(env.observation_space.shape[0], env.action_space.shape[0], float(env.action_space.high[0]))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer = fabric.setup(model, optimizer)

    started = time.time()
    for update in range(1, args.updates + 1):
        obs, actions, finals, rewards, terminated, ended = collect(fabric, model, workers, args.n_steps, args.reward_scale)
        T, N = rewards.shape

        dist, values = model(obs.reshape(T * N, -1))
        with torch.no_grad():
            _, next_values = model(finals.reshape(T * N, -1))
            targets = lambda_returns(rewards, next_values.reshape(T, N), terminated, ended, args.gamma, args.lam).reshape(-1)
            advantages = targets - values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)

        log_probs = dist.log_prob(actions.reshape(T * N, -1)).sum(dim=-1)
        policy_loss = -(advantages * log_probs).mean()
        value_loss = F.mse_loss(values, targets)
        entropy = dist.entropy().sum(dim=-1).mean()

        loss = policy_loss + 0.5 * value_loss - args.entropy * entropy
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=0.5)
        optimizer.step()

        if update % 200 == 0 and workers.scores:
            recent = workers.scores[-20:]
            fabric.print(
                f"update {update} score {sum(recent) / len(recent):.1f} value loss {value_loss.item():.3f} "
                f"std {dist.stddev.mean().item():.2f} {update * T * N / (time.time() - started):.0f} steps/s"
            )


if __name__ == "__main__":
    main()
