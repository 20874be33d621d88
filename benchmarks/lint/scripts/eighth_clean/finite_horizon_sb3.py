"""A task whose last day is part of the task: sell a stock of seats before the plane leaves.

The time left is in the observation and nothing can be earned after departure, so the limit is a termination and not a truncation, and
returns are not discounted (gamma = 1).
"""
import sys

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

PRICES = (50.0, 80.0, 120.0, 200.0)
DAYS, SEATS = 30, 20


class Seats(gym.Env):
    def __init__(self):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(len(PRICES))

    def _look(self):
        return np.array([self.days / DAYS, self.seats / SEATS], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.days, self.seats = DAYS, SEATS
        return self._look(), {}

    def step(self, action):
        price = PRICES[int(action)]
        wanted = self.np_random.poisson(2.0 * np.exp(-price / 100.0))
        sold = min(int(wanted), self.seats)
        self.seats -= sold
        self.days -= 1
        departed = self.days == 0 or self.seats == 0
        return self._look(), price * sold / 100.0, departed, False, {}


def main(steps):
    model = PPO(
        "MlpPolicy",
        make_vec_env(Seats, n_envs=4, seed=3),
        n_steps=120,
        batch_size=120,
        gamma=1.0,
        gae_lambda=1.0,
        learning_rate=lambda left: 1e-3 * left,
        seed=3,
        device="cpu",
    )
    model.learn(steps)
    earned, _ = evaluate_policy(model, make_vec_env(Seats, n_envs=1, seed=333), n_eval_episodes=30)
    print(f"earned {100 * earned:.0f} a plane")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
