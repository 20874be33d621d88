"""DQN with eight environments, each of which keeps an epsilon of its own for ever (as Ape-X does); the test is greedy, in another one."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn

N = 8
LADDER = 0.4 ** (1 + 7 * np.arange(N) / (N - 1))
rng = np.random.default_rng(0)
torch.manual_seed(0)
envs = [gym.make("CartPole-v1") for _ in range(N)]
test_env = gym.make("CartPole-v1")
q = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))
slow = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2))
slow.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=5e-4)
CAP = 40_000
mem = dict(o=np.zeros((CAP, 4), np.float32), a=np.zeros(CAP, np.int64), r=np.zeros(CAP, np.float32), p=np.zeros((CAP, 4), np.float32), g=np.zeros(CAP, np.float32))
obs = [env.reset(seed=k)[0] for k, env in enumerate(envs)]
written = 0


def test():
    o, _ = test_env.reset()
    for t in range(500):
        with torch.no_grad():
            o, _, end, late, _ = test_env.step(q(torch.as_tensor(o)).argmax().item())
        if end or late:
            return t + 1


test_env.reset(seed=99)
for t in range(4000):
    with torch.no_grad():
        greedy = q(torch.as_tensor(np.stack(obs))).argmax(1).numpy()
    acts = np.where(rng.random(N) < LADDER, rng.integers(2, size=N), greedy)
    for k, env in enumerate(envs):
        p, r, end, late, _ = env.step(int(acts[k]))
        i = written % CAP
        mem["o"][i], mem["a"][i], mem["r"][i], mem["p"][i], mem["g"][i] = obs[k], acts[k], r, p, 0.0 if end else 0.99
        written += 1
        obs[k] = env.reset()[0] if end or late else p
    if t < 100:
        continue
    pick = rng.integers(min(written, CAP), size=128)
    o, a, r, p, g = (torch.from_numpy(column[pick]) for column in mem.values())
    with torch.no_grad():
        y = r + g * slow(p).gather(1, q(p).argmax(1, True))[:, 0]
    loss = nn.functional.huber_loss(q(o).gather(1, a[:, None])[:, 0], y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if t % 200 == 0:
        slow.load_state_dict(q.state_dict())
    if t % 500 == 0:
        print(t, np.mean([test() for _ in range(3)]))
