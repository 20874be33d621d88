# TD(0) and every-visit Monte Carlo on the five-state random walk. Nothing is controlled: there are no actions to choose.
import numpy as np

rng = np.random.default_rng(0)
N = 5
TRUE = np.arange(1, N + 1) / (N + 1)


def walk():
    s, path = N // 2, []
    while 0 <= s < N:
        path.append(s)
        s += rng.choice((-1, 1))
    return path, float(s == N)


td, mc = np.full(N, 0.5), np.full(N, 0.5)
for episode in range(400):
    path, outcome = walk()
    for t, s in enumerate(path):
        is_last = t + 1 == len(path)
        # the reward of a walk is its outcome, paid with its last step; undiscounted
        td[s] += 0.05 * ((outcome if is_last else td[path[t + 1]]) - td[s])
        mc[s] += 0.02 * (outcome - mc[s])
print("TD ", td.round(2), np.sqrt(np.mean((td - TRUE) ** 2)))
print("MC ", mc.round(2), np.sqrt(np.mean((mc - TRUE) ** 2)))
