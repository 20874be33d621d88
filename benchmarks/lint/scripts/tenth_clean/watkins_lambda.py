# Watkins' Q(lambda) with replacing traces. Traces are cut where the action was not greedy.
import gymnasium as gym
import numpy as np

env = gym.make("FrozenLake-v1", map_name="8x8", is_slippery=False)
rng = np.random.default_rng(3)
Q = rng.normal(scale=1e-3, size=(env.observation_space.n, env.action_space.n))
LR, DISCOUNT, LAMBDA = 0.2, 0.97, 0.9
env.reset(seed=3)

for episode in range(1500):
    explore = max(0.1, 1.0 - episode / 800)
    trace = np.zeros_like(Q)
    s, _ = env.reset()
    a = rng.integers(env.action_space.n) if rng.random() < explore else Q[s].argmax()
    alive = True
    while alive:
        s_, r, hole_or_goal, timeout, _ = env.step(int(a))
        best = Q[s_].argmax()
        a_ = rng.integers(env.action_space.n) if rng.random() < explore else best
        bootstrap = 0.0 if hole_or_goal else DISCOUNT * Q[s_, best]
        td = r + bootstrap - Q[s, a]
        trace[s] = 0.0
        trace[s, a] = 1.0
        Q += LR * td * trace
        # what was done next is only credited to the past as long as it was greedy
        trace = trace * (DISCOUNT * LAMBDA) if a_ == best else np.zeros_like(Q)
        s, a = s_, a_
        alive = not (hole_or_goal or timeout)

s, _ = env.reset(seed=0)
path = [int(s)]
for _ in range(30):
    s, r, hole_or_goal, _, _ = env.step(int(Q[s].argmax()))
    path.append(int(s))
    if hole_or_goal:
        break
print("greedy path", path, "reward", r)
