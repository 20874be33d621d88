"""Traffic lights at one junction: which road has green. After a change nobody drives for two ticks."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Junction(gym.Env[Any, Any]):
    ARMS = ("north", "south", "east", "west")
    YELLOW = 2
    LONGEST = 25  # cars that fit into an arm

    def __init__(self, ticks: int = 200) -> None:
        self.ticks = ticks
        self.action_space = spaces.Discrete(2)  # 0: north and south, 1: east and west
        self.observation_space = spaces.Box(0.0, 1.0, (7,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        # Cars in a tick, on each arm; one of the two roads is the main road today.
        main = float(self.np_random.uniform(0.3, 0.5))
        side = float(self.np_random.uniform(0.05, 0.25))
        pair = [main, side] if self.np_random.random() < 0.5 else [side, main]
        self.rates = np.repeat(pair, 2)
        self.queues = self.np_random.integers(0, 8, 4)
        self.green = int(self.np_random.integers(2))
        self.yellow = 0
        self.tick = 0
        self.total = 0.0
        return self.detectors(), {}

    def detectors(self) -> Any:
        lights = [float(self.green == 0), float(self.green == 1), self.yellow / self.YELLOW]
        return np.array([*(self.queues / self.LONGEST), *lights], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        wanted = int(action)
        if self.yellow > 0:
            self.yellow -= 1
        elif wanted != self.green:
            self.green = wanted
            self.yellow = self.YELLOW
        came = self.np_random.poisson(self.rates)
        self.queues = np.minimum(self.queues + came, self.LONGEST)
        if self.yellow == 0:
            open_arms = slice(0, 2) if self.green == 0 else slice(2, 4)
            self.queues[open_arms] = np.maximum(self.queues[open_arms] - 1, 0)
        self.tick += 1
        waiting = float(self.queues.sum()) / 20.0
        self.total += waiting
        reward = -waiting
        return self.detectors(), reward, False, self.tick >= self.ticks, {"waiting": waiting}


def make() -> Junction:
    return Junction()


def expert(obs: Any) -> int:
    """Stay while enough cars come through; change where the others wait for longer."""
    ours = 0 if obs[4] > 0.5 else 1
    roads = (float(obs[0] + obs[1]), float(obs[2] + obs[3]))
    return ours if roads[1 - ours] < roads[ours] + 0.14 else 1 - ours
