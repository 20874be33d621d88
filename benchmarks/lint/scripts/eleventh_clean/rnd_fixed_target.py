"""Q-learning with a novelty bonus by random network distillation. The distilled network is random and stays so: it is never synced."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
env = gym.make("MountainCar-v0")
SCALE = torch.tensor([1.0, 0.07])


def net(n_out, width=64):
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, n_out))


q, q_slow = net(3, 128), net(3, 128)
q_slow.load_state_dict(q.state_dict())
puzzle, guess = net(16).requires_grad_(False), net(16)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
guess_opt = torch.optim.Adam(guess.parameters(), lr=1e-4)


def novelty(obs):
    x = obs / SCALE
    return (puzzle(x) - guess(x)).pow(2).mean(1)


rows = []
obs, _ = env.reset(seed=0)
best = -1.2
for t in range(20_000):
    with torch.no_grad():
        act = int(rng.integers(3)) if rng.random() < max(0.1, 1 - t / 5000) else q(torch.as_tensor(obs) / SCALE).argmax().item()
    nxt, r, term, trunc, _ = env.step(act)
    rows.append((obs, act, r, nxt, float(term)))
    best = max(best, float(nxt[0]))
    obs = env.reset()[0] if term or trunc else nxt
    if t < 500 or t % 2:
        continue
    o, a, r, o2, end = (torch.as_tensor(np.array(c), dtype=torch.float32) for c in zip(*(rows[i] for i in rng.integers(len(rows), size=64))))
    surprise = novelty(o2)
    guess_opt.zero_grad()
    surprise.mean().backward()
    guess_opt.step()
    with torch.no_grad():
        y = r + surprise + 0.99 * (1 - end) * q_slow(o2 / SCALE).amax(1)
    loss = nn.functional.smooth_l1_loss(q(o / SCALE).gather(1, a.long()[:, None]).squeeze(1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 500 == 0:
        q_slow.load_state_dict(q.state_dict())
    if t % 4000 == 0:
        print(t, "furthest", round(best, 2), "novelty", surprise.mean().item())
