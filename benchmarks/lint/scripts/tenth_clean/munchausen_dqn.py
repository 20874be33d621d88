"""Munchausen DQN: the scaled log-policy of the action taken is added to the reward, and the target is soft (a mean, not a maximum)."""
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

TEMPERATURE, ALPHA, FLOOR, GAMMA = 0.03, 0.9, -1.0, 0.99


def mlp():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))


def loss_of(net, slow, batch):
    s, a, r, s2, ended = batch
    with torch.no_grad():
        log_pi_here = F.log_softmax(slow(s) / TEMPERATURE, dim=1)
        bonus = ALPHA * (TEMPERATURE * log_pi_here.gather(1, a)).clamp(FLOOR, 0.0)
        q2 = slow(s2)
        log_pi2 = F.log_softmax(q2 / TEMPERATURE, dim=1)
        soft = (log_pi2.exp() * (q2 - TEMPERATURE * log_pi2)).sum(1, keepdim=True)
        y = r + bonus + GAMMA * torch.where(ended, 0.0, soft)
    return F.huber_loss(net(s).gather(1, a), y)


def main(steps=30_000, seed=2):
    random.seed(seed), torch.manual_seed(seed)
    env = gym.make("CartPole-v1")
    env.action_space.seed(seed)
    net, slow = mlp(), mlp()
    slow.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=5e-4)
    memory = deque(maxlen=50_000)
    s, _ = env.reset(seed=seed)
    length = 0
    for t in range(steps):
        if random.random() < max(0.02, 1 - t / 8000):
            a = env.action_space.sample()
        else:
            with torch.no_grad():
                a = net(torch.from_numpy(s)).argmax().item()
        s2, r, terminated, truncated, _ = env.step(a)
        memory.append((s, [a], [r], s2, [terminated]))
        length += 1
        s = s2
        if terminated or truncated:
            if t % 50 == 0:
                print(t, length)
            length = 0
            s, _ = env.reset()
        if t >= 1000 and t % 2 == 0:
            cols = zip(*random.sample(memory, 64))
            kinds = (torch.float32, torch.int64, torch.float32, torch.float32, torch.bool)
            batch = [torch.as_tensor(np.array(c), dtype=k) for c, k in zip(cols, kinds)]
            opt.zero_grad()
            loss_of(net, slow, batch).backward()
            opt.step()
        if t % 500 == 0:
            slow.load_state_dict(net.state_dict())


if __name__ == "__main__":
    main()
