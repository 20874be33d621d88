"""Apples fall, a basket catches them. The screen is eight by eight; three apples on the ground and the game is over."""

from typing import Any

import gymnasium as gym
import numpy as np

SIDE = 8


class Orchard(gym.Env[Any, Any]):
    def __init__(self, chance: float = 0.22, fall: int = 1, max_steps: int = 200) -> None:
        self.chance, self.fall, self.max_steps = chance, fall, max_steps
        # planes: apples, basket
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2, SIDE, SIDE), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.dropped = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.basket = int(self.np_random.integers(SIDE))
        self.apples: list[list[int]] = [[0, int(self.np_random.integers(SIDE))]]
        self.dropped = 0
        self.caught = 0
        self.steps = 0
        self.wait = 0
        return self.screen(), {}

    def screen(self) -> Any:
        planes = np.zeros((2, SIDE, SIDE), np.float32)
        for row, col in self.apples:
            planes[0, row, col] = 1.0
        planes[1, SIDE - 1, self.basket] = 1.0
        return planes

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.basket = int(np.clip(self.basket + int(action) - 1, 0, SIDE - 1))
        reward = 0.0
        for apple in self.apples:
            apple[0] += self.fall
        landed = [apple for apple in self.apples if apple[0] >= SIDE - 1]
        self.apples = [apple for apple in self.apples if apple[0] < SIDE - 1]
        for _, col in landed:
            if abs(col - self.basket) <= 1:
                reward += 1.0
                self.caught += 1
            else:
                reward -= 1.0
                self.dropped += 1
        # An apple at most every third step, not too far from the last: all of them can be caught.
        self.wait -= 1
        if self.wait <= 0 and (not self.apples or self.np_random.random() < self.chance):
            near = self.apples[-1][1] if self.apples else int(self.np_random.integers(SIDE))
            self.apples.append([0, int(np.clip(near + self.np_random.integers(-3, 4), 0, SIDE - 1))])
            self.wait = 3
        self.steps += 1
        return self.screen(), reward, self.dropped >= 3, self.steps >= self.max_steps, {"caught": self.caught}


def make() -> Orchard:
    return Orchard()


def expert(obs: Any) -> int:
    """Below the lowest apple."""
    rows, cols = np.nonzero(obs[0])
    basket = int(np.nonzero(obs[1, SIDE - 1])[0][0])
    if not len(rows):
        return 1
    return 1 + int(np.sign(cols[np.argmax(rows)] - basket))
