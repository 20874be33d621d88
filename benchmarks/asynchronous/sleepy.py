"""CartPole whose steps take a time drawn from a heavy tail; in a module of its own, so that other processes can import it."""

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv


class Sleepy(CartPoleEnv):
    """CartPole that takes its time, and now and then much more of it."""

    def __init__(self) -> None:
        super().__init__()
        self._pause = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._pause = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        time.sleep(min(4e-4 * (1.0 + self._pause.pareto(1.5)), 0.05))
        return super().step(action)  # type: ignore[no-untyped-call]


def make_sleepy() -> gym.Env[Any, Any]:
    """With CartPole's time limit."""
    return gym.wrappers.TimeLimit(Sleepy(), 500)
