"""A user's own environment as users write them: a plain gymnasium.Env of forty lines, stepped one by one, that nobody knows.

A greenhouse is to be kept at 22 degrees and 60 % humidity through a windy day. Heater and window are moved by one of five
choices, or by two levels from -1 to 1. Each step pays 1 minus the squared errors; plants that freeze or scorch end the day early.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

LIMIT = 120
CHOICES = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


class Greenhouse(gymnasium.Env[NDArray[np.float32], Any]):
    """State and observation: errors of temperature and humidity, heat in the pipes, opening of the window."""

    def __init__(self, continuous: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32) if continuous else spaces.Discrete(5)
        self._continuous = continuous
        self._state = np.zeros(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._state = np.concatenate([self.np_random.uniform(-1.0, 1.0, 2), self.np_random.uniform(-0.3, 0.3, 2)])
        return self._state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        push = np.clip(action, -1.0, 1.0) if self._continuous else CHOICES[action]
        warm, damp, heat, window = self._state
        # Pipes and window answer slowly, and each of them moves both errors; left alone, the errors grow.
        heat, window = 0.9 * heat + 0.15 * push[0], 0.9 * window + 0.15 * push[1]
        wind = self.np_random.normal(0.0, 0.02)
        warm = 1.03 * warm + 0.15 * heat - 0.08 * window + wind
        damp = 1.02 * damp - 0.05 * heat - 0.15 * window + wind
        self._state = np.array([warm, damp, heat, window])
        lost = bool(max(abs(warm), abs(damp)) > 2.5)
        reward = 1.0 - min(warm**2 + damp**2, 4.0) / 2 - (5.0 if lost else 0.0)
        return self._state.astype(np.float32), float(reward), lost, False, {}


def register() -> None:
    """Make `Greenhouse-v0` and `GreenhouseContinuous-v0` known to Gymnasium in this process."""
    for name, kwargs in (("Greenhouse-v0", {}), ("GreenhouseContinuous-v0", {"continuous": True})):
        if name not in gymnasium.registry:
            gymnasium.register(name, f"{__name__}:Greenhouse", max_episode_steps=LIMIT, kwargs=kwargs)
