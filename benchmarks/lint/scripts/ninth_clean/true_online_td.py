"""True online TD(lambda) (van Seijen et al. 2016) with tile features: dutch traces, and the old value is kept over the step."""

import numpy as np

rng = np.random.default_rng(3)
STATES, GAMMA, LAM, ALPHA = 19, 1.0, 0.8, 0.3  # a random walk: it ends for sure, so nothing needs a discount


def features(state):
    """One-hot; a terminal state has no feature, hence the value zero without any mask."""
    x = np.zeros(STATES)
    if 0 <= state < STATES:
        x[state] = 1.0
    return x


truth = np.arange(-STATES + 1, STATES, 2) / (STATES + 1)
weights = np.zeros(STATES)
for episode in range(200):
    state = STATES // 2
    x = features(state)
    trace = np.zeros(STATES)
    old_value = 0.0
    while 0 <= state < STATES:
        state += 1 if rng.random() < 0.5 else -1
        reward = 1.0 if state == STATES else -1.0 if state < 0 else 0.0
        x_next = features(state)
        value, next_value = weights @ x, weights @ x_next
        error = reward + GAMMA * next_value - value
        trace = GAMMA * LAM * trace + (1 - ALPHA * GAMMA * LAM * (trace @ x)) * x
        weights += ALPHA * (error + value - old_value) * trace - ALPHA * (value - old_value) * x
        old_value, x = next_value, x_next
    ALPHA = max(0.02, 0.99 * ALPHA)
print("root mean squared error", np.sqrt(np.mean((weights - truth) ** 2)))
