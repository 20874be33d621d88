"""The dynamics are known and differentiable, so the policy's gradient goes through a short rollout and the value at its end.

Nothing is detached on the way: it is the policy's own loss. The critic has a loss of its own, on states and returns that are detached.
"""
import sys

import torch
from torch import nn

GAMMA, HORIZON, BATCH = 0.97, 12, 64


def dynamics(x, u):
    """A mass on a spring; the cost is that of its place, its speed and the force."""
    place, speed = x[:, :1], x[:, 1:]
    speed = speed + 0.1 * (u - 0.5 * place)
    place = place + 0.1 * speed
    cost = place**2 + 0.1 * speed**2 + 0.01 * u**2
    return torch.cat([place, speed], dim=1), cost[:, 0]


def main(iterations=300):
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    policy_opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)
    x = torch.randn(BATCH, 2)
    for k in range(iterations):
        if k % 10 == 0:
            x = torch.randn(BATCH, 2)
        x = x.detach()
        visited, costs = [], []
        for _ in range(HORIZON):
            visited.append(x)
            x, cost = dynamics(x, policy(x))
            costs.append(cost)
        total = critic(x)[:, 0]
        togo = []
        for cost in reversed(costs):
            total = cost + GAMMA * total
            togo.insert(0, total)
        loss = togo[0].mean()
        policy_opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        policy_opt.step()

        states = torch.cat(visited).detach()
        labels = torch.cat(togo).detach()
        critic_opt.zero_grad()  # the policy's loss left gradients here, too
        nn.functional.mse_loss(critic(states)[:, 0], labels).backward()
        critic_opt.step()
        if k % 100 == 99:
            print(k + 1, f"cost to go {loss.item():.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
