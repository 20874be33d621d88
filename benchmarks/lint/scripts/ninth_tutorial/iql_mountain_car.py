# Offline RL from scratch: implicit Q-learning (Kostrikov et al., 2021)
# ----------------------------------------------------------------------
# We are not allowed to touch the environment while we learn. All we have is a data set that somebody else's controller
# has left behind. IQL never asks the Q-function about actions that are not in the data:
#   1. V(s) is regressed on Q(s, a) with an *expectile* loss: above one half it leans towards the better actions
#   2. Q(s, a) is regressed on r + gamma V(s')
#   3. the policy imitates the actions of the data, weighted by exp(beta (Q - V))
import argparse

import gymnasium as gym
import numpy as np
import torch
from torch import nn

cli = argparse.ArgumentParser()
cli.add_argument("--data-episodes", type=int, default=60)
cli.add_argument("--updates", type=int, default=20000)
opt = cli.parse_args()

GAMMA, EXPECTILE, BETA, TAU, BATCH = 0.99, 0.8, 3.0, 0.005, 256
rng = np.random.default_rng(0)
torch.manual_seed(0)
env = gym.make("MountainCarContinuous-v0")


# Step 1: the data. The controller pushes in the direction of travel, but it is drunk.
def collect(episodes):
    rows = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        drunk = rng.uniform(0.1, 0.9)
        while True:
            push = np.sign(obs[1]) if rng.random() > drunk else rng.uniform(-1, 1)
            action = np.clip(np.array([push]) + 0.2 * rng.normal(size=1), -1, 1).astype(np.float32)
            next_obs, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, action, reward, next_obs, terminated))
            obs = next_obs
            if terminated or truncated:
                break
    columns = [np.array(column, dtype=np.float32) for column in zip(*rows)]
    return [torch.from_numpy(column) for column in columns]


S, A, R, S2, D = collect(opt.data_episodes)
mean, std = S.mean(0), S.std(0) + 1e-6
S, S2 = (S - mean) / std, (S2 - mean) / std
R = R / 10.0  # the bonus at the top is 100
print(f"{len(S)} transitions, {int(D.sum())} of them reach the goal")


# Step 2: the networks
def net(n_in, n_out, last=None):
    layers = [nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out)]
    return nn.Sequential(*layers, last) if last else nn.Sequential(*layers)


q1, q2, q1_target, q2_target = (net(3, 1) for _ in range(4))
q1_target.load_state_dict(q1.state_dict())
q2_target.load_state_dict(q2.state_dict())
v = net(2, 1)
policy = net(2, 1, nn.Tanh())
q_opt = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=3e-4)
v_opt = torch.optim.Adam(v.parameters(), lr=3e-4)
policy_opt = torch.optim.Adam(policy.parameters(), lr=3e-4)


def expectile_loss(diff):
    weight = torch.where(diff > 0, EXPECTILE, 1 - EXPECTILE)
    return (weight * diff.pow(2)).mean()


# Step 3: learning, without a single step in the environment
for update in range(1, opt.updates + 1):
    i = torch.randint(len(S), (BATCH,))
    s, a, r, s2, d = S[i], A[i], R[i], S2[i], D[i]
    sa = torch.cat([s, a], dim=1)

    with torch.no_grad():
        q_data = torch.min(q1_target(sa), q2_target(sa)).squeeze(1)
        target = r + GAMMA * (1 - d) * v(s2).squeeze(1)

    advantage = q_data - v(s).squeeze(1)
    v_loss = expectile_loss(advantage)
    v_opt.zero_grad()
    v_loss.backward()
    v_opt.step()

    q_loss = (q1(sa).squeeze(1) - target).pow(2).mean() + (q2(sa).squeeze(1) - target).pow(2).mean()
    q_opt.zero_grad()
    q_loss.backward()
    q_opt.step()

    weight = torch.exp(BETA * advantage.detach()).clamp(max=100.0)
    policy_loss = (weight * (policy(s) - a).pow(2).sum(dim=1)).mean()
    policy_opt.zero_grad()
    policy_loss.backward()
    policy_opt.step()

    with torch.no_grad():
        for online, target_net in ((q1, q1_target), (q2, q2_target)):
            for p, p_t in zip(online.parameters(), target_net.parameters()):
                p_t.lerp_(p, TAU)

    if update % 2000 == 0:
        print(f"update {update}: v {v_loss.item():.4f} q {q_loss.item():.4f} policy {policy_loss.item():.4f}")


# Step 4: the exam
def play():
    obs, _ = env.reset()
    total = 0.0
    while True:
        with torch.no_grad():
            action = policy((torch.from_numpy(obs) - mean) / std).numpy()
        obs, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if terminated or truncated:
            return total


print("average return of the learned policy:", np.mean([play() for _ in range(5)]))
