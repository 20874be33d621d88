"""Off-policy Monte Carlo control with weighted importance sampling, for blackjack.

The behaviour is uniform for ever, so epsilon has no place here. Episodes are gone through from their end; as soon as the
greedy policy would have acted otherwise, everything before it is of no use, and the loop is left.
"""
from collections import defaultdict

import gymnasium as gym
import numpy as np


def main(episodes=200_000, seed=0):
    env = gym.make("Blackjack-v1", sab=True)
    rng = np.random.default_rng(seed)
    q = defaultdict(lambda: np.zeros(2))
    c = defaultdict(lambda: np.zeros(2))
    greedy = defaultdict(int)

    for episode in range(1, episodes + 1):
        obs, _ = env.reset(seed=seed if episode == 1 else None)
        path, over = [], False
        while not over:
            action = int(rng.integers(2))
            nxt, reward, terminated, truncated, _ = env.step(action)
            path.append((obs, action, reward))
            obs, over = nxt, terminated or truncated

        g, w = 0.0, 1.0
        for state, action, reward in reversed(path):
            g += reward  # no discount: a hand is short
            c[state][action] += w
            q[state][action] += w / c[state][action] * (g - q[state][action])
            greedy[state] = int(q[state].argmax())
            if action != greedy[state]:
                break
            w *= 1.0 / 0.5

        if episode % 50_000 == 0:
            print(f"{episode}: {evaluate(env, greedy):+.3f} per hand")


def evaluate(env, greedy, hands=5_000):
    total = 0.0
    for _ in range(hands):
        obs, _ = env.reset()
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(greedy[obs])
            total += reward
            over = terminated or truncated
    return total / hands


if __name__ == "__main__":
    main()
