# %% [markdown]
# # SAC on Pendulum, learned temperature
# Exported from my notebook (jupytext). Everything is global, sorry.

# %%
import os
import copy
import math
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# %%
N = int(os.environ.get("STEPS", 30_000))
seed = 3
g = 0.99
tau = 0.005
lr = 3e-4
bs = 256
warm = min(1000, N // 3)
cap = 200_000

random.seed(seed)
np.random.seed(seed)
torch.manual_seed(seed)

# %%
env = gym.make("Pendulum-v1")
test_env = gym.make("Pendulum-v1")
env.action_space.seed(seed)
od = env.observation_space.shape[0]
ad = env.action_space.shape[0]
amax = float(env.action_space.high[0])

# %% networks
def mlp(i, o, h=128):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Pi(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = mlp(od, 2 * ad)

    def forward(self, s):
        mu, ls = self.f(s).chunk(2, -1)
        ls = ls.clamp(-20, 2)
        d = torch.distributions.Normal(mu, ls.exp())
        u = d.rsample()
        # log-prob of the squashed action, stable version of log(1 - tanh^2)
        lp = d.log_prob(u).sum(-1)
        lp = lp - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        lp = lp - ad * math.log(amax)
        return torch.tanh(u) * amax, lp, torch.tanh(mu) * amax


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = mlp(od + ad, 1)

    def forward(self, s, a):
        return self.f(torch.cat([s, a], -1)).squeeze(-1)


pi = Pi()
q1, q2 = Q(), Q()
q1t, q2t = copy.deepcopy(q1), copy.deepcopy(q2)
for p in list(q1t.parameters()) + list(q2t.parameters()):
    p.requires_grad_(False)

log_al = torch.zeros(1, requires_grad=True)
H = -float(ad)

o_pi = torch.optim.Adam(pi.parameters(), lr=lr)
o_q = torch.optim.Adam(list(q1.parameters()) + list(q2.parameters()), lr=lr)
o_al = torch.optim.Adam([log_al], lr=lr)

# %% replay memory as flat arrays
S = np.zeros((cap, od), np.float32)
A = np.zeros((cap, ad), np.float32)
R = np.zeros(cap, np.float32)
S2 = np.zeros((cap, od), np.float32)
D = np.zeros(cap, np.float32)
ptr, full = 0, 0


def put(s, a, r, s2, d):
    global ptr, full
    S[ptr], A[ptr], R[ptr], S2[ptr], D[ptr] = s, a, r, s2, d
    ptr = (ptr + 1) % cap
    full = min(full + 1, cap)


def draw():
    ix = np.random.randint(0, full, bs)
    return [torch.as_tensor(x[ix]) for x in (S, A, R, S2, D)]


# %% one gradient step
def upd():
    s, a, r, s2, d = draw()
    al = log_al.exp().detach()

    with torch.no_grad():
        a2, lp2, _ = pi(s2)
        qn = torch.min(q1t(s2, a2), q2t(s2, a2))
        y = r + g * (1 - d) * (qn - al * lp2)

    lq = F.mse_loss(q1(s, a), y) + F.mse_loss(q2(s, a), y)
    o_q.zero_grad()
    lq.backward()
    o_q.step()

    an, lp, _ = pi(s)
    lpi = (al * lp - torch.min(q1(s, an), q2(s, an))).mean()
    o_pi.zero_grad()
    lpi.backward()
    o_pi.step()

    lal = -(log_al * (lp.detach() + H)).mean()
    o_al.zero_grad()
    lal.backward()
    o_al.step()

    with torch.no_grad():
        for net, tgt in ((q1, q1t), (q2, q2t)):
            for p, pt in zip(net.parameters(), tgt.parameters()):
                pt.mul_(1 - tau).add_(tau * p)
    return lq.item(), lpi.item(), al.item()


# %% test rollouts use the mean action and their own env
def test(k=3):
    out = []
    for i in range(k):
        x, _ = test_env.reset(seed=1000 + i)
        tot, fin = 0.0, False
        while not fin:
            with torch.no_grad():
                act = pi(torch.as_tensor(x, dtype=torch.float32)[None])[2][0].numpy()
            x, rr, te, tr, _ = test_env.step(act)
            tot += rr
            fin = te or tr
        out.append(tot)
    return np.mean(out)


# %% main loop
s, _ = env.reset(seed=seed)
ret, hist = 0.0, []
for t in range(N):
    if t < warm:
        a = env.action_space.sample()
    else:
        with torch.no_grad():
            a = pi(torch.as_tensor(s, dtype=torch.float32)[None])[0][0].numpy()
    s2, r, term, trunc, _ = env.step(a)
    put(s, a, r, s2, float(term))
    ret += r
    s = s2
    if term or trunc:
        hist.append(ret)
        ret = 0.0
        s, _ = env.reset()
    if t >= warm:
        stats = upd()
        if t % 2000 == 0:
            print(t, "test", round(test(), 1), "q/pi/alpha", stats)

# %%
print("last train returns", hist[-5:])
print("final test", test(5))
torch.save(pi.state_dict(), "/tmp/sac_pi.pt")
