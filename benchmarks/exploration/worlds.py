"""Small worlds whose truth is known: in some, what is wanted is out of chance's reach; in others it is met early and something else fails.

None of them was seen when the thresholds of `explore` were chosen (those: deep seas, CartPole, MountainCar, Pendulum, FrozenLake, mazes).
`near=True` begins episodes anywhere on the way: the oracle start by which the truth is verified.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Label = Literal["bottleneck", "not"]


class World(gym.Env[Any, Any]):
    """An episode of at most `limit` steps. `flagged`: whether success is reported."""

    limit = 60

    def __init__(self, *, flagged: bool = True, near: bool = False) -> None:
        self.flagged, self.near = flagged, near

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.begin()
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        reward, succeeded, ended = self.move(action)
        truncated = self.steps >= self.limit and not ended
        info = {"is_success": succeeded} if self.flagged and (ended or truncated) else {}
        return self.look(), float(reward), ended, truncated, info

    def begin(self) -> None:
        raise NotImplementedError

    def look(self) -> Any:
        raise NotImplementedError

    def move(self, action: Any) -> tuple[float, bool, bool]:
        """(reward, whether it succeeded, whether the episode is over)."""
        raise NotImplementedError


class Lock(World):
    """A combination of digits, one after the other; a wrong one shuts it for good."""

    def __init__(self, digits: int = 10, choices: int = 4, **options: Any) -> None:
        super().__init__(**options)
        self.digits, self.limit = digits, digits + 1
        self.code = np.random.default_rng(digits).integers(choices, size=digits)
        self.observation_space, self.action_space = spaces.Discrete(digits + 1), spaces.Discrete(choices)

    def begin(self) -> None:
        self.place = int(self.np_random.integers(self.digits)) if self.near else 0

    def look(self) -> int:
        return self.place

    def move(self, action: Any) -> tuple[float, bool, bool]:
        if action != self.code[self.place]:
            return 0.0, False, True
        self.place += 1
        opened = self.place == self.digits
        return float(opened), opened, opened


class Corridor(World):
    """Left or right; the end is paid. `tax`: what a step to the right costs."""

    def __init__(self, length: int = 40, tax: float = 0.0, limit: int = 80, **options: Any) -> None:
        super().__init__(**options)
        self.length, self.tax, self.limit = length, tax, limit
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)

    def begin(self) -> None:
        self.place = int(self.np_random.integers(self.length)) if self.near else 0

    def look(self) -> np.ndarray:
        return np.array([self.place / self.length], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.place = max(self.place + (1 if action else -1), 0)
        there = self.place >= self.length
        return float(there) - self.tax * bool(action), there, there


class Field(World):
    """A square to cross from corner to corner. `bait`: what a cell beside the start pays, and ends. `paid`: how the way is paid, too."""

    def __init__(
        self, size: int = 15, limit: int = 50, bait: float = 0.0, paid: str = "goal", slip: float = 0.0, blind: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.size, self.limit, self.bait, self.paid, self.slip, self.blind = size, limit, bait, paid, slip, blind
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (2,), np.float32), spaces.Discrete(4)

    def begin(self) -> None:
        self.place = self.np_random.integers(self.size, size=2) if self.near else np.zeros(2, np.int64)
        if self.near and (self.place == self.size - 1).all():
            self.place[0] = 0

    def look(self) -> np.ndarray:
        return np.zeros(2, np.float32) if self.blind else (self.place / (self.size - 1)).astype(np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        if self.slip and self.np_random.random() < self.slip:
            action = self.np_random.integers(4)
        before = int(self.place.sum())
        self.place = np.clip(self.place + [(1, 0), (-1, 0), (0, 1), (0, -1)][int(action)], 0, self.size - 1)
        there = bool((self.place == self.size - 1).all())
        if self.bait and tuple(self.place) == (0, 2):
            return self.bait, False, True
        way = {"goal": 0.0, "progress": (int(self.place.sum()) - before) / (2 * self.size), "never": 0.0, "wrong sign": 0.0}[self.paid]
        goal = {"never": 0.0, "wrong sign": -1.0}.get(self.paid, 1.0)
        return goal * there + way, there, there


class Swing(World):
    """A weak motor and a swing that has to go over the top: only pumping gets there."""

    limit = 120

    def __init__(self, torque: float = 0.22, **options: Any) -> None:
        super().__init__(**options)
        self.torque = torque
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(3)

    def begin(self) -> None:
        wide = math.pi if self.near else 0.1
        self.angle, self.speed = (float(each) for each in self.np_random.uniform(-wide, wide, 2))

    def look(self) -> np.ndarray:
        return np.array([math.cos(self.angle), math.sin(self.angle), self.speed], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        for _ in range(2):
            self.speed = 0.995 * self.speed + 0.1 * (self.torque * (int(action) - 1) - math.sin(self.angle))
            self.angle += 0.1 * self.speed
        over = abs(self.angle) >= math.pi
        return float(over), over, over


class Wind(World):
    """Against the wind, with a throttle: only who keeps pushing gets anywhere. `dense`: nearness is paid instead."""

    def __init__(self, wind: float = 0.06, dense: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.wind, self.dense = wind, dense
        self.observation_space, self.action_space = spaces.Box(0.0, 2.0, (1,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32)

    def begin(self) -> None:
        self.place = float(self.np_random.uniform(0, 1.4)) if self.near else 0.0

    def look(self) -> np.ndarray:
        return np.array([self.place], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.place = float(np.clip(self.place + 0.1 * np.clip(action[0], -1, 1) - self.wind, 0, 2))
        if self.dense:
            return self.place - 1.0, False, False
        there = self.place >= 1.5
        return float(there), there, there


class Errands(World):
    """Three places in a row, each of which counts only after the one before; the last one is paid."""

    limit = 60

    def __init__(self, size: int = 8, errands: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.places = size, [(size - 1, 0), (0, size - 1), (size - 1, size - 1)][:errands]
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (2 + errands,), np.float32), spaces.Discrete(4)

    def begin(self) -> None:
        self.done = int(self.np_random.integers(len(self.places))) if self.near else 0
        self.place = tuple(int(each) for each in self.np_random.integers(self.size, size=2)) if self.near else (0, 0)

    def look(self) -> np.ndarray:
        flags = [float(self.done > each) for each in range(len(self.places))]
        return np.array([*(each / (self.size - 1) for each in self.place), *flags], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        step = [(1, 0), (-1, 0), (0, 1), (0, -1)][int(action)]
        self.place = tuple(int(np.clip(at + by, 0, self.size - 1)) for at, by in zip(self.place, step, strict=True))
        self.done += self.place == self.places[self.done]
        ready = self.done == len(self.places)
        return float(ready), ready, ready


class Catch(World):
    """Balls that fall from seven places, one after the other; +1 for each that is caught, -1 for the others. `shuffled`: buttons change."""

    limit = 50

    def __init__(self, shuffled: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.shuffled = shuffled
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3)

    def begin(self) -> None:
        self.paddle, self.buttons, self.caught = 3, np.arange(3), 0
        if self.shuffled:
            self.np_random.shuffle(self.buttons)
        self.throw()

    def throw(self) -> None:
        self.ball, self.height = int(self.np_random.integers(7)), 5

    def look(self) -> np.ndarray:
        return np.array([self.ball / 3 - 1, self.height / 5, self.paddle / 3 - 1], np.float32)

    def move(self, action: Any) -> tuple[float, bool, bool]:
        self.paddle = int(np.clip(self.paddle + self.buttons[int(action)] - 1, 0, 6))
        self.height -= 1
        if self.height:
            return 0.0, False, False
        reward = 1.0 if self.ball == self.paddle else -1.0
        self.throw()
        return reward, False, False


@dataclass(frozen=True)
class Case:
    """Runs of one config, and what is true of them."""

    name: str
    label: Label
    """Written down before any of them was trained."""
    make: Callable[..., World]
    options: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    algo: Mapping[str, Any] = field(default_factory=dict)
    env_steps: int = 30_720


SUCCESS: Final = {"success": 0.9}
IDLE: Final = {"learning_rate": 1e-8}
CASES: Final = (
    Case("lock of 10", "bottleneck", Lock, {}, SUCCESS),
    Case("lock of 8 with 6 choices, nothing is required", "bottleneck", Lock, {"digits": 8, "choices": 6}),
    Case("lock of 12, no flag", "bottleneck", Lock, {"digits": 12, "flagged": False}, {"threshold": 0.9}),
    Case("corridor of 40", "bottleneck", Corridor, {}, SUCCESS),
    Case("corridor of 50 with a tax, no flag", "bottleneck", Corridor, {"length": 50, "tax": 0.002, "flagged": False}, {"threshold": 0.8}),
    Case("field of 16", "bottleneck", Field, {"size": 16}, SUCCESS),
    Case("field of 20, no flag, nothing is required", "bottleneck", Field, {"size": 20, "limit": 70, "flagged": False}),
    Case("field of 16 with a bait", "bottleneck", Field, {"size": 16, "bait": 0.05}, SUCCESS),
    Case("swing", "bottleneck", Swing, {}, SUCCESS),
    Case("against the wind", "bottleneck", Wind, {}, SUCCESS),
    Case("three errands", "bottleneck", Errands, {"size": 9}, SUCCESS),
    Case("two errands in a yard of 12", "bottleneck", Errands, {"size": 12, "errands": 2}, SUCCESS),
    Case("field of 4", "not", Field, {"size": 4}, SUCCESS),
    Case("field of 4 that is not learned", "not", Field, {"size": 4}, SUCCESS, IDLE),
    Case("field of 4 in steps that are too large", "not", Field, {"size": 4}, SUCCESS, {"learning_rate": 0.3}),
    Case("field of 4, unseen", "not", Field, {"size": 4, "limit": 12, "blind": True}, SUCCESS),
    Case("field of 5, the goal costs", "not", Field, {"size": 5, "paid": "wrong sign"}, SUCCESS),
    Case("field of 5, nothing is paid", "not", Field, {"size": 5, "paid": "never"}, SUCCESS),
    Case("field of 5 that slips nearly always", "not", Field, {"size": 5, "limit": 30, "slip": 0.95}, SUCCESS),
    Case("field of 14, every step of the way is paid", "not", Field, {"size": 14, "paid": "progress"}, SUCCESS),
    Case("the same, not learned", "not", Field, {"size": 14, "paid": "progress", "flagged": False}, {"threshold": 1.5}, IDLE),
    Case("lock of 3", "not", Lock, {"digits": 3}, SUCCESS),
    Case("corridor of 8, one step ahead", "not", Corridor, {"length": 8}, SUCCESS, {"gamma": 0.1, "gae_lambda": 0.0}),
    Case("catching", "not", Catch, {"flagged": False}, {"threshold": 9.0}),
    Case("catching, not learned, nothing is required", "not", Catch, {"flagged": False}, {}, IDLE),
    Case("catching with other buttons every time", "not", Catch, {"flagged": False, "shuffled": True}, {"threshold": 9.0}),
    Case("wind, nearness is paid", "not", Wind, {"dense": True, "flagged": False}, {"threshold": 0.0}),
)  # fmt: skip
