"""A contextual bandit: every round is one step long, so gamma is 0, nothing is bootstrapped and the 'next state' is thrown away."""
import os

import torch
from torch import nn

torch.manual_seed(6)
ROUNDS = int(os.environ.get("ROUNDS", 3000))
truth = torch.randn(8, 5)
model = nn.Linear(8, 5, bias=False)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
baseline = torch.zeros(())
regret = 0.0
for t in range(ROUNDS):
    context = torch.randn(32, 8)
    dist = torch.distributions.Categorical(logits=model(context))
    arm = dist.sample()
    means = context @ truth
    reward = means.gather(1, arm[:, None])[:, 0] + torch.randn(32)
    # REINFORCE with a moving baseline; the reward is data and carries no gradient
    loss = ((baseline - reward) * dist.log_prob(arm)).mean() - 0.01 * dist.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    baseline += 0.1 * (reward.mean() - baseline)
    regret += (means.max(1).values - means.gather(1, arm[:, None])[:, 0]).mean().item()
    if t % 500 == 0:
        print(t, "regret a round", round(regret / (t + 1), 3))
