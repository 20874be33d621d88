"""Parallelised Q-network (Gallici et al. 2024): Q(lambda) from many environments at once, layer norm in place of a target network.

So the targets come from the online network, without a gradient, and there is no replay. ``alive`` is what others call 1 - done.
"""
import sys

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

GAMMA, LAMBDA, ENVS, ROLLOUT = 0.99, 0.65, 8, 16


def q_network():
    return nn.Sequential(nn.Linear(4, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2))


def main(updates=400):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    q = q_network()
    optimizer = torch.optim.RAdam(q.parameters(), lr=1e-3)
    obs, _ = envs.reset(seed=0)
    lengths, running = [], np.zeros(ENVS)
    for update in range(updates):
        epsilon = max(0.05, 1.0 - update / (0.4 * updates))
        seen, done_with, rewards, alive, same_episode, ahead = [], [], [], [], [], []
        for _ in range(ROLLOUT):
            with torch.no_grad():
                greedy = q(torch.from_numpy(obs)).argmax(1).numpy()
            actions = np.where(rng.random(ENVS) < epsilon, rng.integers(0, 2, ENVS), greedy)
            seen.append(torch.from_numpy(obs))
            done_with.append(torch.from_numpy(actions))
            obs, reward, terminated, truncated, info = envs.step(actions)
            over = terminated | truncated
            reached = np.stack([info["final_obs"][i] if over[i] else obs[i] for i in range(ENVS)])
            with torch.no_grad():
                ahead.append(q(torch.from_numpy(reached.astype(np.float32))).amax(1))
            rewards.append(torch.from_numpy(reward).float())
            alive.append(torch.from_numpy(~terminated).float())
            same_episode.append(torch.from_numpy(~over).float())
            running += 1
            lengths += running[over].tolist()
            running[over] = 0

        targets = [None] * ROLLOUT
        carried = ahead[-1]
        for t in reversed(range(ROLLOUT)):
            mixed = torch.lerp(ahead[t], carried, LAMBDA * same_episode[t])
            carried = rewards[t] + GAMMA * alive[t] * mixed
            targets[t] = carried
        x, a, y = torch.cat(seen), torch.cat(done_with), torch.cat(targets)
        for _ in range(2):
            for rows in torch.randperm(len(x)).chunk(4):
                picked = q(x[rows]).gather(1, a[rows, None])[:, 0]
                optimizer.zero_grad()
                (picked - y[rows]).square().mean().backward()
                nn.utils.clip_grad_norm_(q.parameters(), 10.0)
                optimizer.step()
        if update % 100 == 99:
            print(update + 1, np.mean(lengths[-30:]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
