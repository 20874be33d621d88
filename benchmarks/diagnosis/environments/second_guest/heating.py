"""Two rooms, two heaters, one winter's day in quarters of an hour.

Power costs what it costs at that hour; being cold (or hot) costs too, by how far each room is from 21 degrees.
"""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class House:
    heater: float = 3.0  # kW
    capacity: float = 1.6  # kWh per degree
    walls: float = 0.11  # kW per degree, to the outside
    door: float = 0.08  # kW per degree, between the rooms
    comfort: float = 0.06  # per degree and quarter


class Heating(gym.Env[Floats, Floats]):
    HOURS = 0.25
    QUARTERS = 96

    def __init__(self, house: House | None = None) -> None:
        self.house = house or House()
        self.observation_space = gym.spaces.Box(-6.0, 6.0, (6,), np.float64)
        self.action_space = gym.spaces.Box(0.0, 1.0, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self.quarter = 0
        self.rooms = self.np_random.uniform(14.0, 24.0, 2)
        self.coldest = float(self.np_random.uniform(-10.0, 8.0))
        self.dear = float(self.np_random.uniform(0.15, 0.4))
        self.shown = self.rooms.copy()
        return self._obs(), {}

    def outside(self) -> float:
        return self.coldest + 3.0 - 3.0 * float(np.cos(2 * np.pi * self.quarter / self.QUARTERS))

    def price(self) -> float:
        return self.dear * (1.5 if 28 <= self.quarter % self.QUARTERS < 80 else 0.7)

    def _obs(self) -> Floats:
        hour = 2 * np.pi * self.quarter / self.QUARTERS
        return np.array([*(self.rooms - 21.0) / 10.0, self.outside() / 10.0, self.price(), np.sin(hour), np.cos(hour)])

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        house = self.house
        heat = house.heater * np.clip(np.asarray(action, float), 0.0, 1.0)
        bill = self.price() * float(heat.sum()) * self.HOURS
        flow = heat - house.walls * (self.rooms - self.outside()) - house.door * (self.rooms - self.rooms[::-1])
        self.rooms = self.rooms + flow * self.HOURS / house.capacity
        self.quarter += 1
        discomfort = float((np.abs(self.rooms - 21.0)).sum())
        reward = -(0.2 * bill + house.comfort * discomfort)
        return self._obs(), reward, False, self.quarter >= self.QUARTERS, {"bill": bill, "discomfort": discomfort}


def make() -> Heating:
    return Heating()


def expert(obs: Floats) -> Floats:
    """What is lost through the walls, and what is missing in the room."""
    rooms, outside = 21.0 + 10.0 * obs[:2], 10.0 * obs[2]
    house = House()
    return np.clip((house.walls * (21.0 - outside) + 3.0 * (21.0 - rooms)) / house.heater, 0.0, 1.0)
