"""TD3, single-file. python td3_continuous.py --total-timesteps 20000"""
import argparse
import random
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


@dataclass
class Args:
    env_id: str = "Pendulum-v1"
    seed: int = 1
    total_timesteps: int = 50_000
    learning_rate: float = 3e-4
    buffer_size: int = 100_000
    gamma: float = 0.99
    tau: float = 0.005
    batch_size: int = 256
    policy_noise: float = 0.2
    exploration_noise: float = 0.1
    learning_starts: int = 2_000
    policy_frequency: int = 2
    noise_clip: float = 0.5


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        n = env.observation_space.shape[0] + env.action_space.shape[0]
        self.fc1 = nn.Linear(n, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 1)

    def forward(self, x, a):
        x = torch.cat([x, a], 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class Actor(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc1 = nn.Linear(env.observation_space.shape[0], 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc_mu = nn.Linear(256, env.action_space.shape[0])
        self.register_buffer("action_scale", torch.tensor((env.action_space.high - env.action_space.low) / 2.0))
        self.register_buffer("action_bias", torch.tensor((env.action_space.high + env.action_space.low) / 2.0))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = torch.tanh(self.fc_mu(x))
        return x * self.action_scale + self.action_bias


class Replay:
    """ring buffer kept as tensors, rewards and dones flat"""

    def __init__(self, size, obs_dim, act_dim, device):
        self.s = torch.zeros(size, obs_dim, device=device)
        self.s2 = torch.zeros(size, obs_dim, device=device)
        self.a = torch.zeros(size, act_dim, device=device)
        self.r = torch.zeros(size, device=device)
        self.d = torch.zeros(size, device=device)
        self.i = self.n = 0
        self.size = size

    def add(self, s, s2, a, r, d):
        self.s[self.i] = torch.as_tensor(s)
        self.s2[self.i] = torch.as_tensor(s2)
        self.a[self.i] = torch.as_tensor(a)
        self.r[self.i] = float(r)
        self.d[self.i] = float(d)
        self.i = (self.i + 1) % self.size
        self.n = min(self.n + 1, self.size)

    def sample(self, batch_size):
        ix = torch.randint(0, self.n, (batch_size,))
        return self.s[ix], self.s2[ix], self.a[ix], self.r[ix], self.d[ix]


def evaluate(actor, env_id, device, episodes=3):
    env = gym.make(env_id)
    scores = []
    for k in range(episodes):
        o, _ = env.reset(seed=9000 + k)
        score, over = 0.0, False
        while not over:
            with torch.no_grad():
                a = actor(torch.Tensor(o).unsqueeze(0).to(device))[0].cpu().numpy()
            o, r, term, trunc, _ = env.step(a)
            score += float(r)
            over = term or trunc
        scores.append(score)
    env.close()
    return np.mean(scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    defaults = Args()
    for name, val in vars(defaults).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(val), default=val)
    args = Args(**vars(parser.parse_args()))

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    env.action_space.seed(args.seed)
    low, high = env.action_space.low, env.action_space.high

    actor = Actor(env).to(device)
    qf1 = QNetwork(env).to(device)
    qf2 = QNetwork(env).to(device)
    qf1_target = QNetwork(env).to(device)
    qf2_target = QNetwork(env).to(device)
    target_actor = Actor(env).to(device)
    target_actor.load_state_dict(actor.state_dict())
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=args.learning_rate)
    actor_optimizer = optim.Adam(list(actor.parameters()), lr=args.learning_rate)

    rb = Replay(args.buffer_size, env.observation_space.shape[0], env.action_space.shape[0], device)
    start_time = time.time()
    actor_loss = torch.tensor(0.0)

    obs, _ = env.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        if global_step < args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.Tensor(obs).unsqueeze(0).to(device))[0]
                action += torch.normal(0, actor.action_scale * args.exploration_noise)
                action = action.cpu().numpy().clip(low, high)

        next_obs, reward, terminated, truncated, info = env.step(action)
        rb.add(obs, next_obs, action, reward, terminated)
        obs = next_obs
        if terminated or truncated:
            print(f"global_step={global_step}, episodic_return={float(info['episode']['r']):.1f}")
            obs, _ = env.reset()

        if global_step >= args.learning_starts:
            s, s2, a, r, d = rb.sample(args.batch_size)
            with torch.no_grad():
                noise = (torch.randn_like(a) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip)
                noise = noise * target_actor.action_scale
                next_action = target_actor(s2) + noise
                next_action = torch.max(torch.min(next_action, torch.as_tensor(high)), torch.as_tensor(low))
                qf1_next = qf1_target(s2, next_action)
                qf2_next = qf2_target(s2, next_action)
                min_qf_next = torch.min(qf1_next, qf2_next)
                next_q_value = r + (1 - d) * args.gamma * min_qf_next.view(-1)

            qf1_a_values = qf1(s, a).view(-1)
            qf2_a_values = qf2(s, a).view(-1)
            qf_loss = F.mse_loss(qf1_a_values, next_q_value) + F.mse_loss(qf2_a_values, next_q_value)

            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()

            if global_step % args.policy_frequency == 0:
                actor_loss = -qf1(s, actor(s)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()

                for net, net_target in ((actor, target_actor), (qf1, qf1_target), (qf2, qf2_target)):
                    for param, target_param in zip(net.parameters(), net_target.parameters()):
                        target_param.data.copy_(args.tau * param.data + (1 - args.tau) * target_param.data)

            if global_step % 1000 == 0:
                print(f"{global_step} qf_loss {qf_loss.item():.3f} actor_loss {actor_loss.item():.3f} "
                      f"SPS {int(global_step / (time.time() - start_time))}")

    print("evaluation:", evaluate(actor, args.env_id, device))
    env.close()
