"""Soft actor-critic with a learned temperature, continuous actions, one file."""
import os
import random
import sys
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]
    env_id: str = "Pendulum-v1"
    seed: int = 1
    total_timesteps: int = 40_000
    num_envs: int = 2
    buffer_size: int = 100_000
    gamma: float = 0.99
    tau: float = 0.005
    batch_size: int = 256
    learning_starts: int = 2_000
    policy_lr: float = 3e-4
    q_lr: float = 1e-3
    policy_frequency: int = 2


def cli() -> Args:
    given = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
    kinds = {f.name: f.type for f in fields(Args)}
    return Args(**{k.replace("-", "_"): kinds[k.replace("-", "_")](v) for k, v in given.items()})


class SoftQNetwork(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim + act_dim, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


LOG_STD_MAX = 2
LOG_STD_MIN = -5


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, low, high):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc_mean = nn.Linear(256, act_dim)
        self.fc_logstd = nn.Linear(256, act_dim)
        self.register_buffer("action_scale", torch.as_tensor((high - low) / 2.0, dtype=torch.float32))
        self.register_buffer("action_bias", torch.as_tensor((high + low) / 2.0, dtype=torch.float32))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        mean = self.fc_mean(x)
        log_std = torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        return mean, log_std

    def get_action(self, x):
        mean, log_std = self(x)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        action = y_t * self.action_scale + self.action_bias
        log_prob = normal.log_prob(x_t)
        log_prob -= torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        log_prob = log_prob.sum(1, keepdim=True)
        return action, log_prob


class Replay:
    def __init__(self, capacity, obs_dim, act_dim):
        self.data = {
            "obs": np.zeros((capacity, obs_dim), np.float32),
            "next_obs": np.zeros((capacity, obs_dim), np.float32),
            "actions": np.zeros((capacity, act_dim), np.float32),
            "rewards": np.zeros((capacity, 1), np.float32),
            "terminations": np.zeros((capacity, 1), np.float32),
        }
        self.capacity, self.count = capacity, 0

    def add(self, **row):
        for key, value in row.items():
            self.data[key][self.count % self.capacity] = value
        self.count += 1

    def sample(self, n):
        idx = np.random.randint(0, min(self.count, self.capacity), size=n)
        return {key: torch.from_numpy(column[idx]) for key, column in self.data.items()}


args = cli()
random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)

envs = gym.make_vec(
    args.env_id, num_envs=args.num_envs, vectorization_mode="sync",
    vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
)
space = envs.single_action_space
obs_dim, act_dim = envs.single_observation_space.shape[0], space.shape[0]

actor = Actor(obs_dim, act_dim, space.low, space.high)
qf1, qf2 = SoftQNetwork(obs_dim, act_dim), SoftQNetwork(obs_dim, act_dim)
qf1_target, qf2_target = SoftQNetwork(obs_dim, act_dim), SoftQNetwork(obs_dim, act_dim)
qf1_target.load_state_dict(qf1.state_dict())
qf2_target.load_state_dict(qf2.state_dict())
q_optimizer = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=args.q_lr)
actor_optimizer = optim.Adam(actor.parameters(), lr=args.policy_lr)

target_entropy = -float(act_dim)
log_alpha = torch.zeros(1, requires_grad=True)
a_optimizer = optim.Adam([log_alpha], lr=args.q_lr)

rb = Replay(args.buffer_size, obs_dim, act_dim)
obs, _ = envs.reset(seed=args.seed)
envs.action_space.seed(args.seed)
running = np.zeros(args.num_envs)

for global_step in range(args.total_timesteps):
    if global_step < args.learning_starts:
        actions = envs.action_space.sample()
    else:
        with torch.no_grad():
            actions = actor.get_action(torch.as_tensor(obs, dtype=torch.float32))[0].numpy()

    next_obs, rewards, terminations, truncations, infos = envs.step(actions)
    over = terminations | truncations
    for i in range(args.num_envs):
        real_next = infos["final_obs"][i] if over[i] else next_obs[i]
        rb.add(obs=obs[i], next_obs=real_next, actions=actions[i], rewards=rewards[i], terminations=terminations[i])
    obs = next_obs

    running += rewards
    for i in np.flatnonzero(over):
        print(f"global_step={global_step} episodic_return={running[i]:.1f}")
        running[i] = 0.0

    if global_step <= args.learning_starts:
        continue
    data = rb.sample(args.batch_size)
    alpha = log_alpha.exp().item()
    with torch.no_grad():
        next_actions, next_log_pi = actor.get_action(data["next_obs"])
        q1_next = qf1_target(data["next_obs"], next_actions)
        q2_next = qf2_target(data["next_obs"], next_actions)
        soft_value = torch.min(q1_next, q2_next) - alpha * next_log_pi
        target = data["rewards"] + (1 - data["terminations"]) * args.gamma * soft_value

    qf1_loss = F.mse_loss(qf1(data["obs"], data["actions"]), target)
    qf2_loss = F.mse_loss(qf2(data["obs"], data["actions"]), target)
    q_optimizer.zero_grad()
    (qf1_loss + qf2_loss).backward()
    q_optimizer.step()

    if global_step % args.policy_frequency == 0:
        for _ in range(args.policy_frequency):
            pi, log_pi = actor.get_action(data["obs"])
            min_qf_pi = torch.min(qf1(data["obs"], pi), qf2(data["obs"], pi))
            actor_loss = (log_alpha.exp().detach() * log_pi - min_qf_pi).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()

            alpha_loss = (-log_alpha.exp() * (log_pi.detach() + target_entropy)).mean()
            a_optimizer.zero_grad()
            alpha_loss.backward()
            a_optimizer.step()

    with torch.no_grad():
        for net, slow in ((qf1, qf1_target), (qf2, qf2_target)):
            for param, target_param in zip(net.parameters(), slow.parameters()):
                target_param.copy_(args.tau * param + (1 - args.tau) * target_param)

envs.close()
torch.save(actor.state_dict(), f"{args.exp_name}.pt") if args.total_timesteps >= 10_000 else None
