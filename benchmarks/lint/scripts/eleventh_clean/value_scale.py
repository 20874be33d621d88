# A2C on unscaled returns: the critic predicts standardized returns, and its output is scaled back where a value is needed.
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
env = gym.make("LunarLander-v3")
pi = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4))
v = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))
opt = torch.optim.Adam([*pi.parameters(), *v.parameters()], lr=2e-3)


class Scale:
    mean, square, share = 0.0, 1.0, 0.05

    def see(self, x):
        self.mean += self.share * (x.mean().item() - self.mean)
        self.square += self.share * (x.pow(2).mean().item() - self.square)

    @property
    def std(self):
        return max(self.square - self.mean**2, 1e-4) ** 0.5

    def down(self, x):
        return (x - self.mean) / self.std

    def up(self, x):
        return x * self.std + self.mean


scale, scores = Scale(), []
env.reset(seed=0)
for k in range(150):
    obs, _ = env.reset()
    O, A, R, over = [], [], [], False
    while not over:
        O.append(obs)
        with torch.no_grad():
            a = Categorical(logits=pi(torch.as_tensor(obs))).sample()
        A.append(a)
        obs, r, crashed_or_landed, late, _ = env.step(a.item())
        R.append(r)
        over = crashed_or_landed or late
    with torch.no_grad():
        g = 0.0 if crashed_or_landed else scale.up(v(torch.as_tensor(obs)[None])).item()
    G = np.empty(len(R), np.float32)
    for t in range(len(R) - 1, -1, -1):
        G[t] = g = R[t] + 0.99 * g
    O, A, G = torch.as_tensor(np.stack(O)), torch.stack(A), torch.as_tensor(G)
    scale.see(G)
    d, small = Categorical(logits=pi(O)), v(O)
    adv = (G - scale.up(small.detach())) / scale.std
    loss = -(d.log_prob(A) * adv).mean() + nn.functional.mse_loss(small, scale.down(G)) - 0.01 * d.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    scores.append(sum(R))
    if k % 25 == 24:
        print(k + 1, np.mean(scores[-25:]))
