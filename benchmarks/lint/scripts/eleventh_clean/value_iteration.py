"""Value iteration on the model of FrozenLake, then a check of the policy by playing it. Nothing is sampled while planning."""
import gymnasium as gym
import numpy as np

env = gym.make("FrozenLake-v1", map_name="8x8", max_episode_steps=300)
model = env.unwrapped.P
nS, nA = env.observation_space.n, env.action_space.n
gamma, V = 0.999, np.zeros(nS)


def backup(s, a):
    return sum(p * (r + gamma * V[s1] * (not end)) for p, s1, r, end in model[s][a])


for sweep in range(10_000):
    change = 0.0
    for s in range(nS):
        best = max(backup(s, a) for a in range(nA))
        change = max(change, abs(best - V[s]))
        V[s] = best
    if change < 1e-7:
        break

policy = [int(np.argmax([backup(s, a) for a in range(nA)])) for s in range(nS)]
wins = 0
for k in range(200):
    s, _ = env.reset(seed=k)
    while True:
        s, r, end, late, _ = env.step(policy[s])
        if end or late:
            wins += r
            break
print("sweeps", sweep, "start", round(V[0], 3), "won", wins / 200)
