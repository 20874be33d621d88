"""Small tasks with their experts, on which rules of recorded data and of imitation may be written.

Those in `faults.py` are only looked at.
"""

from typing import Any

import gymnasium
import numpy as np

_draw = np.random.default_rng(0)


class Tank(gymnasium.Env[Any, Any]):
    """Hold the level of a leaking tank at a mark by a valve from 0 to 4: it pays for being near, and ends where the tank runs over."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = gymnasium.spaces.Box(0.0, 4.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.level, self.inflow, self.mark, self.left = self.np_random.uniform(0.2, 2.5), 0.0, self.np_random.uniform(0.8, 2.6), 80
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.inflow += 0.3 * (float(np.clip(action[0], 0, 4)) - self.inflow)
        self.level = max(self.level + 0.1 * (self.inflow - np.sqrt(max(self.level, 0.0))), 0.0)
        self.left -= 1
        over = self.level > 3.0
        return self._seen(), float(np.exp(-8 * (self.level - self.mark) ** 2)) - 10.0 * over, over, self.left == 0 and not over, {}

    def _seen(self) -> Any:
        return np.array([self.level, self.inflow, self.mark], np.float32)


def tank(obs: Any) -> list[float]:
    """What leaks, what is missing, and less while it comes in anyway."""
    level, inflow, mark = (float(each) for each in obs)
    leak = float(np.sqrt(mark))
    return [float(np.clip(leak + 6.0 * (mark - level) - 1.5 * (inflow - leak), 0, 4))]


class Delivery(gymnasium.Env[Any, Any]):
    """Fetch a parcel on a board of 6 x 6 and bring it to its address: each step costs, and it ends with the delivery."""

    observation_space = gymnasium.spaces.Box(-1.0, 6.0, (7,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.parcel, self.address = (self.np_random.integers(0, 6, 2) for _ in range(3))
        self.has, self.left = False, 60
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][int(action)]), 0, 5)
        self.has = self.has or bool((self.place == self.parcel).all())
        done = self.has and bool((self.place == self.address).all())
        self.left -= 1
        return self._seen(), 10.0 * done - 0.5, done, self.left == 0 and not done, {}

    def _seen(self) -> Any:
        return np.array([*self.place, *self.parcel, *self.address, float(self.has)], np.float32)


def delivery(obs: Any) -> int:
    """First along one side, then along the other."""
    place, goal = np.asarray(obs[:2]), np.asarray(obs[4:6] if obs[6] > 0.5 else obs[2:4])
    across, along = goal - place
    if across:
        return 0 if across > 0 else 1
    return 2 if along > 0 else 3


class Arm(gymnasium.Env[Any, Any]):
    """Turn two joints so that the hand follows a point on a circle: 100 steps, always."""

    observation_space = gymnasium.spaces.Box(-20.0, 20.0, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.angles, self.turn = self.np_random.uniform(-1, 1, 2), float(self.np_random.uniform(-3, 3))
        self.radius, self.left = float(self.np_random.uniform(0.8, 1.5)), 100
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.angles = self.angles + 0.15 * np.clip(action, -1, 1)
        self.turn += 0.04
        self.left -= 1
        return self._seen(), -float(np.square(self._hand() - self._point()).sum()), False, self.left == 0, {}

    def _hand(self) -> Any:
        first, both = self.angles[0], self.angles.sum()
        return np.array([np.cos(first) + np.cos(both), np.sin(first) + np.sin(both)])

    def _point(self) -> Any:
        return self.radius * np.array([np.cos(self.turn), np.sin(self.turn)])

    def _seen(self) -> Any:
        first, second = self.angles
        return np.array([np.cos(first), np.sin(first), np.cos(second), np.sin(second), *self._hand(), *self._point()], np.float32)


def arm(obs: Any) -> list[float]:
    """Along the transposed Jacobian of the hand."""
    c1, s1, c2, s2, x, y, u, v = (float(each) for each in obs)
    both = (c1 * s2 + s1 * c2, c1 * c2 - s1 * s2)
    miss = np.array([u - x, v - y])
    first, second = np.array([-y, x]), np.array([-both[0], both[1]])
    return [float(each) for each in np.clip([4 * miss @ first, 6 * miss @ second], -1, 1)]


def tank_undecided(obs: Any) -> list[float]:
    return tank(obs) if _draw.random() < 0.5 else [float(_draw.uniform(0, 4))]


def delivery_undecided(obs: Any) -> int:
    return delivery(obs) if _draw.random() < 0.5 else int(_draw.integers(4))


def arm_undecided(obs: Any) -> list[float]:
    return arm(obs) if _draw.random() < 0.5 else [float(each) for each in _draw.uniform(-1, 1, 2)]
