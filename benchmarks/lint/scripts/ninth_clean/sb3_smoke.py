"""A smoke test: does our environment go through DQN and SAC at all? The sizes are those of the tiny budget, and nothing is learnt."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.env_checker import check_env

STEPS = 120


class Corridor(gym.Env):
    """Walk to the right end. The end is terminal; `TimeLimit` outside cuts long episodes off."""

    def __init__(self, continuous=False, length=6):
        self.length = length
        self.continuous = continuous
        self.action_space = gym.spaces.Box(-1, 1, (1,)) if continuous else gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(0, 1, (1,))
        self.place = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        move = float(action[0]) if self.continuous else 2.0 * action - 1.0
        self.place = float(np.clip(self.place + move, 0, self.length))
        arrived = self.place >= self.length
        return np.array([self.place / self.length], np.float32), float(arrived), arrived, False, {}


def test_it_runs():
    for algorithm, continuous in ((DQN, False), (SAC, True)):
        check_env(Corridor(continuous))
        env = gym.wrappers.TimeLimit(Corridor(continuous), 40)
        # as large as the budget: every transition is kept
        model = algorithm("MlpPolicy", env, buffer_size=STEPS, learning_starts=STEPS // 4, batch_size=16, seed=0)
        model.learn(STEPS)
        assert model.num_timesteps == STEPS
        assert model._n_updates > 0


if __name__ == "__main__":
    test_it_runs()
