"""A2C with a feature extractor of our own over stacked frames of a tiny picture game."""
import os

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback, EveryNTimesteps, BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecFrameStack
from torch import nn

TOTAL = int(os.environ.get("TOTAL", 200_000))


class Catch(gym.Env):
    """A ball falls; move the paddle under it."""

    def __init__(self, size=10):
        self.size = size
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(0.0, 1.0, (size * size,), np.float32)

    def _draw(self):
        picture = np.zeros((self.size, self.size), np.float32)
        picture[min(self.y, self.size - 1), self.x] = 1.0
        picture[-1, self.paddle] = 1.0
        return picture.reshape(-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.y, self.x = 0, int(self.np_random.integers(self.size))
        self.paddle = self.size // 2
        return self._draw(), {}

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + int(action) - 1, 0, self.size - 1))
        self.y += 1
        down = self.y == self.size - 1
        reward = (1.0 if self.x == self.paddle else -1.0) if down else 0.0
        return self._draw(), reward, down, False, {}


class Small(BaseFeaturesExtractor):
    def __init__(self, observation_space, features_dim=64):
        super().__init__(observation_space, features_dim)
        self.net = nn.Sequential(nn.Linear(observation_space.shape[0], 128), nn.ReLU(), nn.Linear(128, features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations)


class Say(BaseCallback):
    def _on_step(self) -> bool:
        print("steps so far", self.num_timesteps)
        return True


if __name__ == "__main__":
    venv = VecFrameStack(make_vec_env(Catch, n_envs=8, seed=1), n_stack=2)
    eval_venv = VecFrameStack(make_vec_env(Catch, n_envs=1, seed=1_001), n_stack=2)
    model = A2C(
        "MlpPolicy",
        venv,
        n_steps=10,
        learning_rate=7e-4,
        ent_coef=0.01,
        gamma=0.99,
        policy_kwargs={"features_extractor_class": Small, "features_extractor_kwargs": {"features_dim": 64}},
        seed=1,
        device="cpu",
    )
    callbacks = [EvalCallback(eval_venv, eval_freq=1_250, n_eval_episodes=20), EveryNTimesteps(50_000, Say())]
    model.learn(TOTAL, callback=callbacks)
    model.save("catch_a2c")
