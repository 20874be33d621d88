# REINFORCE with a learned baseline on CartPole
import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
env = gym.make("CartPole-v1")

policy = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))
baseline = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 1))
opt = torch.optim.Adam(list(policy.parameters()) + list(baseline.parameters()), lr=1e-3)
gamma = 0.99

for episode in range(1000):
    state, _ = env.reset(seed=0 if episode == 0 else None)
    logps, vals, rews = [], [], []
    done = False
    while not done:
        s = torch.tensor(state, dtype=torch.float32)
        dist = torch.distributions.Categorical(logits=policy(s))
        a = dist.sample()
        state, r, terminated, truncated, _ = env.step(a.item())
        done = terminated or truncated
        logps.append(dist.log_prob(a))
        vals.append(baseline(s).squeeze(-1))
        rews.append(r)

    rets = []
    G = 0.0
    for r in reversed(rews):
        G = r + gamma * G
        rets.insert(0, G)
    rets = torch.tensor(rets)
    vals = torch.stack(vals)
    adv = rets - vals.detach()
    policy_loss = -(torch.stack(logps) * adv).sum()
    value_loss = F.mse_loss(vals, rets)
    loss = policy_loss + 0.5 * value_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    if episode % 50 == 0:
        print(episode, sum(rews))
