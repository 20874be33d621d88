"""Tasks with their experts for the second look at planted faults: five that no rule was written on.

Four are small ones of our own, the fifth is Gymnasium's CliffWalking-v1; `Inventory` was left for another look. Vectors and choices,
episodes that end by themselves and such that do not, rewards that cost and rewards that pay, with chance in them and without any.
Thresholds, budgets and amounts of data were set by what the experts and a few sound runs of other seeds return, before any diagnosis.
"""

import math
from typing import Any

import gymnasium
import numpy as np

_draw = np.random.default_rng(0)


class Thermostat(gymnasium.Env[Any, Any]):
    """Heat a room to a temperature that is wished for, by a slow radiator, while it gets colder and warmer outside: 60 steps."""

    observation_space = gymnasium.spaces.Box(-50.0, 100.0, (4,), np.float32)
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.room, self.wish = self.np_random.uniform(12, 24), self.np_random.uniform(17, 23)
        self.radiator, self.phase, self.left = 20.0, self.np_random.uniform(0, 2 * math.pi), 60
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.radiator += 0.4 * (20 + 50 * float(np.clip(action[0], 0, 1)) - self.radiator)
        self.room += 0.08 * (self.radiator - self.room) + 0.1 * (self._outside() - self.room)
        self.phase += 0.1
        self.left -= 1
        return self._seen(), -abs(self.room - self.wish), False, self.left == 0, {}

    def _outside(self) -> float:
        return 5.0 + 5.0 * math.sin(self.phase)

    def _seen(self) -> Any:
        return np.array([self.room, self.wish, self.radiator, self._outside()], np.float32)


def thermostat(obs: Any) -> list[float]:
    """The radiator that holds the wish against the cold, and more of it for what is missing."""
    room, wish, _, outside = (float(each) for each in obs)
    wanted = wish + 1.25 * (wish - outside) + 6.0 * (wish - room)
    return [float(np.clip((wanted - 20.0) / 50.0, 0, 1))]


class Landing(gymnasium.Env[Any, Any]):
    """Come down by one engine and touch the ground slowly: fuel costs, and it ends on the ground."""

    observation_space = gymnasium.spaces.Box(-50.0, 50.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.height, self.speed, self.left = self.np_random.uniform(4, 9), self.np_random.uniform(-2, 1), 90
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        thrust = 0.5 * (float(np.clip(action[0], -1, 1)) + 1)
        self.speed += 0.1 * (4.0 * thrust - 1.6)
        self.height = min(self.height + 0.1 * self.speed, 15.0)
        self.left -= 1
        down = self.height <= 0
        reward = -0.05 - 0.02 * thrust + down * (10.0 - 4.0 * abs(self.speed))
        return self._seen(), reward, down, self.left == 0 and not down, {}

    def _seen(self) -> Any:
        return np.array([self.height, self.speed], np.float32)


def landing(obs: Any) -> list[float]:
    """Fall no faster than the height that is left allows."""
    height, speed = float(obs[0]), float(obs[1])
    wanted = -0.5 - 0.4 * height
    thrust = (1.6 + 5.0 * (wanted - speed)) / 4.0
    return [float(np.clip(2 * thrust - 1, -1, 1))]


class Pursuit(gymnasium.Env[Any, Any]):
    """Run after somebody who runs straight on within walls: eight directions to run in, and it ends when he is caught."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (6,), np.float32)
    action_space = gymnasium.spaces.Discrete(8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.other = self.np_random.uniform(-1, 1, 2), self.np_random.uniform(-1, 1, 2)
        angle = self.np_random.uniform(0, 2 * math.pi)
        self.runs, self.left = 0.06 * np.array([math.cos(angle), math.sin(angle)]), 70
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        angle = math.pi / 4 * int(action)
        self.place = np.clip(self.place + 0.1 * np.array([math.cos(angle), math.sin(angle)]), -1.2, 1.2)
        moved = self.other + self.runs
        self.runs = np.where(np.abs(moved) > 1.0, -self.runs, self.runs)
        self.other = np.clip(moved, -1.0, 1.0)
        self.left -= 1
        caught = float(np.linalg.norm(self.place - self.other)) < 0.15
        return self._seen(), 5.0 * caught - 0.1, caught, self.left == 0 and not caught, {}

    def _seen(self) -> Any:
        return np.array([*self.place, *(self.other - self.place), *(10 * self.runs)], np.float32)


def pursuit(obs: Any) -> int:
    """To where he will be by then."""
    apart, runs = np.asarray(obs[2:4], float), np.asarray(obs[4:6], float) / 10
    ahead = np.clip(obs[:2] + apart + runs * min(float(np.linalg.norm(apart)) / 0.1, 10.0), -1, 1) - obs[:2]
    return round(math.atan2(float(ahead[1]), float(ahead[0])) / (math.pi / 4)) % 8


class Inventory(gymnasium.Env[Any, Any]):
    """Order up to five pieces a day, which come two days later; what is asked for is drawn, and no more is sold than is there: 40 days."""

    observation_space = gymnasium.spaces.Box(0.0, 100.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.stock, self.coming, self.usual = int(self.np_random.integers(0, 12)), [0, 0], float(self.np_random.uniform(1.5, 3.0))
        self.left = 40
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.stock = min(self.stock + self.coming.pop(0), 40)
        self.coming.append(int(action))
        wanted = int(self.np_random.poisson(self.usual))
        sold = min(wanted, self.stock)
        self.stock -= sold
        self.left -= 1
        return self._seen(), sold - 0.15 * self.stock - 1.0 * (wanted - sold), False, self.left == 0, {}

    def _seen(self) -> Any:
        return np.array([self.stock, *self.coming, self.usual], np.float32)


def inventory(obs: Any) -> int:
    """Up to what is usually asked for in three days, and some more."""
    stock, first, second, usual = (float(each) for each in obs)
    return int(np.clip(round(3.0 * usual + 2.0 - stock - first - second), 0, 5))


def cliff(obs: Any) -> int:
    """CliffWalking: up from the lowest row, to the right above the cliff, and down at its end."""
    place = int(np.argmax(obs)) if np.ndim(obs) else int(obs)
    row, column = divmod(place, 12)
    if column == 11:
        return 2
    return 0 if row == 3 else 1


def thermostat_undecided(obs: Any) -> list[float]:
    return thermostat(obs) if _draw.random() < 0.5 else [float(_draw.uniform(0, 1))]


def landing_undecided(obs: Any) -> list[float]:
    return landing(obs) if _draw.random() < 0.5 else [float(_draw.uniform(-1, 1))]


def pursuit_undecided(obs: Any) -> int:
    return pursuit(obs) if _draw.random() < 0.5 else int(_draw.integers(8))


def inventory_undecided(obs: Any) -> int:
    return inventory(obs) if _draw.random() < 0.5 else int(_draw.integers(6))


def cliff_undecided(obs: Any) -> int:
    return cliff(obs) if _draw.random() < 0.5 else int(_draw.integers(4))
