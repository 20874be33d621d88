"""A hedgehog crosses two roads. What is observed is a small picture: hedgehog, cars, the other side."""

from typing import Any

import gymnasium as gym
import numpy as np

SIZE = 9
ROADS = {1: 1, 2: -1, 3: 1, 5: -1, 6: 1, 7: -1}  # row: where its cars go
STEPS = {0: (0, 0), 1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}  # wait, up, down, left, right


class Crossing(gym.Env[Any, Any]):
    def __init__(self, density: float = 0.22, patience: int = 100) -> None:
        self.density, self.patience = density, patience
        self.observation_space = gym.spaces.Box(0, 255, (3, SIZE, SIZE), np.uint8)
        self.action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cars = np.zeros((SIZE, SIZE), bool)
        for row in ROADS:
            self.cars[row] = self.np_random.random(SIZE) < self.density
        self.row, self.col = SIZE - 1, int(self.np_random.integers(SIZE))
        self.age = 0
        return self.picture(), {}

    def picture(self) -> Any:
        img = np.zeros((3, SIZE, SIZE), np.uint8)
        img[0, self.row, self.col] = 255
        img[1][self.cars] = 255
        img[2, 0, :] = 255
        return img

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        down, right = STEPS[int(action)]
        before = self.row
        self.row = min(max(self.row + down, 0), SIZE - 1)
        self.col = min(max(self.col + right, 0), SIZE - 1)
        for row, way in ROADS.items():
            self.cars[row] = np.roll(self.cars[row], way)
        self.age += 1
        hit, over = bool(self.cars[self.row, self.col]), self.row == 0
        reward = 0.1 * (before - self.row) - 0.01
        if hit:
            reward -= 1.0
        elif over:
            reward += 1.0
        return self.picture(), reward, hit or over, self.age >= self.patience, {"is_success": over}


def make() -> Crossing:
    return Crossing()


def expert(obs: Any) -> int:
    """Go up if no car will be there; else stay, else step aside."""
    row, col = (int(place[0]) for place in np.nonzero(obs[0]))
    for action in (1, 0, 4, 3, 2):
        down, right = STEPS[action]
        r, c = min(max(row + down, 0), SIZE - 1), min(max(col + right, 0), SIZE - 1)
        if not obs[1, r, (c - ROADS.get(r, 0)) % SIZE]:
            return action
    return 1
