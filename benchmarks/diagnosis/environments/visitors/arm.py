"""Two-joint planar arm, velocity controlled. Bring the gripper to the marker. (Lab course, exercise 4.)"""

import math
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ReachArm(gym.Env[Any, Any]):
    L1, L2 = 0.6, 0.4  # m
    DT = 0.05  # s
    MAX_SPEED = 2.0  # rad/s
    HORIZON = 100

    def __init__(self) -> None:
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-math.pi, math.pi, 2)
        radius, angle = self.np_random.uniform(0.35, 0.9), self.np_random.uniform(-math.pi, math.pi)
        self.target = radius * np.array([math.cos(angle), math.sin(angle)])
        self.t = 0
        # the last frames are kept for the motion trail in the report
        self.frames = deque([self._frame()] * 6, maxlen=6)
        return self._get_obs(), {}

    def _tip(self) -> Any:
        a, b = self.q[0], self.q[0] + self.q[1]
        return np.array([self.L1 * math.cos(a) + self.L2 * math.cos(b), self.L1 * math.sin(a) + self.L2 * math.sin(b)])

    def _frame(self) -> Any:
        return np.concatenate([np.cos(self.q), np.sin(self.q), self._tip()])

    def _get_obs(self) -> Any:
        latest = self.frames[-1]
        return np.concatenate([latest, self.target]).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        u = np.clip(np.asarray(action, float), -1.0, 1.0)
        self.q = self.q + u * self.MAX_SPEED * self.DT
        self.t += 1
        self.frames.append(self._frame())
        distance = float(np.linalg.norm(self._tip() - self.target))
        effort = 0.01 * float(u @ u)
        reward = -distance - effort
        return self._get_obs(), reward, False, self.t >= self.HORIZON, {"is_success": distance < 0.05}


def make() -> ReachArm:
    return ReachArm()


def expert(obs: Any) -> Any:
    """The joint angles that reach the marker, of both solutions the nearer one, and straight there."""
    one, two = ReachArm.L1, ReachArm.L2
    now = np.arctan2(obs[2:4], obs[:2])
    x, y = float(obs[6]), float(obs[7])
    bend = math.acos(min(1.0, max(-1.0, (x * x + y * y - one**2 - two**2) / (2.0 * one * two))))
    ways = []
    for elbow in (bend, -bend):
        shoulder = math.atan2(y, x) - math.atan2(two * math.sin(elbow), one + two * math.cos(elbow))
        ways.append((np.array([shoulder, elbow]) - now + math.pi) % (2.0 * math.pi) - math.pi)
    way = min(ways, key=lambda turn: float(np.abs(turn).max()))
    return np.clip(way / (ReachArm.MAX_SPEED * ReachArm.DT), -1.0, 1.0).astype(np.float32)
