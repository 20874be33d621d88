import heapq
from collections import defaultdict

import gymnasium as gym
import numpy as np

# A learned deterministic model; what changed most is backed up first, then whatever leads there.
env = gym.make("Taxi-v4")
nA = env.action_space.n
Q = defaultdict(lambda: np.zeros(nA))
model, leads_to, queue, waiting = {}, defaultdict(set), [], {}
rng = np.random.default_rng(0)
THETA, GAMMA, PLANNED = 1e-3, 0.97, 20


def target(s, a):
    r, s1, ended = model[s, a]
    return r + (0.0 if ended else GAMMA * Q[s1].max())


def consider(s, a):
    gap = abs(target(s, a) - Q[s][a])
    if gap > max(THETA, waiting.get((s, a), 0.0)):
        waiting[s, a] = gap
        heapq.heappush(queue, (-gap, s, a))  # a heap gives the smallest first


s, _ = env.reset(seed=0)
score, scores = 0, []
for step in range(30_000):
    a = int(rng.integers(nA)) if rng.random() < 0.1 else int(Q[s].argmax())
    s1, r, terminated, truncated, _ = env.step(a)
    s, s1 = int(s), int(s1)
    model[s, a] = (r, s1, terminated)
    leads_to[s1].add((s, a))
    consider(s, a)
    for _ in range(PLANNED):
        if not queue:
            break
        _, ps, pa = heapq.heappop(queue)
        waiting.pop((ps, pa), None)
        Q[ps][pa] = target(ps, pa)  # the world is deterministic: a full backup, no step size
        for before in leads_to[ps]:
            consider(*before)
    score += r
    s = s1
    if terminated or truncated:
        scores.append(score)
        score = 0
        s, _ = env.reset()
print(len(scores), np.mean(scores[-20:]))
