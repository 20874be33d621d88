"""A contextual bandit: each round stands alone, so there is no next state, no discount and nothing to bootstrap from.

Thompson sampling is approximated by an ensemble: a member is drawn for each round and obeyed greedily, there is no epsilon.
"""
import random

import torch
from torch import nn

CONTEXT, ARMS, MEMBERS = 5, 4, 6


def main(rounds=3000):
    torch.manual_seed(0)
    random.seed(0)
    truth = torch.randn(ARMS, CONTEXT)
    members = [nn.Sequential(nn.Linear(CONTEXT, 32), nn.ReLU(), nn.Linear(32, ARMS)) for _ in range(MEMBERS)]
    optimizers = [torch.optim.Adam(member.parameters(), lr=3e-3) for member in members]
    seen: list[tuple[torch.Tensor, int, float, torch.Tensor]] = []
    regret = 0.0
    for n in range(rounds):
        context = torch.randn(CONTEXT)
        with torch.no_grad():
            arm = int(random.choice(members)(context).argmax())
        means = truth @ context
        reward = float(means[arm] + 0.5 * torch.randn(()))
        regret += float(means.max() - means[arm])
        # a bootstrap mask: each member learns from its own half of the rounds
        seen.append((context, arm, reward, torch.rand(MEMBERS) < 0.5))
        if n >= 64 and n % 4 == 0:
            batch = random.sample(seen, 64)
            x = torch.stack([row[0] for row in batch])
            a = torch.tensor([row[1] for row in batch])
            r = torch.tensor([row[2] for row in batch])
            use = torch.stack([row[3] for row in batch]).float()
            for k, (member, optimizer) in enumerate(zip(members, optimizers)):
                error = member(x)[torch.arange(64), a] - r
                optimizer.zero_grad()
                (use[:, k] * error**2).mean().backward()
                optimizer.step()
        if n % 1000 == 999:
            print(n + 1, f"mean regret so far {regret / (n + 1):.3f}")


if __name__ == "__main__":
    import sys

    main(*map(int, sys.argv[1:]))
