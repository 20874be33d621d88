"""Five more environments of kinds that no generator has: an elevator, a warehouse, an insulin pump, an auction, a satellite.

They were written after the checks of `lint --env`, to attack them with the faults of `odd` and with more that users make.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from benchmarks.diagnosis.environments import odd
from benchmarks.diagnosis.environments.odd import Faulty, Paid, Result, Task, box


class Elevator(Task):
    """A shaft with six floors: calls come by chance, riders want somewhere; up, down, or open the door."""

    observation_space = box(14)
    action_space = spaces.Discrete(3)
    limit = 80

    def start(self) -> None:
        self.floor, self.calls, self.wants = 0, np.zeros(6), np.zeros(6)
        self.floor = int(self.np_random.integers(6))
        self.calls[self.np_random.integers(6)] = 1

    def show(self) -> Any:
        return np.concatenate([[self.floor / 2.5 - 1, self.wants.sum() / 3], self.calls, self.wants]).astype(np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        served = 0.0
        if action < 2:
            self.floor = int(np.clip(self.floor + (1 if action else -1), 0, 5))
        else:
            served = self.wants[self.floor]
            if self.calls[self.floor]:
                self.wants[self.np_random.integers(6)] = 1
            self.wants[self.floor] = self.calls[self.floor] = 0
        if self.np_random.random() < 0.15:
            self.calls[self.np_random.integers(6)] = 1
        return served - 0.05 * float(self.calls.sum() + self.wants.sum()), False, {}


class Warehouse(Task):
    """A picker on a grid who fetches one item after the other and brings it to the desk; a Dict with what is carried."""

    observation_space = spaces.Dict(
        {"place": spaces.MultiDiscrete([5, 5]), "item": spaces.MultiDiscrete([5, 5]), "holds": spaces.Discrete(2)}
    )
    action_space = spaces.Discrete(5)
    limit = 100

    def start(self) -> None:
        self.place, self.item, self.holds = self.np_random.integers(0, 5, 2), self.np_random.integers(0, 5, 2), 0

    def show(self) -> Any:
        return {"place": self.place.astype(np.int64), "item": self.item.astype(np.int64), "holds": np.int64(self.holds)}

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.place = np.clip(self.place + [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)][int(action)], 0, 4)
        reward = -0.02
        if not self.holds and (self.place == self.item).all():
            self.holds, reward = 1, 0.3
        elif self.holds and not self.place.any():
            self.holds, reward, self.item = 0, 1.0, self.np_random.integers(0, 5, 2)
        return reward, False, {"is_success": reward == 1.0}


class Glucose(Task):
    """Blood sugar that meals raise and insulin lowers, after a while; too low or too high ends it."""

    observation_space = box(4)
    action_space = box(1, low=0.0, high=1.0)
    limit = 96

    def start(self) -> None:
        self.sugar, self.insulin, self.meal = self.np_random.uniform(-0.5, 0.8), 0.0, 0.0

    def show(self) -> Any:
        return np.array([self.sugar, 3 * self.insulin, 2 * self.meal, np.sin(self.age / 96 * 6.28)], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        self.insulin = 0.8 * self.insulin + 0.25 * float(np.clip(action[0], 0, 1))
        self.meal = 0.7 * self.meal + (0.6 if self.np_random.random() < 0.08 else 0.0)
        self.sugar += 0.25 * self.meal - 0.18 * self.insulin + 0.01 - 0.02 * self.sugar + 0.01 * self.np_random.standard_normal()
        out = abs(self.sugar) > 2
        return 1 - self.sugar**2 - 5 * out, out, {}


class Bidding(Task):
    """An auction at every step with a budget for the day: what a click is worth is seen, what others bid is not."""

    observation_space = box(3)
    action_space = box(1, low=-1.0, high=1.0)
    limit = 48

    def start(self) -> None:
        self.budget, self.worth = 12.0, self.np_random.random()

    def show(self) -> Any:
        return np.array([self.budget / 6 - 1, 2 * self.worth - 1, self.age / 24 - 1], np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        bid, other = min(0.5 * (float(action[0]) + 1), self.budget), 0.7 * self.np_random.random()
        won = bid > other
        reward = (self.worth - other) if won else 0.0
        self.budget -= other * won
        self.worth = self.np_random.random()
        return reward, self.budget <= 0.01, {}


class Satellite(Task):
    """A body in three axes that wheels turn: it has to point somewhere, and wheels saturate."""

    observation_space = box(9)
    action_space = box(3, low=-1.0, high=1.0)
    limit = 120

    def start(self) -> None:
        self.angle, self.spin, self.wheel = self.np_random.uniform(-1, 1, 3), self.np_random.uniform(-0.1, 0.1, 3), np.zeros(3)

    def show(self) -> Any:
        return np.concatenate([self.angle, 5 * self.spin, self.wheel]).astype(np.float32)

    def advance(self, action: Any) -> tuple[float, bool, dict[str, Any]]:
        torque = np.clip(action, -1, 1) * (np.abs(self.wheel) < 1)
        self.wheel = np.clip(self.wheel + 0.05 * torque, -1, 1)
        self.spin = self.spin + 0.03 * torque + 0.02 * np.roll(self.spin, 1) * np.roll(self.spin, 2)
        self.angle = self.angle + self.spin
        off = float(np.abs(self.angle).max())
        return -off - 0.01 * float(np.square(action).sum()), off > 4, {"is_success": off < 0.1}


SOUND: Final[dict[str, Callable[[], Any]]] = {each.__name__: each for each in (Elevator, Warehouse, Glucose, Bidding, Satellite)}
SUCCESS: Final = {"Warehouse"}
DENSE: Final = {"Elevator", "Glucose", "Bidding", "Satellite"}
TO_THE_LIMIT: Final = {"Elevator", "Warehouse", "Bidding"}
"""Of the sound ones: those in which random actions succeed, that pay at every step, and whose random episodes reach the limit."""


# ── more faults ──


class HalfTheActions(Faulty):
    """Only one half of a box does anything: what is negative is cut to the middle."""

    def step(self, action: Any) -> Result:
        space = self.action_space
        assert isinstance(space, spaces.Box)
        middle = (space.low + space.high) / 2
        obs, reward, terminated, truncated, info = self.env.step(np.maximum(action, middle).astype(space.dtype))
        return obs, float(reward), terminated, truncated, info


class RewardDrifts(Paid):
    """What is paid changes with all steps that were ever taken."""

    def pay(self, reward: float, over: bool) -> float:
        self.taken = getattr(self, "taken", 0) + 1
        return reward - 0.002 * self.taken


class NeverEnds(Faulty):
    """Neither the goal nor the clock ends an episode."""

    def step(self, action: Any) -> Result:
        obs, reward, _, _, info = self.env.step(action)
        return obs, float(reward), False, False, info


FAULTS: Final[dict[str, tuple[type[Faulty], str, set[str]]]] = {
    **odd.FAULTS,
    "half of the actions": (HalfTheActions, "box", {"action-bounds", "actions-without-effect"}),
    "reward drifts": (RewardDrifts, "dense", {"environment-changed", "never-reset"}),
    "never ends": (NeverEnds, "", {"time-limit-missing"}),
}
"""Those of `odd` and more, with what the environment must have and the causes that are right."""


def fits(name: str, needs: str) -> bool:
    """Whether a fault means anything in an environment."""
    if needs == odd.REAL:
        return odd.has_real_numbers(SOUND[name]())
    if needs == "box":
        return isinstance(SOUND[name]().action_space, spaces.Box)
    wanted = {"success": SUCCESS, "dense": DENSE, "limit": TO_THE_LIMIT}.get(needs)
    return wanted is None or name in wanted
