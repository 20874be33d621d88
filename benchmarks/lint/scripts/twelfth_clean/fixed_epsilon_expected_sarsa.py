"""Expected SARSA for an epsilon-greedy walker that will always stumble.

Epsilon is a property of the walker and not a means of exploration: one step in ten goes astray for ever, in training, in
the target and in the test. What is learned is the best path for somebody who stumbles, so epsilon must not decay.
"""
import gymnasium as gym
import numpy as np

EPSILON = 0.1
ALPHA = 0.4
GAMMA = 1.0


def stumbling_policy(values):
    """Probabilities of the actions; ties share the greedy part."""
    n = len(values)
    best = np.isclose(values, values.max())
    return EPSILON / n + (1 - EPSILON) * best / best.sum()


def walk(env, q, rng, learn, seed=None):
    state, _ = env.reset(seed=seed)
    total = 0.0
    while True:
        action = int(rng.choice(q.shape[1], p=stumbling_policy(q[state])))
        next_state, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if learn:
            expected = 0.0 if terminated else stumbling_policy(q[next_state]) @ q[next_state]
            q[state, action] += ALPHA * (reward + GAMMA * expected - q[state, action])
        state = next_state
        if terminated or truncated:
            return total


def main(episodes=3_000):
    env = gym.make("CliffWalking-v1", max_episode_steps=500)
    rng = np.random.default_rng(1)
    q = np.zeros((env.observation_space.n, env.action_space.n))
    history = [walk(env, q, rng, learn=True, seed=1 if k == 0 else None) for k in range(episodes)]
    print("while learning:", np.mean(history[-300:]))
    print("afterwards    :", np.mean([walk(env, q, rng, learn=False) for _ in range(300)]))


if __name__ == "__main__":
    main()
