# Conservative Q-learning from a fixed data set: the environment is only played to make the data and to test.
import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
env = gym.make("CartPole-v1")


def data(n):
    rows, (o, _) = [], env.reset(seed=0)
    for _ in range(n):
        good = int(o[2] + 0.3 * o[3] > 0)
        a = good if rng.random() < 0.7 else int(rng.integers(2))
        o1, r, term, trunc, _ = env.step(a)
        rows.append((o, a, r, o1, float(term)))
        o = env.reset()[0] if term or trunc else o1
    return [torch.as_tensor(np.array(c)) for c in zip(*rows)]


def test(q, n=5):
    total = 0
    for k in range(n):
        o, _ = env.reset(seed=700 + k)
        over = False
        while not over:
            with torch.no_grad():
                a = q(torch.as_tensor(o)).argmax().item()
            o, r, term, trunc, _ = env.step(a)
            total += r
            over = term or trunc
    return total / n


O, A, R, O1, E = data(8000)
q, q_lag = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
q_lag.load_state_dict(q.state_dict())
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
for k in range(4000):
    i = torch.randint(len(A), (128,))
    values = q(O[i])
    taken = values[torch.arange(128), A[i]]
    with torch.no_grad():
        y = (R[i] + 0.98 * (1 - E[i]) * q_lag(O1[i]).max(1).values).float()
    # what the data never did must not look better than what it did
    conservative = (values.logsumexp(1) - taken).mean()
    loss = F.mse_loss(taken, y) + 0.5 * conservative
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(q_lag.parameters()), list(q.parameters()), 0.01)
    if k % 1000 == 999:
        print(k + 1, loss.item(), test(q))
