"""Double DQN with several environments side by side, in a single file."""
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
    # fmt: off
    p = argparse.ArgumentParser()
    p.add_argument("--env-id", default="CartPole-v1")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--num-envs", type=int, default=4)
    p.add_argument("--total-timesteps", type=int, default=200_000)
    p.add_argument("--learning-rate", type=float, default=2.5e-4)
    p.add_argument("--buffer-size", type=int, default=50_000)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--target-network-frequency", type=int, default=1000)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--start-e", type=float, default=1.0)
    p.add_argument("--end-e", type=float, default=0.05)
    p.add_argument("--exploration-fraction", type=float, default=0.4)
    p.add_argument("--learning-starts", type=int, default=5_000)
    p.add_argument("--train-frequency", type=int, default=8)
    p.add_argument("--eval-episodes", type=int, default=5)
    # fmt: on
    return p.parse_args()


class ReplayBuffer:
    def __init__(self, capacity, obs_shape):
        self.capacity = capacity
        self.obs = np.zeros((capacity, *obs_shape), dtype=np.float32)
        self.next_obs = np.zeros((capacity, *obs_shape), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.terminated = np.zeros(capacity, dtype=np.float32)
        self.pos = 0
        self.full = False

    def add(self, obs, next_obs, action, reward, terminated):
        self.obs[self.pos] = obs
        self.next_obs[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.terminated[self.pos] = terminated
        self.pos = (self.pos + 1) % self.capacity
        self.full = self.full or self.pos == 0

    def sample(self, batch_size):
        upper = self.capacity if self.full else self.pos
        idx = np.random.randint(0, upper, size=batch_size)
        return (
            torch.as_tensor(self.obs[idx]),
            torch.as_tensor(self.next_obs[idx]),
            torch.as_tensor(self.actions[idx]),
            torch.as_tensor(self.rewards[idx]),
            torch.as_tensor(self.terminated[idx]),
        )


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


def linear_schedule(start_e, end_e, duration, t):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


def evaluate(env_id, q_network, episodes, seed):
    """Greedy episodes in an environment of their own."""
    env = gym.make(env_id)
    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed + episode)
        total, done = 0.0, False
        while not done:
            with torch.no_grad():
                action = q_network(torch.as_tensor(obs).unsqueeze(0)).argmax(dim=1).item()
            obs, reward, terminated, truncated, _ = env.step(action)
            total += reward
            done = terminated or truncated
        returns.append(total)
    env.close()
    return np.mean(returns)


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make(args.env_id) for _ in range(args.num_envs)],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )

    q_network = QNetwork(envs)
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    target_network = QNetwork(envs)
    target_network.load_state_dict(q_network.state_dict())

    rb = ReplayBuffer(args.buffer_size, envs.single_observation_space.shape)
    start_time = time.time()
    obs, _ = envs.reset(seed=args.seed)

    for global_step in range(0, args.total_timesteps, args.num_envs):
        epsilon = linear_schedule(args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
        with torch.no_grad():
            greedy = q_network(torch.as_tensor(obs)).argmax(dim=1).numpy()
        explore = np.random.rand(args.num_envs) < epsilon
        actions = np.where(explore, np.random.randint(envs.single_action_space.n, size=args.num_envs), greedy)

        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

        # next_obs already belongs to the next episode where one has ended: the buffer wants the real last one
        real_next_obs = next_obs.copy()
        for i in range(args.num_envs):
            if terminations[i] or truncations[i]:
                real_next_obs[i] = infos["final_obs"][i]
        for i in range(args.num_envs):
            rb.add(obs[i], real_next_obs[i], actions[i], rewards[i], terminations[i])

        obs = next_obs

        if global_step <= args.learning_starts:
            continue

        if global_step % args.train_frequency == 0:
            b_obs, b_next_obs, b_actions, b_rewards, b_terminated = rb.sample(args.batch_size)
            with torch.no_grad():
                best_actions = q_network(b_next_obs).argmax(dim=1, keepdim=True)
                next_q = target_network(b_next_obs).gather(1, best_actions).squeeze(1)
                td_target = b_rewards + args.gamma * next_q * (1 - b_terminated)
            old_val = q_network(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(old_val, td_target)

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if global_step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())

        if global_step % 20_000 == 0:
            score = evaluate(args.env_id, q_network, args.eval_episodes, args.seed + 1000)
            sps = int(global_step / (time.time() - start_time))
            print(f"{global_step=} greedy_return={score:.1f} epsilon={epsilon:.2f} loss={loss.item():.4f} {sps=}")

    envs.close()


if __name__ == "__main__":
    main()
