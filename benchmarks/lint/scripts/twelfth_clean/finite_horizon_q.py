"""Q-learning with a finite horizon: one table for each number of steps that are left, and no discount.

Here running out of time is a true end. The time is part of the state, and behind the last step there is nothing, so the
table for zero steps left stays at zero and `truncated` needs no bootstrap.
"""
import gymnasium as gym
import numpy as np

HORIZON = 60
EPISODES = 6_000

env = gym.make("CliffWalking-v1", max_episode_steps=HORIZON)
rng = np.random.default_rng(3)
n_states, n_actions = env.observation_space.n, env.action_space.n
# q[h, s, a]: the best sum of rewards with h steps left
q = np.zeros((HORIZON + 1, n_states, n_actions))
counts = np.zeros_like(q)

totals = []
for episode in range(EPISODES):
    state, _ = env.reset(seed=3 if episode == 0 else None)
    epsilon = max(0.05, 1.0 - episode / 3_000)
    total = 0.0
    for left in range(HORIZON, 0, -1):
        if rng.random() < epsilon:
            action = int(rng.integers(n_actions))
        else:
            action = int(q[left, state].argmax())
        next_state, reward, terminated, truncated, _ = env.step(action)
        total += reward

        value = 0.0 if terminated else q[left - 1, next_state].max()
        counts[left, state, action] += 1
        step = max(0.05, 1.0 / counts[left, state, action])
        q[left, state, action] += step * (reward + value - q[left, state, action])

        # what was seen with one number of steps left holds for all the others just as well
        for other in range(max(1, left - 3), left):
            value = 0.0 if terminated else q[other - 1, next_state].max()
            q[other, state, action] += 0.1 * (reward + value - q[other, state, action])

        state = next_state
        if terminated or truncated:
            break
    totals.append(total)
    if (episode + 1) % 1_000 == 0:
        print(f"{episode + 1}: {np.mean(totals[-200:]):.1f}, start is worth {q[HORIZON, 36].max():.1f}")
