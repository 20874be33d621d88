"""
Q-learning from scratch
=======================

The table has one row per square of the lake and one column per move.
"""
import sys

import gymnasium as gym
import numpy as np

total_episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
learning_rate = 0.1
gamma = 0.97

# exploration: almost everything is random in the beginning, almost nothing at the end
epsilon = 1.0
max_epsilon = 1.0
min_epsilon = 0.02
decay_rate = 8.0 / total_episodes

rng = np.random.default_rng(17)
env = gym.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
env.action_space.seed(17)

state_size = env.observation_space.n
action_size = env.action_space.n
qtable = np.zeros((state_size, action_size))


def choose(state, eps):
    if rng.random() < eps:
        return env.action_space.sample()
    # break ties at random, or the untouched rows would always go left
    best = np.flatnonzero(qtable[state] == qtable[state].max())
    return int(rng.choice(best))


def evaluate(table, episodes=200):
    test_env = gym.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    wins = 0.0
    for i in range(episodes):
        state, _ = test_env.reset(seed=1000 + i)
        while True:
            state, reward, terminated, truncated, _ = test_env.step(int(np.argmax(table[state])))
            if terminated or truncated:
                wins += reward
                break
    test_env.close()
    return wins / episodes


rewards = []
state, _ = env.reset(seed=17)
for episode in range(total_episodes):
    if episode > 0:
        state, _ = env.reset()
    total_rewards = 0

    while True:
        action = choose(state, epsilon)
        new_state, reward, terminated, truncated, info = env.step(action)

        # Q(s,a) := Q(s,a) + lr [r + gamma * max Q(s',a') - Q(s,a)], nothing follows a terminal state
        future = 0.0 if terminated else np.max(qtable[new_state, :])
        target = reward + gamma * future
        qtable[state, action] += learning_rate * (target - qtable[state, action])

        total_rewards += reward
        state = new_state
        if terminated or truncated:
            break

    # less and less exploration
    epsilon = min_epsilon + (max_epsilon - min_epsilon) * np.exp(-decay_rate * (episode + 1))
    rewards.append(total_rewards)

    if (episode + 1) % max(1, total_episodes // 8) == 0:
        print(f"episode {episode + 1}: success over the last 100 {np.mean(rewards[-100:]):.2f}, "
              f"epsilon {epsilon:.3f}")

print("Q-table:")
print(np.round(qtable, 3))
arrows = np.array(["<", "v", ">", "^"])
print(arrows[np.argmax(qtable, axis=1)].reshape(4, 4))
print("greedy success rate:", evaluate(qtable))
env.close()
