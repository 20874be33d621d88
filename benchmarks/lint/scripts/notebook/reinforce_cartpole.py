# %% [markdown]
# ## Policy gradient w/ learned baseline on CartPole
# Idea: batch of K full episodes, reward-to-go, V(s) as baseline.

# %%
import os

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

STEPS = int(os.environ.get("STEPS", 100000))
torch.manual_seed(7)
np.random.seed(7)

# %%
e = gym.make("CartPole-v1")
K = 8            # episodes per batch
gam = 0.99
ent_w = 0.005

# %%
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
base = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
op = torch.optim.Adam(policy.parameters(), lr=5e-3)
ob = torch.optim.Adam(base.parameters(), lr=5e-3)

# %%
def rtg(rs):
    """reward to go, discounted"""
    G = np.zeros(len(rs), dtype=np.float32)
    run = 0.0
    for i in reversed(range(len(rs))):
        run = rs[i] + gam * run
        G[i] = run
    return G


def play(seed=None):
    x, _ = e.reset(seed=seed)
    xs, us, rs = [], [], []
    over = False
    while not over:
        with torch.no_grad():
            u = Categorical(logits=policy(torch.as_tensor(x))).sample().item()
        nx, rew, term, trunc, _ = e.step(u)
        xs.append(x)
        us.append(u)
        rs.append(rew)
        x = nx
        over = term or trunc
    if trunc and not term:
        # cut off by the time limit: the future is worth V(x), not zero
        with torch.no_grad():
            rs[-1] += gam * base(torch.as_tensor(x)).item()
    return np.array(xs, dtype=np.float32), np.array(us), rs


# %%
curve = []
n = 0
first = True
while n < STEPS:
    X, U, G, L = [], [], [], []
    for k in range(K):
        xs, us, rs = play(seed=7 if first else None)
        first = False
        X.append(xs)
        U.append(us)
        G.append(rtg(rs))
        L.append(len(rs))
        n += len(rs)
    X = torch.as_tensor(np.concatenate(X))
    U = torch.as_tensor(np.concatenate(U))
    G = torch.as_tensor(np.concatenate(G))

    v = base(X).squeeze(-1)
    adv = G - v.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    dist = Categorical(logits=policy(X))
    pg = -(dist.log_prob(U) * adv).mean()
    H = dist.entropy().mean()
    loss = pg - ent_w * H

    op.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    op.step()

    for _ in range(5):
        vl = ((base(X).squeeze(-1) - G) ** 2).mean()
        ob.zero_grad()
        vl.backward()
        ob.step()

    curve.append(np.mean(L))
    print(f"{n:7d}  len {curve[-1]:6.1f}  pg {pg.item():+.3f}  H {H.item():.3f}  v {vl.item():.1f}")

# %% greedy check in a separate env
ev = gym.make("CartPole-v1")
score = []
for i in range(10):
    x, _ = ev.reset(seed=100 + i)
    tot = 0
    while True:
        with torch.no_grad():
            u = policy(torch.as_tensor(x)).argmax(-1).item()
        x, rew, term, trunc, _ = ev.step(u)
        tot += rew
        if term or trunc:
            break
    score.append(tot)
print("greedy:", np.mean(score), "+-", np.std(score))

# %%
if os.environ.get("PLOT"):
    import matplotlib.pyplot as plt

    plt.plot(curve)
    plt.xlabel("batch")
    plt.ylabel("episode length")
    plt.show()
