# Evolution strategies with mirrored perturbations. Both mirror images meet the very same episodes (one seed for the pair),
# so that their difference is due to the weights alone. No gradient is ever taken, hence none is stopped or cleared.
import sys

import gymnasium as gym
import numpy as np


def act(theta, obs):
    return int(theta[:4] @ obs + theta[4] > 0)


def fitness(env, theta, seed):
    obs, _ = env.reset(seed=seed)
    score = 0.0
    over = False
    while not over:
        obs, r, terminated, truncated, _ = env.step(act(theta, obs))
        score += r
        over = terminated or truncated
    return score


def ranks(x):
    return x.argsort().argsort() / (len(x) - 1) - 0.5


def main(generations=30, pairs=16, sigma=0.3, lr=0.3):
    rng = np.random.default_rng(0)
    env = gym.make("CartPole-v1")
    theta = np.zeros(5)
    for g in range(generations):
        noise = rng.standard_normal((pairs, 5))
        seeds = rng.integers(0, 2**31 - 1, size=pairs)
        up = [fitness(env, theta + sigma * e, int(s)) for e, s in zip(noise, seeds)]
        down = [fitness(env, theta - sigma * e, int(s)) for e, s in zip(noise, seeds)]
        shaped = ranks(np.array(up + down))
        weight = shaped[:pairs] - shaped[pairs:]
        theta = theta + lr / (pairs * sigma) * weight @ noise
        if g % 10 == 9:
            print(g + 1, np.mean([fitness(env, theta, 10_000 + k) for k in range(10)]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
