import gymnasium as gym
import numpy as np

env = gym.make("FrozenLake-v1", is_slippery=True)
rng = np.random.default_rng(0)
Q = np.zeros((env.observation_space.n, env.action_space.n))
alpha, gamma = 0.1, 0.99
epsilon, decay, floor = 1.0, 0.9995, 0.05

for episode in range(20_000):
    s, _ = env.reset(seed=episode)
    while True:
        a = env.action_space.sample() if rng.random() < epsilon else int(np.argmax(Q[s]))
        s2, r, terminated, truncated, _ = env.step(a)
        target = r + gamma * np.max(Q[s2]) * (not terminated)
        Q[s, a] += alpha * (target - Q[s, a])
        s = s2
        if terminated or truncated:
            break
    epsilon = max(floor, epsilon * decay)

wins = 0
for _ in range(100):
    s, _ = env.reset()
    over = False
    while not over:
        s, r, terminated, truncated, _ = env.step(int(np.argmax(Q[s])))
        over = terminated or truncated
    wins += r
print(wins / 100)
