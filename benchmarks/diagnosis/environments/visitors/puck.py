"""Goal-conditioned: slide a puck to the flag. Follows the GoalEnv convention (achieved_goal, desired_goal, compute_reward)."""

from collections import OrderedDict
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class SlidePuck(gym.Env[Any, Any]):
    """The hand drags the puck along by friction while it is on it."""

    reach: float = 0.4
    stride: float = 0.1
    tolerance: float = 0.1
    duration: int = 60

    def __init__(self) -> None:
        def box(size: int) -> gym.spaces.Box:
            return gym.spaces.Box(-1.5, 1.5, (size,), np.float32)

        self.observation_space = gym.spaces.Dict({"observation": box(4), "achieved_goal": box(2), "desired_goal": box(2)})
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.puck = self.np_random.uniform(-0.8, 0.8, 2).astype(np.float32)
        self.hand = np.clip(self.puck + self.np_random.uniform(-0.2, 0.2, 2), -1.0, 1.0).astype(np.float32)
        self.goal = self.np_random.uniform(-0.9, 0.9, 2).astype(np.float32)
        self.elapsed = 0
        return self._get_obs(), {}

    def _get_obs(self) -> dict[str, Vector]:
        return OrderedDict(
            observation=np.concatenate([self.hand, self.puck]).astype(np.float32),
            achieved_goal=self.puck.astype(np.float32),
            desired_goal=self.goal.astype(np.float32),
        )

    def compute_reward(self, achieved_goal: Vector, desired_goal: Vector, info: dict[str, Any]) -> float:
        distance = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return -float(distance)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = self.stride * np.clip(action, -1.0, 1.0)
        touching = np.linalg.norm(self.hand - self.puck) < self.reach
        self.hand = np.clip(self.hand + move, -1.0, 1.0)
        if touching:
            self.puck = np.clip(self.puck + move, -1.0, 1.0)
        self.elapsed += 1
        obs = self._get_obs()
        info = {"is_success": bool(np.linalg.norm(self.puck - self.goal) < self.tolerance)}
        reward = self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)
        return obs, reward, False, self.elapsed >= self.duration, info


def make() -> SlidePuck:
    return SlidePuck()


def expert(obs: dict[str, Any]) -> Any:
    hand, puck = obs["observation"][:2], obs["observation"][2:]
    aim = obs["desired_goal"] - puck if np.linalg.norm(hand - puck) < 0.38 else puck - hand
    return np.clip(aim / 0.1, -1.0, 1.0).astype(np.float32)
