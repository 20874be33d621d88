"""Behavioural cloning of a scripted driver on MountainCar: supervised learning, no rewards in the loss."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn


def driver(obs):
    """Push into the direction of motion."""
    return 2 if obs[1] >= 0 else 0


def demonstrate(n, env):
    X, y = [], []
    for k in range(n):
        obs, _ = env.reset(seed=k)
        done = False
        while not done:
            a = driver(obs)
            X.append(obs)
            y.append(a)
            obs, _, terminated, truncated, _ = env.step(a)
            done = terminated or truncated
    return torch.as_tensor(np.array(X)), torch.as_tensor(y)


def drive(model, env, n):
    model.eval()
    totals = []
    for k in range(n):
        obs, _ = env.reset(seed=5000 + k)
        total, done = 0.0, False
        while not done:
            with torch.no_grad():
                a = model(torch.as_tensor(obs)[None]).argmax(1).item()
            obs, r, terminated, truncated, _ = env.step(a)
            total += r
            done = terminated or truncated
        totals.append(total)
    model.train()
    return np.mean(totals)


def main():
    torch.manual_seed(0)
    env = gym.make("MountainCar-v0")
    X, y = demonstrate(20, env)
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(20):
        for idx in torch.randperm(len(X)).split(128):
            loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        if epoch % 5 == 4:
            print(epoch, loss.item(), "return", drive(model, env, 5))


if __name__ == "__main__":
    main()
