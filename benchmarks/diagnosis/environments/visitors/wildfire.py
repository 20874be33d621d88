"""wildfire: a helicopter against a cellular automaton

cells: 0 forest, 1 burning, 2 burnt.  dropping water happens automatically wherever the helicopter is.
"""

from typing import Any

import gymnasium as gym
import numpy as np

N = 7
FOREST, BURNING, BURNT = 0, 1, 2
MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])


class Wildfire(gym.Env[Any, Any]):
    def __init__(self, spread: float = 0.06, burn_out: float = 0.04, sparks: int = 2) -> None:
        self.spread, self.burn_out, self.sparks = spread, burn_out, sparks
        # channel 0: fire, channel 1: ash, channel 2: helicopter
        self.observation_space = gym.spaces.Box(0.0, 1.0, (3, N, N), np.float32)
        self.action_space = gym.spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        rng = self.np_random
        self.cells = np.zeros((N, N), int)
        for _ in range(self.sparks):
            self.cells[tuple(rng.integers(0, N, 2))] = BURNING
        self.pos = rng.integers(0, N, 2)
        self.images = [self._image()]
        return self.images[-1], {}

    def _image(self) -> Any:
        image = np.zeros((3, N, N), np.float32)
        image[0] = self.cells == BURNING
        image[1] = self.cells == BURNT
        image[2][tuple(self.pos)] = 1.0
        return image

    def _burn(self) -> None:
        fire = self.cells == BURNING
        near = np.zeros((N, N), int)
        near[1:] += fire[:-1]
        near[:-1] += fire[1:]
        near[:, 1:] += fire[:, :-1]
        near[:, :-1] += fire[:, 1:]
        dice = self.np_random.random((N, N))
        catches = (self.cells == FOREST) & (dice < 1.0 - (1.0 - self.spread) ** near)
        self.cells[fire & (dice < self.burn_out)] = BURNT
        self.cells[catches] = BURNING

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.pos = np.clip(self.pos + MOVES[int(action)], 0, N - 1)
        if self.cells[tuple(self.pos)] == BURNING:
            self.cells[tuple(self.pos)] = BURNT
        self._burn()
        burning = int((self.cells == BURNING).sum())
        reward = -burning / N
        self.images.append(self._image())
        return self.images[-1], reward, burning == 0, False, {"lost": int((self.cells != FOREST).sum())}


def make() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(Wildfire(), 100)


def expert(obs: Any) -> int:
    """To the nearest fire."""
    here = np.argwhere(obs[2] > 0.5)[0]
    fires = np.argwhere(obs[0] > 0.5)
    if not len(fires):
        return 0
    step = fires[np.abs(fires - here).sum(1).argmin()] - here
    if abs(step[0]) >= abs(step[1]):
        return (2 if step[0] > 0 else 1) if step[0] else 0
    return 4 if step[1] > 0 else 3
