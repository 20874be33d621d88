"""Double DQN with one module and two sets of weights: the target's are a dictionary given to functional_call."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.func import functional_call

rng = np.random.default_rng(0)
env = gym.make("MountainCar-v0", max_episode_steps=200)
module = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
frozen = {name: weight.detach().clone() for name, weight in module.named_parameters()}
optimizer = torch.optim.SGD(module.parameters(), lr=1e-2, momentum=0.9)

SIZE = 5_000
S, S2 = np.zeros((SIZE, 2), np.float32), np.zeros((SIZE, 2), np.float32)
A, R, GOES_ON = np.zeros(SIZE, np.int64), np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)

s, _ = env.reset(seed=0)
for t in range(700):
    greedy = int(module(torch.from_numpy(s)).argmax())
    a = greedy if rng.random() > 0.2 else int(rng.integers(3))  # greedy four times in five
    s2, r, terminated, truncated, _ = env.step(a)
    row = t % SIZE
    S[row], A[row], R[row], S2[row], GOES_ON[row] = s, a, r, s2, not terminated
    s = s2
    if terminated or truncated:
        s = env.reset()[0]
    if t < 64:
        continue

    rows = rng.integers(0, min(t + 1, SIZE), 64)
    state, after = torch.from_numpy(S[rows]), torch.from_numpy(S2[rows])
    action = torch.from_numpy(A[rows])[:, None]
    best = module(after).argmax(1, keepdim=True)  # an index has no gradient
    value = functional_call(module, frozen, (after,)).gather(1, best)[:, 0]
    goal = torch.from_numpy(R[rows]) + 0.99 * torch.from_numpy(GOES_ON[rows]) * value  # frozen weights: nothing to detach
    loss = (module(state).gather(1, action)[:, 0] - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            frozen[name].lerp_(weight, 0.01)
print("last loss", loss.item())
