"""TD(lambda) with eligibility traces and linear features, prediction then control by one-step lookahead in a random walk with known dynamics."""
import os

import numpy as np

rng = np.random.default_rng(5)
N = 101
CENTRES = np.linspace(0, 1, 21)


def features(s):
    x = np.exp(-0.5 * ((s / (N - 1) - CENTRES) / 0.05) ** 2)
    return x / x.sum()


def is_end(s):
    return s in (0, N - 1)


def reward_of(s):
    return 1.0 if s == N - 1 else 0.0


def value(w, s):
    return 0.0 if is_end(s) else float(w @ features(s))


w = np.zeros(len(CENTRES))
gamma, lam, alpha = 1.0, 0.8, 0.05
for episode in range(int(os.environ.get("EPISODES", 1500))):
    s = N // 2
    z = np.zeros_like(w)
    while not is_end(s):
        # greedy with a little noise, looking one step ahead through the model
        left, right = max(0, s - int(rng.integers(1, 6))), min(N - 1, s + int(rng.integers(1, 6)))
        better = right if reward_of(right) + gamma * value(w, right) >= reward_of(left) + gamma * value(w, left) else left
        s2 = better if rng.random() > 0.3 else (left if rng.random() < 0.5 else right)
        z = gamma * lam * z + features(s)
        delta = reward_of(s2) + gamma * value(w, s2) - value(w, s)
        w += alpha * delta * z
        s = s2
print("V:", np.round([value(w, s) for s in range(1, N - 1, 10)], 2))
