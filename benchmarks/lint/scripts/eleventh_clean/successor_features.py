# Successor representation on a grid: where one will be, learned by TD; any reward is then a dot product.
import numpy as np

SIZE, GAMMA, ALPHA = 5, 0.95, 0.1
rng = np.random.default_rng(0)
n = SIZE * SIZE
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
M = np.zeros((4, n, n))  # M[a, s, s']: discounted visits to s' after taking a in s


def step(s, a):
    rc = np.clip(np.divmod(s, SIZE) + MOVES[a], 0, SIZE - 1)
    return int(rc[0] * SIZE + rc[1])


def learn(reward, episodes):
    for _ in range(episodes):
        s = int(rng.integers(n))
        for _ in range(40):
            values = M[:, s] @ reward
            a = int(rng.integers(4)) if rng.random() < 0.3 else int(rng.choice(np.flatnonzero(values == values.max())))
            s1 = step(s, a)
            arrived = reward[s1] > 0
            a1 = int(np.argmax(M[:, s1] @ reward))
            here = np.eye(n)[s1]
            goal = here if arrived else here + GAMMA * M[a1, s1]
            M[a, s] += ALPHA * (goal - M[a, s])
            s = s1
            if arrived:
                break


for goal_cell in (24, 4):
    reward = np.zeros(n)
    reward[goal_cell] = 1.0
    learn(reward, 1500)
    s, path = 0, [0]
    while s != goal_cell and len(path) < 20:
        s = step(s, int(np.argmax(M[:, s] @ reward)))
        path.append(s)
    print("to", goal_cell, path)
