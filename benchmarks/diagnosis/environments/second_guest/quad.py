"""A planar drone with two rotors flies to a waypoint and stays there.

state: x, z, vx, vz, tilt, spin; action: how much more (or less) than hovering each rotor gives, from -1 to 1.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

G, DT = 9.81, 0.04
BOX = 5.0  # m: beyond is the forest


class PlanarQuad(gym.Env[Any, Any]):
    def __init__(self, reach: float = 2.5) -> None:
        self.reach = reach
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (7,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.state = np.zeros(6)
        self.goal = np.zeros(2)

    def _sense(self) -> Any:
        x, z, vx, vz, tilt, spin = self.state
        return np.array([self.goal[0] - x, self.goal[1] - z, vx, vz, np.sin(tilt), np.cos(tilt), spin], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state[:2] = self.np_random.uniform(-1.0, 1.0, 2)
        self.state[2:] = self.np_random.uniform(-0.1, 0.1, 4)
        self.goal = self.np_random.uniform(-self.reach, self.reach, 2)
        return self._sense(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        left, right = np.clip(np.asarray(action, float), -1.0, 1.0)
        lift = G * (1.0 + 0.4 * (left + right) / 2)
        x, z, vx, vz, tilt, spin = self.state
        spin = spin + DT * (6.0 * (right - left) - 0.5 * spin)
        tilt = tilt + DT * spin
        vx = vx + DT * (-lift * np.sin(tilt) - 0.1 * vx)
        vz = vz + DT * (lift * np.cos(tilt) - G - 0.1 * vz)
        self.state = np.array([x + DT * vx, z + DT * vz, vx, vz, tilt, spin])
        far = float(np.hypot(*(self.goal - self.state[:2])))
        crashed = bool(np.abs(self.state[:2]).max() > BOX or abs(tilt) > 1.5)
        reward = 1.0 - 0.25 * far - 0.1 * abs(float(tilt))
        if crashed:
            reward -= 20.0
        return self._sense(), reward, crashed, False, {"far": far}


def make() -> Any:
    return TimeLimit(PlanarQuad(), max_episode_steps=200)


def expert(obs: Any) -> Any:
    """The waypoint asks for a tilt and a lift, the tilt for a difference of the rotors."""
    dx, dz, vx, vz, sin_tilt, _, spin = (float(value) for value in obs)
    tilt = float(np.clip(-(0.35 * dx - 0.45 * vx), -0.5, 0.5))
    lift, turn = 1.2 * dz - 1.2 * vz, 1.5 * (tilt - sin_tilt) - 0.45 * spin
    return np.clip(np.array([lift - turn, lift + turn], np.float32), -1.0, 1.0)
