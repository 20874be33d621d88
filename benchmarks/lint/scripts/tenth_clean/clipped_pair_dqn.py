# Two Q-networks for discrete actions, trained on one target: the smaller of the two slow ones at the first network's best action.
import random
import gymnasium as gym
import numpy as np
import torch
from torch import nn

keep = 0.995  # share of its old weights that a slow network keeps at each update
gamma = 0.98
rng = random.Random(0)
torch.manual_seed(0)
env = gym.make("Acrobot-v1")
nets = [nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)) for _ in range(2)]
slow = [nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)) for _ in range(2)]
for a, b in zip(nets, slow):
    b.load_state_dict(a.state_dict())
opt = torch.optim.Adam([p for net in nets for p in net.parameters()], lr=1e-3)
store, limit = [], 20_000

obs, _ = env.reset(seed=0)
score = 0.0
for step in range(40_000):
    if rng.random() < (1.0 if step < 1000 else 0.1):
        act = rng.randrange(3)
    else:
        with torch.no_grad():
            act = int(nets[0](torch.as_tensor(obs)).argmax())
    nxt, rew, term, trunc, _ = env.step(act)
    row = (obs, act, rew, nxt, float(not term))
    if len(store) < limit:
        store.append(row)
    else:
        store[step % limit] = row
    score += rew
    obs = nxt
    if term or trunc:
        print(step, score)
        score = 0.0
        obs, _ = env.reset()
    if step < 1000:
        continue
    o, a, r, o2, goes_on = (torch.as_tensor(np.array(x)) for x in zip(*rng.sample(store, 64)))
    with torch.no_grad():
        best = nets[0](o2).argmax(1, keepdim=True)
        least = torch.minimum(slow[0](o2).gather(1, best), slow[1](o2).gather(1, best)).squeeze(1)
        y = (r + gamma * goes_on * least).float()
    loss = sum(nn.functional.smooth_l1_loss(net(o).gather(1, a[:, None])[:, 0], y) for net in nets)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for net, copy in zip(nets, slow):
            for p, c in zip(net.parameters(), copy.parameters()):
                c.copy_(keep * c + (1 - keep) * p)
