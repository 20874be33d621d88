"""n-step tree backup: the return branches over all actions at each step, so no importance ratios are needed."""
import gymnasium as gym
import numpy as np

n, alpha, gamma = 4, 0.2, 0.95
env = gym.make("FrozenLake-v1", map_name="4x4", is_slippery=False)
rng = np.random.default_rng(5)
Q = rng.uniform(0, 1e-3, (16, 4))
Q[[5, 7, 11, 12, 15]] = 0.0  # holes and goal


def greedy(s):
    p = np.zeros(4)
    p[Q[s].argmax()] = 1.0
    return p


def update(window, tail_state):
    """window: (s, a, r) rows, oldest first; tail_state is where its last step led, None after an end."""
    s, a, r = window[-1]
    g = r if tail_state is None else r + gamma * greedy(tail_state) @ Q[tail_state]
    for k in range(len(window) - 2, -1, -1):
        s1, a1, _ = window[k + 1]
        p = greedy(s1)
        expected = p @ Q[s1] - p[a1] * Q[s1, a1]
        g = window[k][2] + gamma * (expected + p[a1] * g)
    s, a, _ = window[0]
    Q[s, a] += alpha * (g - Q[s, a])


for episode in range(2000):
    s, _ = env.reset()
    window, over = [], False
    eps = max(0.2, 1 - episode / 500)
    while not over:
        a = rng.integers(4) if rng.random() < eps else Q[s].argmax()
        s1, r, end, late, _ = env.step(int(a))
        window.append((s, a, r))
        over = end or late
        if len(window) == n:
            update(window, None if end else s1)
            window.pop(0)
        s = s1
    while window:
        update(window, None if end else s1)
        window.pop(0)
print(Q.max(1).reshape(4, 4).round(2))
