"""Assignment 2: tabular Q-learning on Taxi."""
import gymnasium as gym
import numpy as np


def epsilon_at(episode, start=1.0, end=0.05, decay=0.995):
    return max(end, start * decay**episode)


def act(q, state, eps, rng):
    if rng.random() < eps:
        return int(rng.integers(q.shape[1]))
    return int(np.argmax(q[state]))


def q_learning(env, n_episodes=3000, lr=0.1, gamma=0.99, seed=0):
    rng = np.random.default_rng(seed)
    q = np.zeros((env.observation_space.n, env.action_space.n))
    returns = np.zeros(n_episodes)
    for k in range(n_episodes):
        state, _ = env.reset(seed=seed + k)
        eps = epsilon_at(k)
        over = False
        while not over:
            action = act(q, state, eps, rng)
            nxt, reward, terminated, truncated, _ = env.step(action)
            target = reward
            if not terminated:
                target = reward + gamma * np.max(q[nxt])
            q[state, action] += lr * (target - q[state, action])
            returns[k] += reward
            state = nxt
            over = terminated or truncated
    return q, returns


def evaluate(env, q, n=50):
    scores = []
    for k in range(n):
        state, _ = env.reset(seed=10_000 + k)
        score, over = 0.0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(np.argmax(q[state])))
            score += reward
            over = terminated or truncated
        scores.append(score)
    return np.mean(scores)


if __name__ == "__main__":
    env = gym.make("Taxi-v4")
    q, returns = q_learning(env)
    print(evaluate(env, q))
