"""
Soft actor-critic with a fixed temperature.

    python sac.py --env Pendulum-v1 --alpha 0.2
"""
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions.normal import Normal
from torch.optim import Adam

LOG_STD_MAX = 2
LOG_STD_MIN = -20


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class SquashedGaussianActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, act_limit):
        super().__init__()
        self.net = mlp([obs_dim, *hidden_sizes], activation, activation)
        self.mu_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.log_std_layer = nn.Linear(hidden_sizes[-1], act_dim)
        self.act_limit = act_limit

    def forward(self, obs, deterministic=False):
        h = self.net(obs)
        mu = self.mu_layer(h)
        log_std = torch.clamp(self.log_std_layer(h), LOG_STD_MIN, LOG_STD_MAX)
        pi_distribution = Normal(mu, log_std.exp())

        u = mu if deterministic else pi_distribution.rsample()

        # log-prob of tanh(u): log(1 - tanh(u)^2), in a form that does not overflow
        logp = pi_distribution.log_prob(u).sum(axis=-1)
        logp -= (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(axis=-1)

        return self.act_limit * torch.tanh(u), logp


class QFunction(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        super().__init__()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def forward(self, obs, act):
        return self.q(torch.cat([obs, act], dim=-1)).squeeze(-1)


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, size):
        self.obs_buf = torch.zeros(size, obs_dim)
        self.obs2_buf = torch.zeros(size, obs_dim)
        self.act_buf = torch.zeros(size, act_dim)
        self.rew_buf = torch.zeros(size)
        self.done_buf = torch.zeros(size)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs, act, rew, next_obs, done):
        self.obs_buf[self.ptr] = torch.as_tensor(obs)
        self.obs2_buf[self.ptr] = torch.as_tensor(next_obs)
        self.act_buf[self.ptr] = torch.as_tensor(act)
        self.rew_buf[self.ptr] = float(rew)
        self.done_buf[self.ptr] = float(done)
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size):
        idxs = torch.randint(0, self.size, (batch_size,))
        return dict(
            obs=self.obs_buf[idxs],
            obs2=self.obs2_buf[idxs],
            act=self.act_buf[idxs],
            rew=self.rew_buf[idxs],
            done=self.done_buf[idxs],
        )


class SAC:
    def __init__(self, obs_dim, act_dim, act_limit, hidden_sizes=(256, 256), gamma=0.99, polyak=0.995, lr=1e-3, alpha=0.2):
        self.gamma, self.polyak, self.alpha = gamma, polyak, alpha
        self.pi = SquashedGaussianActor(obs_dim, act_dim, hidden_sizes, nn.ReLU, act_limit)
        self.q1 = QFunction(obs_dim, act_dim, hidden_sizes, nn.ReLU)
        self.q2 = QFunction(obs_dim, act_dim, hidden_sizes, nn.ReLU)
        self.q1_targ = deepcopy(self.q1)
        self.q2_targ = deepcopy(self.q2)
        self.q_params = list(self.q1.parameters()) + list(self.q2.parameters())
        self.targ_params = list(self.q1_targ.parameters()) + list(self.q2_targ.parameters())
        for p in self.targ_params:
            p.requires_grad = False
        self.pi_optimizer = Adam(self.pi.parameters(), lr=lr)
        self.q_optimizer = Adam(self.q_params, lr=lr)

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            a, _ = self.pi(torch.as_tensor(obs, dtype=torch.float32), deterministic)
        return a.numpy()

    def compute_loss_q(self, data):
        o, a, r, o2, d = data["obs"], data["act"], data["rew"], data["obs2"], data["done"]
        q1 = self.q1(o, a)
        q2 = self.q2(o, a)

        # Bellman backup, the next action from the *current* policy
        with torch.no_grad():
            a2, logp_a2 = self.pi(o2)
            q_targ = torch.min(self.q1_targ(o2, a2), self.q2_targ(o2, a2))
            backup = r + self.gamma * (1 - d) * (q_targ - self.alpha * logp_a2)

        loss_q = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        return loss_q, q1.mean().item()

    def compute_loss_pi(self, data):
        o = data["obs"]
        a, logp_a = self.pi(o)
        q_pi = torch.min(self.q1(o, a), self.q2(o, a))
        return (self.alpha * logp_a - q_pi).mean(), logp_a.mean().item()

    def update(self, data):
        self.q_optimizer.zero_grad()
        loss_q, q_mean = self.compute_loss_q(data)
        loss_q.backward()
        self.q_optimizer.step()

        # no gradient is needed for the critics while the actor takes its step
        for p in self.q_params:
            p.requires_grad = False

        self.pi_optimizer.zero_grad()
        loss_pi, logp_mean = self.compute_loss_pi(data)
        loss_pi.backward()
        self.pi_optimizer.step()

        for p in self.q_params:
            p.requires_grad = True

        with torch.no_grad():
            for p, p_targ in zip(self.q_params, self.targ_params):
                p_targ.lerp_(p, 1 - self.polyak)

        return loss_q.item(), q_mean, -logp_mean


def test_agent(agent, env, episodes):
    returns = []
    for _ in range(episodes):
        o, _ = env.reset()
        done, ret = False, 0.0
        while not done:
            o, r, terminated, truncated, _ = env.step(agent.act(o, deterministic=True))
            ret += r
            done = terminated or truncated
        returns.append(ret)
    return np.mean(returns)


def sac(env_name, seed, alpha, total_steps, start_steps=1000, update_after=1000, batch_size=128, replay_size=100_000, log_every=2000):
    torch.manual_seed(seed)
    np.random.seed(seed)
    env, test_env = gym.make(env_name), gym.make(env_name)
    env.action_space.seed(seed)
    test_env.reset(seed=seed + 1)

    obs_dim = env.observation_space.shape[0]
    act_dim = env.action_space.shape[0]
    agent = SAC(obs_dim, act_dim, float(env.action_space.high[0]), alpha=alpha)
    buffer = ReplayBuffer(obs_dim, act_dim, replay_size)

    o, _ = env.reset(seed=seed)
    loss_q = q_mean = entropy = float("nan")
    for t in range(1, total_steps + 1):
        a = env.action_space.sample() if t <= start_steps else agent.act(o)
        o2, r, terminated, truncated, _ = env.step(a)
        buffer.store(o, a, r, o2, terminated)

        # never to be forgotten: go on from where the step has led
        o = o2
        if terminated or truncated:
            o, _ = env.reset()

        if t >= update_after:
            loss_q, q_mean, entropy = agent.update(buffer.sample_batch(batch_size))

        if t % log_every == 0:
            score = test_agent(agent, test_env, 3)
            print(f"t {t} | test {score:8.1f} | q {q_mean:8.2f} | loss_q {loss_q:8.3f} | entropy {entropy:.2f}")


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--env", type=str, default="Pendulum-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alpha", type=float, default=0.2)
    parser.add_argument("--total-steps", type=int, default=20_000)
    args = parser.parse_args()
    sac(args.env, args.seed, args.alpha, args.total_steps)
