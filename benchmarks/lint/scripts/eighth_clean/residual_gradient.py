"""Residual-gradient policy evaluation (Baird 1995).

The gradient goes through both sides of the Bellman error on purpose. That is unbiased here, because the chain is deterministic; the whole
state space is one batch, so no data are gathered at all.
"""
import torch
from torch import nn

N, GAMMA = 12, 0.9


def main(iterations=3000):
    torch.manual_seed(0)
    here = torch.eye(N)
    there = torch.roll(here, -1, dims=0)
    is_last = torch.zeros(N, 1)
    is_last[-1] = 1.0
    reward = torch.zeros(N, 1)
    reward[-1] = 1.0

    v = nn.Sequential(nn.Linear(N, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(v.parameters(), lr=3e-3)
    for _ in range(iterations):
        bellman_error = reward + GAMMA * (1.0 - is_last) * v(there) - v(here)
        loss = bellman_error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    exact = GAMMA ** torch.arange(N - 1, -1, -1.0)
    worst = (v(here).detach().flatten() - exact).abs().max().item()
    print(f"largest error of a value: {worst:.4f}")
    assert worst < 0.1 or iterations < 3000


if __name__ == "__main__":
    main()
