"""Environments that do not come back from a step, in ways that Python notices and in ways that it does not."""

import time
from typing import Any

import gymnasium as gym
import numpy as np


class Hangs(gym.Env[Any, Any]):
    """Hangs in step `at`: asleep for good, or going round."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, at: int = 300, how: str = "asleep") -> None:
        self._at, self._how, self._taken = at, how, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self._taken += 1
        while self._taken == self._at:
            if self._how == "asleep":
                time.sleep(1_000)
        return np.zeros(2, np.float32), 1.0, self._taken % 20 == 0, False, {}
