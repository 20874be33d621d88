"""Tabular control on the cliff: SARSA, expected SARSA and Q-learning side by side."""
import os

import gymnasium as gym
import numpy as np

EPISODES = int(os.environ.get("EPISODES", 500))
ALPHA = 0.5
GAMMA = 0.95
EPS_START, EPS_MIN, EPS_DECAY = 1.0, 0.05, 0.98
MAX_STEPS = 200


def eps_greedy(Q, s, eps, rng):
    if rng.random() < eps:
        return int(rng.integers(Q.shape[1]))
    return int(rng.choice(np.flatnonzero(Q[s] == Q[s].max())))


def action_probs(Q, s, eps):
    n = Q.shape[1]
    probs = np.full(n, eps / n)
    probs[np.argmax(Q[s])] += 1.0 - eps
    return probs


def sarsa(env, episodes, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.zeros((env.observation_space.n, env.action_space.n))
    eps = EPS_START
    rewards = []
    for ep in range(episodes):
        s, _ = env.reset(seed=seed if ep == 0 else None)
        a = eps_greedy(Q, s, eps, rng)
        total = 0.0
        while True:
            s_next, r, terminated, truncated, _ = env.step(a)
            a_next = eps_greedy(Q, s_next, eps, rng)
            target = r + GAMMA * Q[s_next, a_next] * (not terminated)
            Q[s, a] += ALPHA * (target - Q[s, a])
            s, a = s_next, a_next
            total += r
            if terminated or truncated:
                break
        eps = max(EPS_MIN, eps * EPS_DECAY)
        rewards.append(total)
    return Q, rewards


def q_learning(env, episodes, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.zeros((env.observation_space.n, env.action_space.n))
    eps = EPS_START
    rewards = []
    for ep in range(episodes):
        s, _ = env.reset(seed=seed if ep == 0 else None)
        total, done = 0.0, False
        while not done:
            a = eps_greedy(Q, s, eps, rng)
            s_next, r, terminated, truncated, _ = env.step(a)
            best_next = 0.0 if terminated else Q[s_next].max()
            Q[s, a] = Q[s, a] + ALPHA * (r + GAMMA * best_next - Q[s, a])
            s = s_next
            total += r
            done = terminated or truncated
        eps = max(EPS_MIN, eps * EPS_DECAY)
        rewards.append(total)
    return Q, rewards


def expected_sarsa(env, episodes, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.zeros((env.observation_space.n, env.action_space.n))
    eps = EPS_START
    rewards = []
    for ep in range(episodes):
        s, _ = env.reset(seed=seed if ep == 0 else None)
        total, done = 0.0, False
        while not done:
            a = eps_greedy(Q, s, eps, rng)
            s_next, r, terminated, truncated, _ = env.step(a)
            expected = np.dot(action_probs(Q, s_next, eps), Q[s_next])
            td_error = r + (0.0 if terminated else GAMMA * expected) - Q[s, a]
            Q[s, a] += ALPHA * td_error
            s = s_next
            total += r
            done = terminated or truncated
        eps = max(EPS_MIN, eps * EPS_DECAY)
        rewards.append(total)
    return Q, rewards


def evaluate(Q, episodes=5):
    env = gym.make("CliffWalking-v1", max_episode_steps=MAX_STEPS)
    scores = []
    for ep in range(episodes):
        s, _ = env.reset(seed=100 + ep)
        score, done = 0.0, False
        while not done:
            s, r, terminated, truncated, _ = env.step(int(np.argmax(Q[s])))
            score += r
            done = terminated or truncated
        scores.append(score)
    env.close()
    return np.mean(scores)


def main():
    env = gym.make("CliffWalking-v1", max_episode_steps=MAX_STEPS)
    for name, method in (("sarsa", sarsa), ("q-learning", q_learning), ("expected sarsa", expected_sarsa)):
        Q, rewards = method(env, EPISODES)
        print(f"{name:15s} last 50 episodes {np.mean(rewards[-50:]):8.1f}   greedy {evaluate(Q):8.1f}")
    env.close()


if __name__ == "__main__":
    main()
