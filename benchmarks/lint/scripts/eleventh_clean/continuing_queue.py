# A queue that never closes: Q-learning on one endless stream. There is no end, hence no mask, no reset and no episode.
import numpy as np

rng = np.random.default_rng(1)
LONGEST, SPEEDS, COST = 20, (0.2, 0.5, 0.8), (0.0, 0.3, 1.5)
GAMMA = 0.98
Q = np.zeros((LONGEST + 1, 3))
visits = np.zeros_like(Q)


def serve(length, speed):
    length += rng.random() < 0.45
    length -= length > 0 and rng.random() < SPEEDS[speed]
    length = min(length, LONGEST)
    return int(length), -0.1 * length - COST[speed]


length, paid = 0, 0.0
for t in range(150_000):
    speed = int(rng.integers(3)) if rng.random() < max(0.05, 1.0 - t / 50_000) else int(Q[length].argmax())
    following, reward = serve(length, speed)
    visits[length, speed] += 1
    step = 1.0 / visits[length, speed] ** 0.7
    Q[length, speed] += step * (reward + GAMMA * Q[following].max() - Q[length, speed])
    length = following
    paid += reward
    if (t + 1) % 50_000 == 0:
        print(t + 1, "mean reward", paid / 50_000)
        paid = 0.0
print("speed by length:", Q.argmax(1))
