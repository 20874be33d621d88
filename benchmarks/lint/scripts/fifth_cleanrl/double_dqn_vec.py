import argparse
import os
import random
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__))
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--env-id", type=str, default="CartPole-v1")
    parser.add_argument("--num-envs", type=int, default=2)
    parser.add_argument("--total-timesteps", type=int, default=100000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--buffer-size", type=int, default=10000)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--tau", type=float, default=1.0)
    parser.add_argument("--target-network-frequency", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--start-e", type=float, default=1.0)
    parser.add_argument("--end-e", type=float, default=0.05)
    parser.add_argument("--exploration-fraction", type=float, default=0.5)
    parser.add_argument("--learning-starts", type=int, default=5000)
    parser.add_argument("--train-frequency", type=int, default=10)
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
            nn.Linear(np.array(envs.single_observation_space.shape).prod(), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, envs.single_action_space.n),
        )

    def forward(self, x):
        return self.network(x)


class Batch(NamedTuple):
    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor


class ReplayMemory:
    def __init__(self, capacity, obs_shape, device):
        self.capacity, self.device = capacity, device
        self.obs = np.zeros((capacity, *obs_shape), np.float32)
        self.next_obs = np.zeros((capacity, *obs_shape), np.float32)
        self.actions = np.zeros((capacity, 1), np.int64)
        self.rewards = np.zeros((capacity, 1), np.float32)
        self.dones = np.zeros((capacity, 1), np.float32)
        self.pos, self.full = 0, False

    def add(self, obs, next_obs, actions, rewards, dones):
        for o, no, a, r, d in zip(obs, next_obs, actions, rewards, dones):
            self.obs[self.pos] = o
            self.next_obs[self.pos] = no
            self.actions[self.pos] = a
            self.rewards[self.pos] = r
            self.dones[self.pos] = d
            self.pos += 1
            if self.pos == self.capacity:
                self.full = True
                self.pos = 0

    def sample(self, n):
        upper = self.capacity if self.full else self.pos
        ix = np.random.randint(0, upper, size=n)
        arrays = (self.obs[ix], self.actions[ix], self.next_obs[ix], self.dones[ix], self.rewards[ix])
        return Batch(*(torch.as_tensor(x, device=self.device) for x in arrays))


def linear_schedule(start_e: float, end_e: float, duration: int, t: int):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


if __name__ == "__main__":
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cpu")

    envs = gym.vector.SyncVectorEnv(
        [make_env(args.env_id, args.seed, i) for i in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    assert isinstance(envs.single_action_space, gym.spaces.Discrete)

    q_network = QNetwork(envs).to(device)
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    target_network = QNetwork(envs).to(device)
    target_network.load_state_dict(q_network.state_dict())

    rb = ReplayMemory(args.buffer_size, envs.single_observation_space.shape, device)
    finished = []
    obs, _ = envs.reset(seed=args.seed)
    for global_step in range(args.total_timesteps):
        epsilon = linear_schedule(
            args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
        if random.random() < epsilon:
            actions = np.array([space.sample() for space in (e.action_space for e in envs.envs)])
        else:
            with torch.no_grad():
                q_values = q_network(torch.Tensor(obs).to(device))
            actions = torch.argmax(q_values, dim=1).cpu().numpy()

        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        if "final_info" in infos:
            finished += list(infos["final_info"]["episode"]["r"][infos["_final_info"]])

        # the vector env has already reset: put the true last observation back
        real_next_obs = next_obs.copy()
        for idx in np.where(np.logical_or(terminations, truncations))[0]:
            real_next_obs[idx] = infos["final_obs"][idx]
        rb.add(obs, real_next_obs, actions, rewards, terminations)
        obs = next_obs

        if global_step > args.learning_starts:
            if global_step % args.train_frequency == 0:
                data = rb.sample(args.batch_size)
                with torch.no_grad():
                    best = q_network(data.next_observations).argmax(dim=1, keepdim=True)
                    target_max = target_network(data.next_observations).gather(1, best).squeeze(1)
                    td_target = data.rewards.flatten() + args.gamma * target_max * (1 - data.dones.flatten())
                old_val = q_network(data.observations).gather(1, data.actions).squeeze(1)
                loss = F.mse_loss(old_val, td_target)

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

                if global_step % 1000 == 0:
                    print(f"{global_step} loss {loss.item():.4f} q {old_val.mean().item():.2f} eps {epsilon:.2f} "
                          f"return {np.mean(finished[-20:]) if finished else float('nan'):.1f}")

            if global_step % args.target_network_frequency == 0:
                for target_param, param in zip(target_network.parameters(), q_network.parameters()):
                    target_param.data.copy_(args.tau * param.data + (1.0 - args.tau) * target_param.data)

    # greedy evaluation on its own environment
    eval_env = gym.make(args.env_id)
    scores = []
    for ep in range(5):
        o, _ = eval_env.reset(seed=args.seed + 500 + ep)
        done, score = False, 0.0
        while not done:
            with torch.no_grad():
                a = q_network(torch.Tensor(o).unsqueeze(0)).argmax(dim=1).item()
            o, r, term, trunc, _ = eval_env.step(a)
            score += r
            done = term or trunc
        scores.append(score)
    print("eval", np.mean(scores), "+-", np.std(scores))
    envs.close()
