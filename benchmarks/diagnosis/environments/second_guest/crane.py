"""A gantry crane: bring the hanging load over the ship's hatch and keep it there, without letting it swing."""

import math
from typing import Any

import gymnasium as gym
import numpy as np


class GantryCrane(gym.Env[Any, Any]):
    DT = 0.05  # s
    ROPE = 2.0  # m
    GRAVITY = 9.81
    MAX_ACCEL = 3.0  # m/s2
    RAIL = 4.0  # m to either side
    STEPS = 240

    def __init__(self) -> None:
        limits = np.array([2 * self.RAIL, 40.0, 1.6, 40.0], np.float32)
        self.observation_space = gym.spaces.Box(-limits, limits, dtype=np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.x = self.v = self.theta = self.omega = self.hatch = 0.0
        self.steps = 0

    def _observe(self) -> Any:
        return np.array([self.hatch - self.x, self.v, self.theta, self.omega], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x = float(self.np_random.uniform(-3.0, 3.0))
        self.v = 0.0
        self.theta = float(self.np_random.uniform(-0.2, 0.2))
        self.omega = 0.0
        self.hatch = float(self.np_random.uniform(-2.5, 2.5))
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = float(np.clip(action[0], -1.0, 1.0))
        accel = self.MAX_ACCEL * push
        alpha = -(self.GRAVITY * math.sin(self.theta) + accel * math.cos(self.theta)) / self.ROPE - 0.1 * self.omega
        self.v += accel * self.DT
        self.omega += alpha * self.DT
        self.x += self.v * self.DT
        self.theta += self.omega * self.DT
        self.steps += 1
        miss = abs(self.x + self.ROPE * math.sin(self.theta) - self.hatch)
        # Off the rail, or a load that swings over the crew.
        lost = abs(self.x) > self.RAIL or abs(self.theta) > 1.2
        reward = math.exp(-miss) - 0.02 * push**2
        return self._observe(), reward, lost, self.steps >= self.STEPS, {"miss": miss}


def make() -> GantryCrane:
    return GantryCrane()


def expert(obs: Any) -> Any:
    """Feedback of the whole state."""
    ahead, v, theta, omega = (float(value) for value in obs[:4])
    return np.array([np.clip(0.5 * ahead - 0.7 * v + 1.5 * theta + 0.5 * omega, -1.0, 1.0)], np.float32)
