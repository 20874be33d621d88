"""TD3, one file, numpy ring buffer. python td3_single.py --env-id Pendulum-v1"""
import argparse
import copy
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--env-id", default="Pendulum-v1")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--total-timesteps", type=int, default=30_000)
parser.add_argument("--learning-rate", type=float, default=3e-4)
parser.add_argument("--buffer-size", type=int, default=int(1e6))
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--tau", type=float, default=0.005)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--policy-noise", type=float, default=0.2)
parser.add_argument("--exploration-noise", type=float, default=0.1)
parser.add_argument("--learning-starts", type=int, default=1_000)
parser.add_argument("--policy-frequency", type=int, default=2)
parser.add_argument("--noise-clip", type=float, default=0.5)
parser.add_argument("--eval-every", type=int, default=5_000)


class QNetwork(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim + act_dim, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 1)

    def forward(self, x, a):
        x = torch.cat([x, a], 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x).view(-1)


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, low, high):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc_mu = nn.Linear(256, act_dim)
        self.register_buffer("action_scale", torch.tensor((high - low) / 2.0, dtype=torch.float32))
        self.register_buffer("action_bias", torch.tensor((high + low) / 2.0, dtype=torch.float32))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = torch.tanh(self.fc_mu(x))
        return x * self.action_scale + self.action_bias


class Buffer:
    def __init__(self, size, obs_dim, act_dim):
        self.obs = np.zeros((size, obs_dim), dtype=np.float32)
        self.next_obs = np.zeros((size, obs_dim), dtype=np.float32)
        self.actions = np.zeros((size, act_dim), dtype=np.float32)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.terminals = np.zeros(size, dtype=np.float32)
        self.size, self.pos, self.full = size, 0, False

    def add(self, obs, action, reward, next_obs, terminal):
        self.obs[self.pos] = obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.next_obs[self.pos] = next_obs
        self.terminals[self.pos] = terminal
        self.pos += 1
        if self.pos == self.size:
            self.full, self.pos = True, 0

    def sample(self, n, device):
        idx = np.random.randint(0, self.size if self.full else self.pos, size=n)
        return [torch.as_tensor(part[idx], device=device) for part in (self.obs, self.actions, self.rewards, self.next_obs, self.terminals)]


@torch.no_grad()
def evaluate(actor, env_id, device, episodes=5, seed=10_000):
    env = gym.make(env_id)
    scores = []
    for k in range(episodes):
        o, _ = env.reset(seed=seed + k)
        over, score = False, 0.0
        while not over:
            a = actor(torch.as_tensor(o, dtype=torch.float32, device=device).unsqueeze(0))[0].cpu().numpy()
            o, r, term, trunc, _ = env.step(a)
            score += float(r)
            over = term or trunc
        scores.append(score)
    env.close()
    return float(np.mean(scores))


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cpu")

    env = gym.make(args.env_id)
    env.action_space.seed(args.seed)
    low, high = env.action_space.low, env.action_space.high
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]

    actor = Actor(obs_dim, act_dim, low, high).to(device)
    qf1 = QNetwork(obs_dim, act_dim).to(device)
    qf2 = QNetwork(obs_dim, act_dim).to(device)
    target_actor = copy.deepcopy(actor)
    qf1_target = copy.deepcopy(qf1)
    qf2_target = copy.deepcopy(qf2)
    q_optimizer = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=args.learning_rate)
    actor_optimizer = optim.Adam(actor.parameters(), lr=args.learning_rate)

    rb = Buffer(args.buffer_size, obs_dim, act_dim)
    start_time = time.time()
    obs, _ = env.reset(seed=args.seed)
    episode_return = 0.0
    for global_step in range(args.total_timesteps):
        if global_step < args.learning_starts:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = actor(torch.as_tensor(obs, dtype=torch.float32, device=device).unsqueeze(0))[0]
                action = action + torch.normal(0.0, actor.action_scale * args.exploration_noise)
                action = action.cpu().numpy().clip(low, high)

        next_obs, reward, terminated, truncated, info = env.step(action)
        episode_return += float(reward)
        rb.add(obs, action, reward, next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            print(f"global_step={global_step}, episodic_return={episode_return:.1f}")
            episode_return = 0.0
            obs, _ = env.reset()

        if global_step >= args.learning_starts:
            b_obs, b_actions, b_rewards, b_next_obs, b_terminals = rb.sample(args.batch_size, device)
            with torch.no_grad():
                noise = (torch.randn_like(b_actions) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip) * target_actor.action_scale
                next_actions = (target_actor(b_next_obs) + noise).clamp(torch.as_tensor(low), torch.as_tensor(high))
                min_q_next = torch.min(qf1_target(b_next_obs, next_actions), qf2_target(b_next_obs, next_actions))
                td_target = b_rewards + (1 - b_terminals) * args.gamma * min_q_next

            qf1_loss = F.mse_loss(qf1(b_obs, b_actions), td_target)
            qf2_loss = F.mse_loss(qf2(b_obs, b_actions), td_target)
            qf_loss = qf1_loss + qf2_loss

            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()

            if global_step % args.policy_frequency == 0:
                actor_loss = -qf1(b_obs, actor(b_obs)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()

                for net, slow in ((actor, target_actor), (qf1, qf1_target), (qf2, qf2_target)):
                    for param, target_param in zip(net.parameters(), slow.parameters()):
                        target_param.data.copy_(args.tau * param.data + (1 - args.tau) * target_param.data)

            if global_step % 100 == 0:
                print(f"{global_step} qf={qf_loss.item() / 2:.3f} sps={int(global_step / (time.time() - start_time))}")
            if global_step % args.eval_every == 0:
                print("eval:", evaluate(actor, args.env_id, device))

    env.close()


if __name__ == "__main__":
    main()
