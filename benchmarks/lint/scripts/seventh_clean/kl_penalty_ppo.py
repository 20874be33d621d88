"""PPO's other form: no clipping at all, an adaptive KL penalty instead; the ratio is therefore unbounded and that is right."""
import os

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical, kl_divergence

torch.manual_seed(0)
env = gym.make("CartPole-v1")
pi = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
vf = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
opt = torch.optim.Adam([{"params": pi.parameters(), "lr": 1e-3}, {"params": vf.parameters(), "lr": 2e-3}])
beta, kl_target, gamma, lam, horizon = 1.0, 0.01, 0.99, 0.95, int(os.environ.get("HORIZON", 1024))

obs, _ = env.reset(seed=0)
for iteration in range(int(os.environ.get("ITERATIONS", 60))):
    S, A, R, S2, terminal, cut = [], [], [], [], [], []
    for i in range(horizon):
        s = torch.as_tensor(obs)
        with torch.no_grad():
            a = Categorical(logits=pi(s)).sample()
        obs, r, term, trunc, _ = env.step(a.item())
        S.append(s), A.append(a), R.append(r), S2.append(torch.as_tensor(obs)), terminal.append(term), cut.append(term or trunc or i == horizon - 1)
        if term or trunc:
            obs, _ = env.reset()
    S, A, S2 = torch.stack(S), torch.stack(A), torch.stack(S2)
    with torch.no_grad():
        v, v2 = vf(S).numpy(), vf(S2).numpy()
        old = Categorical(logits=pi(S))
        old_logp = old.log_prob(A)
    adv, run = np.zeros(horizon, dtype=np.float32), 0.0
    for t in range(horizon)[::-1]:
        run = R[t] + (0.0 if terminal[t] else gamma * v2[t]) - v[t] + (0.0 if cut[t] else gamma * lam * run)
        adv[t] = run
    ret = torch.from_numpy(adv + v)
    adv = torch.from_numpy((adv - adv.mean()) / (adv.std() + 1e-8))
    for _ in range(20):
        new = Categorical(logits=pi(S))
        kl = kl_divergence(old, new).mean()
        loss = -((new.log_prob(A) - old_logp).exp() * adv).mean() + beta * kl + 0.5 * (vf(S) - ret).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if kl > 1.5 * kl_target:
        beta *= 2.0
    elif kl < kl_target / 1.5:
        beta /= 2.0
    print(iteration, f"kl {kl.item():.4f} beta {beta:.3f} episodes {sum(cut)}")
