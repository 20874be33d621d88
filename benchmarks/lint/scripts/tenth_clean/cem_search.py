# Cross-entropy method over the weights of a linear policy. No gradients, no values, no discount: a policy's score is its whole return.
import gymnasium as gym
import numpy as np

rng = np.random.default_rng(0)
env = gym.make("CartPole-v1", max_episode_steps=300)
mean, std = np.zeros(5), np.ones(5)
POPULATION, ELITE, ROUNDS = 40, 8, 12


def score(w, seed):
    obs, _ = env.reset(seed=seed)
    total = 0.0
    while True:
        obs, reward, terminated, truncated, _ = env.step(int(obs @ w[:4] + w[4] > 0))
        total += reward
        if terminated or truncated:
            return total


for generation in range(ROUNDS):
    candidates = mean + std * rng.standard_normal((POPULATION, 5))
    # all candidates meet the same three starts: the differences are the policies' own
    scores = np.array([np.mean([score(w, 3 * generation + k) for k in range(3)]) for w in candidates])
    elite = candidates[np.argsort(scores)[-ELITE:]]
    mean = elite.mean(axis=0)
    std = elite.std(axis=0) + 0.1 * 0.8**generation
    print(generation, scores.mean(), scores.max())
print("fresh starts:", np.mean([score(mean, 10_000 + k) for k in range(10)]))
