"""Double DQN with a dueling head, single file, no framework."""
import argparse
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

p = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
p.add_argument("--env-id", default="CartPole-v1")
p.add_argument("--seed", type=int, default=1)
p.add_argument("--total-timesteps", type=int, default=150_000)
p.add_argument("--learning-rate", type=float, default=5e-4)
p.add_argument("--buffer-size", type=int, default=50_000)
p.add_argument("--gamma", type=float, default=0.99)
p.add_argument("--target-network-frequency", type=int, default=500)
p.add_argument("--batch-size", type=int, default=128)
p.add_argument("--start-e", type=float, default=1.0)
p.add_argument("--end-e", type=float, default=0.05)
p.add_argument("--exploration-fraction", type=float, default=0.3)
p.add_argument("--learning-starts", type=int, default=5_000)
p.add_argument("--train-frequency", type=int, default=4)
p.add_argument("--max-grad-norm", type=float, default=10.0)
args = p.parse_args()


class DuelingQ(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 128), nn.ReLU())
        self.adv = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, n_act))
        self.val = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.val(h) + a - a.mean(dim=-1, keepdim=True)


def linear_schedule(start_e, end_e, duration, t):
    slope = (end_e - start_e) / duration
    return max(slope * t + start_e, end_e)


def greedy_score(net, n_episodes, seed):
    env = gym.make(args.env_id)
    returns = []
    for k in range(n_episodes):
        o, _ = env.reset(seed=seed + k)
        ret, stop = 0.0, False
        while not stop:
            with torch.no_grad():
                a = int(net(torch.tensor(o).unsqueeze(0)).argmax(dim=1).item())
            o, r, term, trunc, _ = env.step(a)
            ret += r
            stop = term or trunc
        returns.append(ret)
    env.close()
    return np.mean(returns)


random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)

env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
env.action_space.seed(args.seed)
n_obs, n_act = env.observation_space.shape[0], int(env.action_space.n)
q_network = DuelingQ(n_obs, n_act)
target_network = DuelingQ(n_obs, n_act)
target_network.load_state_dict(q_network.state_dict())
optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)

storage = deque(maxlen=args.buffer_size)
recent = deque(maxlen=20)
obs, _ = env.reset(seed=args.seed)
for global_step in range(args.total_timesteps):
    epsilon = linear_schedule(args.start_e, args.end_e, args.exploration_fraction * args.total_timesteps, global_step)
    if random.random() < epsilon:
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            action = int(q_network(torch.tensor(obs).unsqueeze(0)).argmax(dim=1).item())

    next_obs, reward, termination, truncation, info = env.step(action)
    storage.append((obs, action, reward, next_obs, termination))
    obs = next_obs
    if termination or truncation:
        recent.append(float(info["episode"]["r"]))
        obs, _ = env.reset()

    if global_step > args.learning_starts and global_step % args.train_frequency == 0:
        batch = random.sample(storage, args.batch_size)
        s, a, r, s2, term = map(np.array, zip(*batch))
        s = torch.as_tensor(s, dtype=torch.float32)
        a = torch.as_tensor(a, dtype=torch.int64)
        r = torch.as_tensor(r, dtype=torch.float32)
        s2 = torch.as_tensor(s2, dtype=torch.float32)
        term = torch.as_tensor(term, dtype=torch.float32)

        with torch.no_grad():
            best = q_network(s2).argmax(dim=1, keepdim=True)
            next_q = target_network(s2).gather(1, best).squeeze(1)
            td_target = r + args.gamma * next_q * (1.0 - term)
        old_val = q_network(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(old_val, td_target)

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(q_network.parameters(), args.max_grad_norm)
        optimizer.step()

    if global_step % args.target_network_frequency == 0:
        target_network.load_state_dict(q_network.state_dict())

    if global_step % 10_000 == 0 and recent:
        print(f"{global_step}: return {np.mean(recent):.1f}, epsilon {epsilon:.2f}")

env.close()
print("greedy:", greedy_score(q_network, n_episodes=10, seed=args.seed + 777))
torch.save(q_network.state_dict(), "dueling.pt")
