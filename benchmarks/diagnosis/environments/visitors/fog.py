"""A cutter in fog looks for a buoy whose light shows every third second, while an unknown current sets it off course.

In between the lookout has nothing new to say: the bridge works with the last sighting and its age. That is the point of the exercise.
"""

import math
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

SPEED = 0.12
TURN = 0.3
PERIOD = 3
REACHED = 0.5


class FogBuoy(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (5,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        bearing = self.np_random.uniform(0, 2 * math.pi)
        distance = self.np_random.uniform(2.0, 4.0)
        self.ship = distance * np.array([math.cos(bearing), math.sin(bearing)])
        self.heading = self.np_random.uniform(0, 2 * math.pi)
        self.current = self.np_random.normal(0.0, 0.02, 2)
        self.clock = 0
        self._sight()
        return self._bridge(), {}

    def _sight(self) -> None:
        self.sighting = np.array([*np.clip(-self.ship, -10, 10), math.cos(self.heading), math.sin(self.heading)])
        self.seen_at = self.clock

    def _bridge(self) -> Any:
        age = (self.clock - self.seen_at) / PERIOD
        return np.append(self.sighting, min(age, 1.0))

    def _range(self) -> float:
        return float(np.hypot(*self.ship))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        rudder = float(np.clip(action[0], -1.0, 1.0))
        before = self._range()
        self.heading += TURN * rudder
        self.ship = self.ship + SPEED * np.array([math.cos(self.heading), math.sin(self.heading)]) + self.current
        self.clock += 1
        after = self._range()

        if self.clock % PERIOD == 0:
            self._sight()
        found, lost = after < REACHED, after > 9.0
        reward = before - after
        if found:
            reward += 2.0
        if lost:
            reward -= 2.0
        return self._bridge(), reward, found or lost, False, {"is_success": found}


def make() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TimeLimit(FogBuoy(), max_episode_steps=120)


def expert(obs: Any) -> Any:
    """Steer for the buoy as last seen; the rudder is small, as the heading is a little old."""
    wanted = math.atan2(obs[1], obs[0])
    off = wanted - math.atan2(obs[3], obs[2])
    off = (off + math.pi) % (2 * math.pi) - math.pi
    return np.clip([off / (PERIOD * TURN)], -1.0, 1.0)
