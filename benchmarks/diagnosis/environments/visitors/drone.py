"""Planar quadrotor (x, z, pitch) that flies to a waypoint and holds it in light wind.

Actions are the two rotors' deviations from hover thrust, normalised to [-1, 1].
"""

from __future__ import annotations

import logging
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

log = logging.getLogger(__name__)

GRAVITY = 9.81
DT = 0.05
AUTHORITY = 0.4  # share of hover thrust
ARM_OVER_INERTIA = 6.0
GYRO_SIGMA = 0.02
MAX_SPEED = 3.0
ALIVE = 1.0
CRASH = -10.0


class PlanarDrone(gym.Env[Any, Any]):
    def __init__(self, max_steps: int = 200) -> None:
        super().__init__()
        self.max_steps = max_steps
        self.action_space = spaces.Box(-1.0, 1.0, shape=(2,), dtype=np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(7,), dtype=np.float32)
        self.charge = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1.5, 1.5, 2)
        self.velocity = np.zeros(2)
        self.pitch = self.np_random.uniform(-0.1, 0.1)
        self.rate = 0.0
        self.rotors = np.zeros(2)
        self.steps = 0
        self.charge = 1.0
        return self._sense(), {}

    def _sense(self) -> Any:
        speed = self.velocity / MAX_SPEED
        attitude = [np.sin(self.pitch), np.cos(self.pitch), 0.3 * self.rate]
        clean = np.concatenate([self.position, speed, attitude])
        return (clean + self.np_random.normal(0.0, GYRO_SIGMA, 7)).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.rotors = np.clip(np.asarray(action, float), -1.0, 1.0)
        self.charge = max(0.0, self.charge - 0.0002)
        thrust = GRAVITY * (0.35 + 0.65 * self.charge) * (1.0 + AUTHORITY * self.rotors.mean())
        self.rate += DT * ARM_OVER_INERTIA * (self.rotors[1] - self.rotors[0])
        self.rate *= 0.97
        self.pitch += DT * self.rate
        wind = self.np_random.normal(0.0, 0.3)
        acceleration = np.array([thrust * np.sin(self.pitch) + wind, thrust * np.cos(self.pitch) - GRAVITY])
        self.velocity = np.clip(self.velocity + DT * acceleration, -MAX_SPEED, MAX_SPEED)
        self.position = self.position + DT * self.velocity
        self.steps += 1

        distance = float(np.linalg.norm(self.position))
        crashed = bool(distance > 4.0 or abs(self.pitch) > 1.3)
        if crashed:
            log.debug("lost it after %d steps", self.steps)
        reward = CRASH if crashed else ALIVE - 0.5 * distance - 0.1 * abs(self.rate)
        return self._sense(), float(reward), crashed, self.steps >= self.max_steps, {}


def make() -> PlanarDrone:
    return PlanarDrone()


def expert(obs: Any) -> Any:
    """A cascade: position to pitch, pitch to the difference of the rotors; height to their sum."""
    x, z, vx, vz = obs[0], obs[1], MAX_SPEED * obs[2], MAX_SPEED * obs[3]
    pitch, rate = np.arctan2(obs[4], obs[5]), obs[6] / 0.3
    wanted = np.clip(-0.15 * x - 0.2 * vx, -0.35, 0.35)
    turn = np.clip(2.0 * (wanted - pitch) - 0.4 * rate, -0.6, 0.6)
    lift = np.clip(-1.0 * z - 1.0 * vz + 0.1, -0.8, 0.8)
    return np.clip([lift - turn, lift + turn], -1.0, 1.0).astype(np.float32)
