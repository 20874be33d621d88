# Dual-clip PPO (Ye et al. 2020): for negative advantages the surrogate is also bounded from below, so both min and max appear.
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

EPS, C, GAMMA, LAM, T = 0.2, 3.0, 0.99, 0.95, 1024
torch.manual_seed(3)
env = gym.make("CartPole-v1")
actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.Adam([{"params": actor.parameters(), "lr": 7e-4}, {"params": critic.parameters(), "lr": 2e-3}])


def dual_clip(ratio, adv):
    standard = torch.minimum(ratio * adv, ratio.clamp(1 - EPS, 1 + EPS) * adv)
    bounded = torch.maximum(standard, C * adv)
    return torch.where(adv < 0, bounded, standard)


obs, _ = env.reset(seed=3)
for it in range(30):
    O, A, L, R, NT, CUT, O2 = [], [], [], [], [], [], []
    for _ in range(T):
        x = torch.as_tensor(obs)
        with torch.no_grad():
            d = Categorical(logits=actor(x))
            a = d.sample()
        nxt, r, term, trunc, _ = env.step(a.item())
        for column, value in zip((O, A, L, R, NT, CUT, O2), (x, a, d.log_prob(a), r, not term, term or trunc, torch.as_tensor(nxt))):
            column.append(value)
        obs = nxt if not (term or trunc) else env.reset()[0]
    O, A, L, O2 = map(torch.stack, (O, A, L, O2))
    with torch.no_grad():
        V, V2 = critic(O)[:, 0], critic(O2)[:, 0]
    delta = torch.tensor(R) + GAMMA * V2 * torch.tensor(NT) - V
    adv, run = torch.zeros(T), 0.0
    for t in range(T - 1, -1, -1):
        run = delta[t] + (0.0 if CUT[t] else GAMMA * LAM * run)
        adv[t] = run
    ret = adv + V
    adv = (adv - adv.mean()) / adv.std()
    for _ in range(5):
        for i in torch.randperm(T).chunk(8):
            d = Categorical(logits=actor(O[i]))
            objective = dual_clip((d.log_prob(A[i]) - L[i]).exp(), adv[i]).mean() + 0.005 * d.entropy().mean()
            loss = nn.functional.mse_loss(critic(O[i])[:, 0], ret[i]) - objective
            opt.zero_grad()
            loss.backward()
            opt.step()
    if it % 5 == 0:
        print(it, T / max(1, sum(CUT)))
