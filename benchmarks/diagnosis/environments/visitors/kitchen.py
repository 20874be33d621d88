"""
Soup kitchen.

An order card says what goes into the pot. Put all of it in, bring the stove to a good heat and let it cook;
too hot and it sticks to the bottom.
"""

from typing import Any

import gymnasium as gym
import numpy as np

INGREDIENTS = ("carrot", "leek", "potato", "celery")
NOTHING = len(INGREDIENTS)
TOO_HOT = 0.8


class SoupKitchen(gym.Env[Any, Any]):
    """Action: (ingredient or nothing, turn the stove down / leave it / turn it up)."""

    LIMIT = 60

    def __init__(self) -> None:
        n = len(INGREDIENTS)
        self.observation_space = gym.spaces.Dict(
            {
                "order": gym.spaces.MultiBinary(n),
                "pot": gym.spaces.MultiBinary(n),
                "stove": gym.spaces.Box(0.0, 1.0, (1,), np.float32),
                "cooked": gym.spaces.Box(0.0, 1.0, (1,), np.float32),
            }
        )
        self.action_space = gym.spaces.MultiDiscrete([n + 1, 3])
        self.pot = np.zeros(n, np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.order = self.np_random.integers(0, 2, len(INGREDIENTS), np.int8)
        self.order[self.np_random.integers(len(INGREDIENTS))] = 1
        self.pot[:] = 0
        self.stove, self.cooked, self.minutes = 0.0, 0.0, 0
        return self.look(), {}

    def look(self) -> dict[str, Any]:
        return {
            "order": self.order.copy(),
            "pot": self.pot.copy(),
            "stove": np.array([self.stove], np.float32),
            "cooked": np.array([min(self.cooked, 1.0)], np.float32),
        }

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ingredient, knob = int(action[0]), int(action[1])
        self.minutes += 1
        reward = -0.05
        if ingredient != NOTHING:
            wanted = self.order[ingredient] == 1 and self.pot[ingredient] == 0
            reward += 1.0 if wanted else -0.5
            self.pot[ingredient] = 1

        self.stove = min(1.0, max(0.0, self.stove + 0.2 * (knob - 1)))
        complete = bool((self.pot >= self.order).all())
        if complete:
            self.cooked += 0.15 * self.stove
        if self.stove > TOO_HOT + 1e-6:
            reward -= 0.3

        served = self.cooked >= 1.0
        if served:
            reward += 3.0
        return self.look(), reward, served, self.minutes >= self.LIMIT, {"is_success": served}


def make() -> SoupKitchen:
    return SoupKitchen()


def expert(obs: dict[str, Any]) -> Any:
    missing = np.flatnonzero((obs["order"] == 1) & (obs["pot"] == 0))
    ingredient = int(missing[0]) if len(missing) else NOTHING
    stove = float(obs["stove"][0])
    return np.array([ingredient, 2 if stove < 0.7 else 0 if stove > 0.9 else 1])
