"""Actor and critic share a trunk, which the critic alone trains: the actor gets its features detached, and both have an optimizer of their own."""
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
env = gym.make("Pendulum-v1")
trunk = nn.Sequential(nn.Linear(3, 128), nn.Tanh())
value = nn.Linear(128, 1)
mean = nn.Linear(128, 1)
log_std = nn.Parameter(torch.zeros(1))
critic_opt = torch.optim.Adam([*trunk.parameters(), *value.parameters()], lr=1e-3)
actor_opt = torch.optim.Adam([*mean.parameters(), log_std], lr=5e-4)
GAMMA, LAM = 0.95, 0.9

obs, _ = env.reset(seed=0)
for it in range(60):
    X, A, R, X2, GO = [], [], [], [], []
    score = 0.0
    for _ in range(400):
        x = torch.as_tensor(obs, dtype=torch.float32)
        with torch.no_grad():
            a = Normal(mean(trunk(x)), log_std.exp()).sample()
        obs, r, terminated, truncated, _ = env.step((2.0 * a).clamp(-2.0, 2.0).numpy())
        X.append(x), A.append(a), R.append(r / 8.0), X2.append(torch.as_tensor(obs, dtype=torch.float32)), GO.append(not truncated)
        score += r
        if truncated:  # a pendulum never ends
            obs, _ = env.reset()
    X, A, X2, R = torch.stack(X), torch.stack(A), torch.stack(X2), torch.tensor(R, dtype=torch.float32)
    with torch.no_grad():
        v, v2 = value(trunk(X))[:, 0], value(trunk(X2))[:, 0]
        delta = R + GAMMA * v2 - v
        adv, acc = torch.zeros_like(R), 0.0
        for t in reversed(range(len(R))):
            acc = delta[t] + GAMMA * LAM * GO[t] * acc
            adv[t] = acc
        goal = adv + v
        weight = (adv - adv.mean()) / adv.std()
    for _ in range(20):
        critic_opt.zero_grad()
        (value(trunk(X))[:, 0] - goal).pow(2).mean().backward()
        critic_opt.step()
    actor_opt.zero_grad()
    logp = Normal(mean(trunk(X).detach()), log_std.exp()).log_prob(A).sum(1)
    (-logp * weight).mean().backward()
    actor_opt.step()
    if it % 10 == 0:
        print(it, score / 2)
