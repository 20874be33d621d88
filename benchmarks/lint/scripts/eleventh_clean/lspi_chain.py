# Least-squares policy iteration on a chain of 20 states. One batch of random steps, solved anew until the policy stays.
import numpy as np

S, GAMMA = 20, 0.9
rng = np.random.default_rng(0)


def move(s, a):
    wanted = s + (1 if a else -1)
    slipped = s - (1 if a else -1)
    s1 = int(np.clip(wanted if rng.random() < 0.9 else slipped, 0, S - 1))
    return s1, float(s1 in (0, S - 1))


def phi(s, a):
    x = np.zeros(2 * S)
    x[a * S + s] = 1.0
    return x


batch, s = [], S // 2
for _ in range(5000):  # the chain has no end: it is one long life
    a = int(rng.integers(2))
    s1, r = move(s, a)
    batch.append((s, a, r, s1))
    s = s1

w = np.zeros(2 * S)
for iteration in range(20):
    A, b = 1e-3 * np.eye(2 * S), np.zeros(2 * S)
    for s, a, r, s1 in batch:
        best = int(np.argmax([w @ phi(s1, c) for c in (0, 1)]))
        x = phi(s, a)
        A += np.outer(x, x - GAMMA * phi(s1, best))
        b += r * x
    new = np.linalg.solve(A, b)
    moved = np.abs(new - w).max()
    w = new
    if moved < 1e-6:
        break
print(iteration, "policy", (w[S:] > w[:S]).astype(int))
