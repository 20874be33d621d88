# Double Q-learning with two tables and a coin. Which table is trained, and which values, changes at every step.
import gymnasium as gym
import numpy as np

env = gym.make("Taxi-v4")
rng = np.random.default_rng(0)
tables = np.zeros((2, env.observation_space.n, env.action_space.n))
ALPHA, GAMMA, EPS = 0.4, 0.95, 0.1  # epsilon is constant; the optimistic zeros explore the rest

s, _ = env.reset(seed=0)
ret, history = 0.0, []
for step in range(200_000):
    if rng.random() < EPS:
        a = rng.integers(6)
    else:
        a = tables[:, s].sum(axis=0).argmax()
    s1, r, delivered, out_of_time, _ = env.step(int(a))
    me, other = rng.permutation(2)
    y = r
    if not delivered:
        y += GAMMA * tables[other, s1, tables[me, s1].argmax()]
    tables[me, s, a] = (1 - ALPHA) * tables[me, s, a] + ALPHA * y
    ret += r
    s = s1
    if delivered or out_of_time:
        history.append(ret)
        ret, (s, _) = 0.0, env.reset()
print(len(history), "episodes, the last 50:", np.mean(history[-50:]))
