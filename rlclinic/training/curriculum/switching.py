"""One Gymnasium environment that is another version of the task in every episode."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rlclinic.training.envs import making

LEVEL_SEED = 20_000
"""Level k is reset(seed=20_000 + k), whatever the run's seed is."""


class Switching(gym.Env[Any, Any]):
    """Makes a version when it is first played, and hands everything on to the one that is played now."""

    def __init__(
        self,
        first: gym.Env[Any, Any],
        make: Callable[[int], gym.Env[Any, Any]],
        version_of: list[int],
        levels: list[int] | None,
        draw: Callable[[float], int],
    ) -> None:
        """first: the last version, which is the task itself. draw: the next task, of a number in (0, 1)."""
        self._make, self._version_of, self._levels, self._draw = make, version_of, levels, draw
        self._made = {version_of[-1]: first}
        self._env = first
        self.observation_space, self.action_space = first.observation_space, first.action_space
        self.metadata, self.render_mode, self.spec = first.metadata, first.render_mode, first.spec
        self._random = np.random.default_rng(0)
        self._seeded: set[int] = set()
        self.task = len(version_of) - 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._random, self._seeded = np.random.default_rng(seed), set()
        self.task = self._draw(float(self._random.random()))
        version = self._version_of[self.task]
        if version not in self._made:
            self._made[version] = self._make(version)
        self._env = self._made[version]
        own = None
        if self._levels is not None:
            own = LEVEL_SEED + self._levels[self.task]
        elif version not in self._seeded:
            # Only the first time: Gymnasium's environments go on drawing from their own generator.
            own = int(self._random.integers(2**31))
            self._seeded.add(version)
        return self._env.reset(seed=own, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self._env.step(action)

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        for env in self._made.values():
            making.close(env)
