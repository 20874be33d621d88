"""First-visit Monte Carlo control on Blackjack. No bootstrap, so an episode's end needs no mask."""
from collections import defaultdict

import gymnasium as gym
import numpy as np


def main(n_episodes=20_000, gamma=1.0, seed=0):
    env = gym.make("Blackjack-v1", sab=True)
    rng = np.random.default_rng(seed)
    value = defaultdict(lambda: np.zeros(env.action_space.n))
    visits = defaultdict(lambda: np.zeros(env.action_space.n))
    env.reset(seed=seed)
    for k in range(n_episodes):
        epsilon = 1.0 / (1.0 + k / 1000)
        obs, _ = env.reset()
        steps = []
        finished = False
        while not finished:
            greedy = int(np.argmax(value[obs]))
            action = greedy if rng.random() >= epsilon else int(rng.integers(env.action_space.n))
            following, reward, terminated, truncated, _ = env.step(action)
            steps.append((obs, action, reward))
            obs = following
            finished = terminated or truncated
        first = {}
        for t, (s, a, _) in enumerate(steps):
            first.setdefault((s, a), t)
        g = 0.0
        for t in range(len(steps) - 1, -1, -1):
            s, a, r = steps[t]
            g = r + gamma * g
            if first[s, a] == t:
                visits[s][a] += 1
                value[s][a] += (g - value[s][a]) / visits[s][a]
    return value


if __name__ == "__main__":
    learned = main()
    print("states seen:", len(learned))
    for hand in (12, 16, 18, 20):
        print(hand, "against 10:", "hit" if np.argmax(learned[hand, 10, 0]) else "stick")
