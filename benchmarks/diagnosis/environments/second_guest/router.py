"""Jobs come one after the other, and each is sent to one of four servers, some of them faster than others.

A job pays what its customer waits for it: the backlog before it and its own work.
"""

from typing import Any

import gymnasium as gym
import numpy as np


class Router(gym.Env[Any, Any]):
    SPEED = (4.0, 2.0, 1.0, 1.0)  # work per second
    LOAD = 0.8
    JOBS = 200
    FULL = 30.0  # s of backlog, no more: what comes then is turned away

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 100.0, (5,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def next_job(self) -> float:
        return min(float(self.np_random.exponential(1.0)), 10.0)

    def gauges(self) -> Any:
        return np.array([*(self.backlog / 5.0), self.job], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.backlog = self.np_random.uniform(0.0, 3.0, 4)  # s until what is there is done
        self.job = self.next_job()
        self.served, self.owed = 0, 0.0
        return self.gauges(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        server = int(action)
        wait = self.backlog[server] + self.job / self.SPEED[server]
        if wait <= self.FULL:
            self.backlog[server] = wait
        reward = -0.1 * min(float(wait), self.FULL)
        gap = self.np_random.exponential(1.0 / (self.LOAD * sum(self.SPEED)))
        self.backlog = np.maximum(self.backlog - gap, 0.0)
        self.job = self.next_job()
        self.served += 1
        return self.gauges(), reward, False, self.served >= self.JOBS, {"wait": float(wait)}


def make() -> Router:
    return Router()


def expert(obs: Any) -> int:
    """Where it will be done first."""
    return int(np.argmin(np.asarray(obs[:4]) * 5.0 + float(obs[4]) / np.array(Router.SPEED)))
