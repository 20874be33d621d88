# Double DQN in one file, after CleanRL's dqn.py. Needs gymnasium>=1.1 (autoreset_mode, final_obs).
import argparse
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--env-id", type=str, default="LunarLander-v3")
    parser.add_argument("--total-timesteps", type=int, default=500000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--buffer-size", type=int, default=100000)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--target-network-frequency", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--start-e", type=float, default=1.0)
    parser.add_argument("--end-e", type=float, default=0.05)
    parser.add_argument("--exploration-fraction", type=float, default=0.3)
    parser.add_argument("--learning-starts", type=int, default=10000)
    parser.add_argument("--train-frequency", type=int, default=4)
    return parser.parse_args()


def make_env(env_id, seed, idx):
    def thunk():
        env = gym.make(env_id)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env.action_space.seed(seed + idx)
        return env

    return thunk


class QNetwork(nn.Module):
    def __init__(self, envs):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(int(np.prod(envs.single_observation_space.shape)), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, int(envs.single_action_space.n)),
        )

    def forward(self, x):
        return self.network(x)


class ReplayMemory:
    def __init__(self, size, obs_shape):
        self.obs = np.zeros((size, *obs_shape), dtype=np.float32)
        self.next_obs = np.zeros((size, *obs_shape), dtype=np.float32)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.terminations = np.zeros(size, dtype=np.float32)
        self.size, self.pos, self.full = size, 0, False

    def add(self, obs, next_obs, action, reward, termination):
        self.obs[self.pos] = obs
        self.next_obs[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.terminations[self.pos] = termination
        self.pos += 1
        if self.pos == self.size:
            self.full = True
            self.pos = 0

    def sample(self, n, device):
        upper = self.size if self.full else self.pos
        inds = np.random.randint(0, upper, size=n)
        arrays = (self.obs, self.next_obs, self.actions, self.rewards, self.terminations)
        return [torch.as_tensor(a[inds]).to(device) for a in arrays]


def linear_schedule(start_e, end_e, duration, t):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


if __name__ == "__main__":
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    envs = gym.vector.SyncVectorEnv(
        [make_env(args.env_id, args.seed, i) for i in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    q_network = QNetwork(envs).to(device)
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    target_network = QNetwork(envs).to(device)
    target_network.load_state_dict(q_network.state_dict())

    rb = ReplayMemory(args.buffer_size, envs.single_observation_space.shape)
    start_time = time.time()

    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(0, args.total_timesteps, args.num_envs):
        epsilon = linear_schedule(args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
        if random.random() < epsilon:
            actions = np.array([envs.single_action_space.sample() for _ in range(args.num_envs)])
        else:
            with torch.no_grad():
                q_values = q_network(torch.as_tensor(obs, dtype=torch.float32, device=device))
            actions = torch.argmax(q_values, dim=1).cpu().numpy()

        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

        # envs reset themselves: the last observation of an episode lies in infos
        real_next_obs = next_obs.copy()
        for idx, over in enumerate(np.logical_or(terminations, truncations)):
            if over:
                real_next_obs[idx] = infos["final_obs"][idx]
        for i in range(args.num_envs):
            rb.add(obs[i], real_next_obs[i], actions[i], rewards[i], terminations[i])
        obs = next_obs

        if global_step > args.learning_starts:
            if (global_step // args.num_envs) % args.train_frequency == 0:
                b_obs, b_next_obs, b_actions, b_rewards, b_terms = rb.sample(args.batch_size, device)
                with torch.no_grad():
                    best = q_network(b_next_obs).argmax(dim=1, keepdim=True)
                    next_q = target_network(b_next_obs).gather(1, best).squeeze(1)
                    td_target = b_rewards + args.gamma * next_q * (1 - b_terms)
                old_val = q_network(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
                loss = F.mse_loss(old_val, td_target)

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            if (global_step // args.num_envs) % args.target_network_frequency == 0:
                target_network.load_state_dict(q_network.state_dict())

        if global_step % 20000 == 0:
            print(f"step {global_step} epsilon {epsilon:.2f} SPS {int(global_step / (time.time() - start_time))}")
    envs.close()
