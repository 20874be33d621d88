"""Residual gradients with double sampling: here the gradient is meant to flow through the next state's value.

Minimising the squared Bellman error needs two independent next states for the same step, as otherwise the noise of the
transition is learned along with it. The model of the random walk is known, so two can be drawn. No target network and no
detach: both would turn it into plain TD.
"""
import numpy as np
import torch
from torch import nn

N_STATES, GAMMA = 19, 0.95


def walk(states, rng):
    """One step left or right from each state. Left of 1 pays -1, right of N pays +1, and both end."""
    moved = states + rng.choice([-1, 1], size=len(states))
    rewards = np.where(moved == 0, -1.0, np.where(moved == N_STATES + 1, 1.0, 0.0))
    terminal = (moved == 0) | (moved == N_STATES + 1)
    return moved, rewards, terminal


def encode(states):
    x = torch.as_tensor(states, dtype=torch.float32)[:, None] / (N_STATES + 1)
    centres = torch.linspace(0, 1, 10)[None, :]
    return torch.exp(-((x - centres) ** 2) / (2 * 0.08**2))


def truth():
    p = np.zeros((N_STATES, N_STATES))
    r = np.zeros(N_STATES)
    for i in range(N_STATES):
        for j, pay in ((i - 1, -1.0), (i + 1, 1.0)):
            if 0 <= j < N_STATES:
                p[i, j] += 0.5
            else:
                r[i] += 0.5 * pay
    return np.linalg.solve(np.eye(N_STATES) - GAMMA * p, r)


def main(updates=8_000, batch=128):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    value = nn.Linear(10, 1)
    optimizer = torch.optim.Adam(value.parameters(), lr=3e-3)
    everything = np.arange(1, N_STATES + 1)
    exact = truth()

    def residual(states, v):
        after, rewards, terminal = walk(states, rng)
        go_on = torch.as_tensor(~terminal, dtype=torch.float32)
        return torch.as_tensor(rewards, dtype=torch.float32) + GAMMA * go_on * value(encode(after))[:, 0] - v

    for step in range(1, updates + 1):
        states = rng.integers(1, N_STATES + 1, size=batch)
        v = value(encode(states))[:, 0]
        loss = (residual(states, v) * residual(states, v)).mean()  # a product of two draws, not a square
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 1_000 == 0:
            with torch.no_grad():
                error = np.sqrt(np.mean((value(encode(everything))[:, 0].numpy() - exact) ** 2))
            print(f"{step}: rms error {error:.3f}")


if __name__ == "__main__":
    main()
