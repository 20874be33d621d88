"""OpenAI-style evolution strategies: 'rewards' are whole-episode returns, ranked; there is no critic, no gradient of a network and no discount."""
import os

import gymnasium as gym
import numpy as np

rng = np.random.default_rng(7)
SIGMA, LR, POPULATION = 0.1, 0.05, 16
GENERATIONS = int(os.environ.get("GENERATIONS", 100))
SHAPES = [(4, 16), (16,), (16, 2), (2,)]
SIZE = sum(int(np.prod(s)) for s in SHAPES)
env = gym.make("CartPole-v1")


def act(theta, obs):
    parts, at = [], 0
    for shape in SHAPES:
        n = int(np.prod(shape))
        parts.append(theta[at : at + n].reshape(shape))
        at += n
    w1, b1, w2, b2 = parts
    return int(np.argmax(np.tanh(obs @ w1 + b1) @ w2 + b2))


def fitness(theta, seed):
    obs, _ = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(act(theta, obs))
        total += reward
        done = terminated or truncated
    return total


theta = 0.1 * rng.standard_normal(SIZE)
for generation in range(GENERATIONS):
    noise = rng.standard_normal((POPULATION, SIZE))
    seed = int(rng.integers(1_000_000))  # common random numbers: every candidate meets the same start
    up = np.array([fitness(theta + SIGMA * e, seed) for e in noise])
    down = np.array([fitness(theta - SIGMA * e, seed) for e in noise])
    both = np.concatenate([up, down])
    ranks = both.argsort().argsort() / (len(both) - 1) - 0.5
    gradient = ((ranks[:POPULATION] - ranks[POPULATION:])[:, None] * noise).mean(axis=0) / SIGMA
    theta += LR * gradient  # uphill
    if generation % 5 == 0:
        print(generation, both.mean(), both.max())
