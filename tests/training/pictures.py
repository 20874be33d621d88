"""Environments with images: walk to the bright square, seen as rows, as channels first, as floats, or with a number beside it."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Bright(gym.Env[Any, Any]):
    """The agent is grey, the square white; a step towards it pays 1, away from it -1. Arriving ends the episode, 12 steps cut it.

    layout: "hwc", "chw", "hw", "float" (0 to 1), or "dict" (the image, and where the agent is as a number beside it).
    """

    limit = 12

    def __init__(self, size: int = 36, layout: str = "hwc", cell: int = 6) -> None:
        self.size, self.layout, self.cell = size, layout, cell
        shape = {"chw": (1, size, size), "hw": (size, size)}.get(layout, (size, size, 1))
        image = spaces.Box(0, 1, shape, np.float32) if layout == "float" else spaces.Box(0, 255, shape, np.uint8)
        place = spaces.Box(0, 1, (1,), np.float32)
        self.observation_space: Any = spaces.Dict({"place": place, "image": image}) if layout == "dict" else image
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        last = self.size // self.cell - 1
        self.square = int(self.np_random.choice([0, last]))
        self.agent, self.taken = int(self.np_random.integers(1, last)), 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        before = abs(self.square - self.agent)
        self.agent += 1 if action else -1
        self.taken += 1
        after = abs(self.square - self.agent)
        last = self.size // self.cell - 1
        arrived = after == 0
        self.agent = min(max(self.agent, 1), last - 1) if not arrived else self.agent
        return self._seen(), float(np.sign(before - after)), arrived, self.taken >= self.limit, {}

    def _seen(self) -> Any:
        image = np.zeros((self.size, self.size), np.uint8)
        rows = slice(self.size // 2 - self.cell, self.size // 2 + self.cell)
        image[rows, self.agent * self.cell : (self.agent + 1) * self.cell] = 100
        image[rows, self.square * self.cell : (self.square + 1) * self.cell] = 255
        if self.layout == "hw":
            return image
        if self.layout == "chw":
            return image[None]
        if self.layout == "float":
            return (image[..., None] / 255).astype(np.float32)
        if self.layout == "dict":
            return {"place": np.array([self.agent * self.cell / self.size], np.float32), "image": image[..., None]}
        return image[..., None]
