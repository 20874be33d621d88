# TD3, CleanRL manner, own tiny buffer, one environment
import random
import sys

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ENV_ID = sys.argv[1] if len(sys.argv) > 1 else "Pusher-v5"
TOTAL = int(sys.argv[2]) if len(sys.argv) > 2 else 500_000
SEED = 11
LR = 3e-4
GAMMA = 0.99
TAU = 0.005
BATCH = 256
POLICY_NOISE = 0.2
NOISE_CLIP = 0.5
EXPLORATION_NOISE = 0.1
LEARNING_STARTS = 10_000 if TOTAL > 20_000 else 300
POLICY_FREQUENCY = 2

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

env = gym.wrappers.RecordEpisodeStatistics(gym.make(ENV_ID))
env.action_space.seed(SEED)
n_obs, n_act = env.observation_space.shape[0], env.action_space.shape[0]
lo = torch.tensor(env.action_space.low, device=dev)
hi = torch.tensor(env.action_space.high, device=dev)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(n_obs + n_act, 256)
        self.l2 = nn.Linear(256, 256)
        self.l3 = nn.Linear(256, 1)

    def forward(self, x, a):
        x = torch.cat((x, a), 1)
        x = F.relu(self.l1(x))
        x = F.relu(self.l2(x))
        return self.l3(x)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(n_obs, 256)
        self.l2 = nn.Linear(256, 256)
        self.mu = nn.Linear(256, n_act)

    def forward(self, x):
        x = F.relu(self.l1(x))
        x = F.relu(self.l2(x))
        return torch.tanh(self.mu(x)) * (hi - lo) / 2 + (hi + lo) / 2


actor, actor_target = Actor().to(dev), Actor().to(dev)
qf1, qf2, qf1_target, qf2_target = (QNet().to(dev) for _ in range(4))
actor_target.load_state_dict(actor.state_dict())
qf1_target.load_state_dict(qf1.state_dict())
qf2_target.load_state_dict(qf2.state_dict())
q_optim = torch.optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=LR)
pi_optim = torch.optim.Adam(actor.parameters(), lr=LR)

capacity = min(TOTAL, 1_000_000)
S = torch.zeros(capacity, n_obs)
A = torch.zeros(capacity, n_act)
R = torch.zeros(capacity)
S2 = torch.zeros(capacity, n_obs)
D = torch.zeros(capacity)

obs, _ = env.reset(seed=SEED)
for step in range(TOTAL):
    if step < LEARNING_STARTS:
        action = env.action_space.sample()
    else:
        with torch.no_grad():
            a = actor(torch.tensor(obs, dtype=torch.float32, device=dev)[None])[0]
            a += torch.randn_like(a) * EXPLORATION_NOISE * (hi - lo) / 2
            action = torch.max(torch.min(a, hi), lo).cpu().numpy()
    next_obs, reward, terminated, truncated, info = env.step(action)

    k = step % capacity
    S[k], A[k], R[k] = torch.tensor(obs, dtype=torch.float32), torch.tensor(action), float(reward)
    S2[k], D[k] = torch.tensor(next_obs, dtype=torch.float32), float(terminated)
    obs = next_obs
    if terminated or truncated:
        print(f"step={step} return={info['episode']['r']}")
        obs, _ = env.reset()

    if step < LEARNING_STARTS:
        continue
    idx = torch.randint(0, min(step + 1, capacity), (BATCH,))
    s, a, r, s2, d = (x[idx].to(dev) for x in (S, A, R, S2, D))
    with torch.no_grad():
        noise = (torch.randn_like(a) * POLICY_NOISE).clamp(-NOISE_CLIP, NOISE_CLIP) * (hi - lo) / 2
        a2 = torch.max(torch.min(actor_target(s2) + noise, hi), lo)
        q_next = torch.min(qf1_target(s2, a2), qf2_target(s2, a2)).view(-1)
        y = r + (1 - d) * GAMMA * q_next
    q1, q2 = qf1(s, a).view(-1), qf2(s, a).view(-1)
    q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
    q_optim.zero_grad()
    q_loss.backward()
    q_optim.step()

    if step % POLICY_FREQUENCY == 0:
        pi_loss = -qf1(s, actor(s)).mean()
        pi_optim.zero_grad()
        pi_loss.backward()
        pi_optim.step()
        for online, target in ((actor, actor_target), (qf1, qf1_target), (qf2, qf2_target)):
            for p, tp in zip(online.parameters(), target.parameters()):
                tp.data.copy_(TAU * p.data + (1 - TAU) * tp.data)
env.close()
