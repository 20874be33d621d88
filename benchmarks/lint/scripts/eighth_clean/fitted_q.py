"""Neural fitted Q-iteration on a fixed log: no exploration schedule, no replay that fills up, no target network to copy.

Each iteration computes all targets with the last regressor, and then fits a new regressor from scratch.
"""
import gymnasium as gym
import numpy as np
import torch
from torch import nn


def log_of_random_play(transitions, seed):
    env = gym.make("CartPole-v1")
    env.action_space.seed(seed)
    rows = []
    obs, _ = env.reset(seed=seed)
    while len(rows) < transitions:
        action = env.action_space.sample()
        nxt, _, fell, cut, _ = env.step(action)
        rows.append((obs, action, nxt, fell))
        obs = env.reset()[0] if fell or cut else nxt
    obs, action, nxt, fell = map(np.array, zip(*rows))
    return (
        torch.from_numpy(obs).float(),
        torch.from_numpy(action),
        torch.from_numpy(nxt).float(),
        torch.from_numpy(fell),
    )


def regressor():
    return nn.Sequential(nn.Linear(4, 32), nn.Sigmoid(), nn.Linear(32, 2))


def main(transitions=2000, iterations=20, epochs=150, gamma=0.95):
    torch.manual_seed(0)
    obs, action, nxt, fell = log_of_random_play(transitions, seed=0)
    q = None
    for k in range(iterations):
        if q is None:
            ahead = torch.zeros(transitions)
        else:
            with torch.no_grad():
                ahead = q(nxt).amax(1)
        target = torch.where(fell, torch.zeros(()), 1.0 + gamma * ahead)
        q = regressor()
        fit = torch.optim.Rprop(q.parameters())
        for _ in range(epochs):
            fit.zero_grad()
            nn.functional.mse_loss(q(obs)[torch.arange(transitions), action], target).backward()
            fit.step()
        if k % 5 == 4:
            print(k + 1, "mean value", float(ahead.mean()))

    env = gym.make("CartPole-v1")
    lengths = []
    for seed in range(5):
        state, _ = env.reset(seed=50 + seed)
        for t in range(500):
            state, _, fell_, cut, _ = env.step(int(q(torch.from_numpy(state)).argmax()))
            if fell_ or cut:
                break
        lengths.append(t + 1)
    print("balanced for", lengths)


if __name__ == "__main__":
    import sys

    main(*map(int, sys.argv[1:]))
