import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env


class GoLeft(gym.Env):
    """Walk to the left end of a corridor."""

    def __init__(self, size=12, limit=60):
        super().__init__()
        self.size, self.limit = size, limit
        self.observation_space = spaces.Box(low=0.0, high=1.0, shape=(1,), dtype=np.float32)
        self.action_space = spaces.Discrete(2)

    def _observe(self):
        return np.array([self.position / self.size], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = int(self.np_random.integers(self.size // 2, self.size))
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.position = int(np.clip(self.position + (1 if action == 1 else -1), 0, self.size))
        self.steps += 1
        terminated = self.position == 0
        truncated = self.steps >= self.limit
        reward = 1.0 if terminated else -0.01
        return self._observe(), reward, terminated, truncated, {}


if __name__ == "__main__":
    check_env(GoLeft())
    venv = make_vec_env(GoLeft, n_envs=4, seed=0)
    model = A2C("MlpPolicy", venv, n_steps=8, seed=0)
    model.learn(50_000)
    obs = venv.reset()
    for _ in range(100):
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, info = venv.step(action)
