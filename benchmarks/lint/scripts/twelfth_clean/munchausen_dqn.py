"""Munchausen DQN: the scaled log-policy of the *taken* action is added to the reward, and the target is soft."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TAU_ENTROPY = 0.03
ALPHA = 0.9
LOG_FLOOR = -1.0
GAMMA = 0.99
BATCH = 64
TOTAL = 60_000

random.seed(2)
np.random.seed(2)
torch.manual_seed(2)

env = gym.make("CartPole-v1")


def make_net():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


online, target = make_net(), make_net()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=5e-4)
replay = deque(maxlen=50_000)


def soft_log_policy(q):
    """log softmax(q / tau), times tau, in a stable form."""
    v = q.max(dim=1, keepdim=True).values
    return q - v - TAU_ENTROPY * torch.logsumexp((q - v) / TAU_ENTROPY, dim=1, keepdim=True)


def update():
    s, a, r, s2, d = (torch.as_tensor(np.array(x)) for x in zip(*random.sample(replay, BATCH)))
    a, r, d = a.long().unsqueeze(1), r.float().unsqueeze(1), d.float().unsqueeze(1)
    with torch.no_grad():
        # both policies are those of the target network
        q_next = target(s2)
        scaled_log_next = soft_log_policy(q_next)
        pi_next = F.softmax(q_next / TAU_ENTROPY, dim=1)
        soft_value = (pi_next * (q_next - scaled_log_next)).sum(dim=1, keepdim=True)
        bonus = soft_log_policy(target(s)).gather(1, a).clamp(min=LOG_FLOOR, max=0.0)
        goal = r + ALPHA * bonus + GAMMA * (1 - d) * soft_value
    loss = F.mse_loss(online(s).gather(1, a), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


obs, _ = env.reset(seed=2)
score, scores = 0, []
for t in range(1, TOTAL + 1):
    # the soft policy explores by itself; a little epsilon only at the very beginning
    if t < 2_000 and random.random() < 0.5:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            probs = F.softmax(online(torch.from_numpy(obs)) / TAU_ENTROPY, dim=-1)
        action = int(torch.multinomial(probs, 1))
    nxt, reward, terminated, truncated, _ = env.step(action)
    replay.append((obs, action, reward, nxt, terminated))
    obs = nxt
    score += reward
    if terminated or truncated:
        scores.append(score)
        score = 0
        obs, _ = env.reset()
    if t > 1_000 and t % 2 == 0:
        update()
    if t % 1_000 == 0:
        target.load_state_dict(online.state_dict())
    if t % 5_000 == 0:
        print(t, np.mean(scores[-20:]))
