# Advantage-weighted regression: the policy is fitted to what was done, weighted by exp(advantage / beta). No ratio, no entropy bonus.
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BETA, MAX_WEIGHT, GAMMA = 1.0, 20.0, 0.99
torch.manual_seed(0)
env = gym.make("Pendulum-v1")
policy_mean = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
log_std = nn.Parameter(torch.zeros(1))
critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
policy_opt = torch.optim.Adam([*policy_mean.parameters(), log_std], lr=3e-4)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def tensor(x):
    return torch.as_tensor(np.asarray(x), dtype=torch.float32)


def episode(seed=None):
    obs, _ = env.reset(seed=seed)
    O, A, R = [], [], []
    while True:
        with torch.no_grad():
            a = torch.normal(policy_mean(tensor(obs)), log_std.exp()).numpy()
        O.append(obs)
        A.append(a)
        obs, r, terminated, truncated, _ = env.step(np.clip(2.0 * a, -2.0, 2.0))
        R.append(0.1 * r)
        if terminated or truncated:
            break
    # Pendulum only ever runs out of time, so what comes after the last step is its value
    with torch.no_grad():
        g = 0.0 if terminated else critic(tensor(obs)).item()
    G = []
    for r in R[::-1]:
        g = r + GAMMA * g
        G.append(g)
    return O, A, G[::-1]


for it in range(100):
    O, A, G = (tensor(sum(part, [])) for part in zip(*(episode(it * 10 + k) for k in range(5))))
    for _ in range(20):
        critic_loss = F.mse_loss(critic(O)[:, 0], G)
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()
    with torch.no_grad():
        adv = G - critic(O)[:, 0]
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        weight = (adv / BETA).exp().clamp(max=MAX_WEIGHT)
    for _ in range(10):
        logp = torch.distributions.Normal(policy_mean(O), log_std.exp()).log_prob(A).sum(-1)
        policy_loss = -(weight * logp).mean()
        policy_opt.zero_grad()
        policy_loss.backward()
        policy_opt.step()
    if it % 10 == 0:
        print(it, "mean return to go", G.mean().item())
