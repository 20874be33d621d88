"""Soft actor-critic, one file (gymnasium 1.x, single environment).

    python sac_hopper.py --env-id Hopper-v5 --total-timesteps 1000000
"""
import random
from dataclasses import dataclass, fields
from argparse import ArgumentParser

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    env_id: str = "Hopper-v5"
    seed: int = 0
    total_timesteps: int = 1_000_000
    buffer_size: int = 1_000_000
    gamma: float = 0.99
    tau: float = 0.005
    batch_size: int = 256
    learning_starts: int = 5000
    policy_lr: float = 3e-4
    q_lr: float = 1e-3
    policy_frequency: int = 2
    autotune: bool = True
    alpha: float = 0.2


LOG_STD_MIN, LOG_STD_MAX = -5, 2


class SoftQ(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.fc1 = nn.Linear(n_obs + n_act, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 1)

    def forward(self, x, a):
        h = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(h)))


class Actor(nn.Module):
    def __init__(self, n_obs, space):
        super().__init__()
        n_act = int(np.prod(space.shape))
        self.fc1 = nn.Linear(n_obs, 256)
        self.fc2 = nn.Linear(256, 256)
        self.mu = nn.Linear(256, n_act)
        self.log_std = nn.Linear(256, n_act)
        self.register_buffer("scale", torch.tensor((space.high - space.low) / 2.0, dtype=torch.float32))
        self.register_buffer("bias", torch.tensor((space.high + space.low) / 2.0, dtype=torch.float32))

    def forward(self, x):
        h = F.relu(self.fc2(F.relu(self.fc1(x))))
        log_std = torch.tanh(self.log_std(h))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        return self.mu(h), log_std

    def get_action(self, x):
        mean, log_std = self(x)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        action = y_t * self.scale + self.bias
        log_prob = normal.log_prob(x_t)
        log_prob = log_prob - torch.log(self.scale * (1 - y_t.pow(2)) + 1e-6)
        log_prob = log_prob.sum(1, keepdim=True)
        return action, log_prob, torch.tanh(mean) * self.scale + self.bias


class Buffer:
    def __init__(self, capacity, n_obs, n_act):
        self.data = {
            "obs": np.zeros((capacity, n_obs), np.float32),
            "next_obs": np.zeros((capacity, n_obs), np.float32),
            "act": np.zeros((capacity, n_act), np.float32),
            "rew": np.zeros((capacity, 1), np.float32),
            "term": np.zeros((capacity, 1), np.float32),
        }
        self.capacity, self.count = capacity, 0

    def put(self, **row):
        i = self.count % self.capacity
        for key, value in row.items():
            self.data[key][i] = value
        self.count += 1

    def sample(self, n):
        idx = np.random.randint(0, min(self.count, self.capacity), n)
        return {key: torch.from_numpy(value[idx]) for key, value in self.data.items()}


def main():
    parser = ArgumentParser()
    for f in fields(Args):
        parser.add_argument("--" + f.name.replace("_", "-"), type=type(f.default), default=f.default)
    args = Args(**vars(parser.parse_args()))
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = gym.make(args.env_id)
    n_obs = env.observation_space.shape[0]
    n_act = env.action_space.shape[0]

    actor = Actor(n_obs, env.action_space)
    qf1, qf2 = SoftQ(n_obs, n_act), SoftQ(n_obs, n_act)
    qf1_target, qf2_target = SoftQ(n_obs, n_act), SoftQ(n_obs, n_act)
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = torch.optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=args.q_lr)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=args.policy_lr)

    if args.autotune:
        target_entropy = -float(n_act)
        log_alpha = torch.zeros(1, requires_grad=True)
        alpha = log_alpha.exp().item()
        a_optimizer = torch.optim.Adam([log_alpha], lr=args.q_lr)
    else:
        alpha = args.alpha

    rb = Buffer(args.buffer_size, n_obs, n_act)
    env.action_space.seed(args.seed)
    obs, _ = env.reset(seed=args.seed)
    episode_return = 0.0
    for step in range(args.total_timesteps):
        if step < args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action, _, _ = actor.get_action(torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0))
            action = action[0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        rb.put(obs=obs, next_obs=next_obs, act=action, rew=reward, term=terminated)
        episode_return += reward
        obs = next_obs
        if terminated or truncated:
            print(f"step {step} return {episode_return:.1f} alpha {alpha:.3f}")
            episode_return = 0.0
            obs, _ = env.reset()

        if step < args.learning_starts:
            continue
        data = rb.sample(args.batch_size)
        with torch.no_grad():
            next_act, next_logp, _ = actor.get_action(data["next_obs"])
            q1_next = qf1_target(data["next_obs"], next_act)
            q2_next = qf2_target(data["next_obs"], next_act)
            soft_v = torch.min(q1_next, q2_next) - alpha * next_logp
            q_target = data["rew"] + (1 - data["term"]) * args.gamma * soft_v
        qf1_loss = F.mse_loss(qf1(data["obs"], data["act"]), q_target)
        qf2_loss = F.mse_loss(qf2(data["obs"], data["act"]), q_target)
        qf_loss = qf1_loss + qf2_loss
        q_optimizer.zero_grad()
        qf_loss.backward()
        q_optimizer.step()

        if step % args.policy_frequency == 0:
            for _ in range(args.policy_frequency):
                pi, logp, _ = actor.get_action(data["obs"])
                min_q = torch.min(qf1(data["obs"], pi), qf2(data["obs"], pi))
                actor_loss = (alpha * logp - min_q).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()

                if args.autotune:
                    with torch.no_grad():
                        _, logp, _ = actor.get_action(data["obs"])
                    alpha_loss = -(log_alpha.exp() * (logp + target_entropy)).mean()
                    a_optimizer.zero_grad()
                    alpha_loss.backward()
                    a_optimizer.step()
                    alpha = log_alpha.exp().item()

        for net, slow in ((qf1, qf1_target), (qf2, qf2_target)):
            for p, p_slow in zip(net.parameters(), slow.parameters()):
                p_slow.data.copy_(args.tau * p.data + (1 - args.tau) * p_slow.data)


if __name__ == "__main__":
    main()
