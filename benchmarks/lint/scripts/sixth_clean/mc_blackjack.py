"""First-visit Monte Carlo control for Blackjack with tables in dictionaries."""
import argparse
from collections import defaultdict

import gymnasium as gym
import numpy as np


def make_policy(q, n_actions, rng):
    def policy(state, eps):
        if rng.random() < eps:
            return int(rng.integers(n_actions))
        return int(np.argmax(q[state]))

    return policy


def run_episode(env, policy, eps):
    steps = []
    state, _ = env.reset()
    while True:
        action = policy(state, eps)
        nxt, reward, terminated, truncated, _ = env.step(action)
        steps.append((state, action, float(reward)))
        if terminated or truncated:
            return steps
        state = nxt


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--episodes", type=int, default=200_000)
    ap.add_argument("--gamma", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()

    env = gym.make("Blackjack-v1", sab=True)
    env.reset(seed=a.seed)
    rng = np.random.default_rng(a.seed)
    n_actions = int(env.action_space.n)
    q = defaultdict(lambda: np.zeros(n_actions))
    visits = defaultdict(lambda: np.zeros(n_actions))
    policy = make_policy(q, n_actions, rng)

    for k in range(a.episodes):
        eps = max(0.05, 1.0 - k / (0.5 * a.episodes))
        steps = run_episode(env, policy, eps)
        first = {}
        for i, (s, act, _) in enumerate(steps):
            first.setdefault((s, act), i)
        g = 0.0
        for i in range(len(steps) - 1, -1, -1):
            s, act, r = steps[i]
            g = r + a.gamma * g
            if first[(s, act)] == i:
                visits[s][act] += 1
                q[s][act] += (g - q[s][act]) / visits[s][act]
    env.close()

    test = gym.make("Blackjack-v1", sab=True)
    test.reset(seed=a.seed + 1)
    outcomes = [sum(r for _, _, r in run_episode(test, policy, 0.0)) for _ in range(1_000)]
    print(f"mean outcome {np.mean(outcomes):.3f}, states seen {len(q)}")


if __name__ == "__main__":
    main()
