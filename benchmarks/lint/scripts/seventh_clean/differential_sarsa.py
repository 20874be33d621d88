"""Average-reward (differential) semi-gradient SARSA on a queue that never ends. There is no discount and no terminal state on purpose."""
import os

import numpy as np

rng = np.random.default_rng(0)
N_SERVERS, PRIORITIES = 5, np.array([1.0, 2.0, 4.0, 8.0])
STEPS = int(os.environ.get("STEPS", 200_000))
ALPHA, BETA, EPSILON = 0.01, 0.001, 0.1

# weights[free servers, priority, reject/accept]
weights = np.zeros((N_SERVERS + 1, len(PRIORITIES), 2))
average_reward = 0.0


def decide(free, customer):
    if free == 0:
        return 0
    if rng.random() < EPSILON:
        return int(rng.integers(2))
    return int(weights[free, customer].argmax())


free, customer = N_SERVERS, int(rng.integers(len(PRIORITIES)))
action = decide(free, customer)
for step in range(STEPS):
    reward = PRIORITIES[customer] if action == 1 else 0.0
    next_free = free - action
    next_free += rng.binomial(N_SERVERS - next_free, 0.06)
    next_customer = int(rng.integers(len(PRIORITIES)))
    next_action = decide(next_free, next_customer)
    # differential return: reward above the average, plus what follows, undiscounted
    error = reward - average_reward + weights[next_free, next_customer, next_action] - weights[free, customer, action]
    average_reward += BETA * error
    weights[free, customer, action] += ALPHA * error
    free, customer, action = next_free, next_customer, next_action
    if (step + 1) % 20_000 == 0:
        print(step + 1, "average reward", round(average_reward, 3))

print("accept when free/priority:")
print(weights.argmax(axis=-1))
