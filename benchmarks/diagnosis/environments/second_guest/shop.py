"""What to show next in a shop's app. A click pays; whoever is bored three times in a row closes the app."""

from typing import Any

import gymnasium as gym
import numpy as np

N_ITEMS, N_TASTES = 8, 4
CATALOGUE = np.random.default_rng(11).normal(0.0, 1.0, (N_ITEMS, N_TASTES))
CATALOGUE /= np.linalg.norm(CATALOGUE, axis=1, keepdims=True)


class Shop(gym.Env[Any, Any]):
    def __init__(self, patience: int = 3, screens: int = 50) -> None:
        self.patience, self.screens = patience, screens
        self.observation_space = gym.spaces.Dict(
            {
                "taste": gym.spaces.Box(-5.0, 5.0, (N_TASTES,), np.float32),
                "seen": gym.spaces.Box(0.0, 1.0, (N_ITEMS,), np.float32),
                "bored": gym.spaces.Discrete(patience + 1),
            }
        )
        self.action_space = gym.spaces.Discrete(N_ITEMS)
        self.seen = np.zeros(N_ITEMS)

    def _obs(self) -> dict[str, Any]:
        return {"taste": self.taste.astype(np.float32), "seen": self.seen.astype(np.float32), "bored": self.bored}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.taste = np.clip(self.np_random.normal(0.0, 1.0, N_TASTES), -5.0, 5.0)
        self.seen = np.zeros(N_ITEMS)
        self.bored = 0
        self.screen = 0
        self.clicks = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        item = int(action)
        appeal = 2.5 * float(CATALOGUE[item] @ self.taste) - 3.0 * self.seen[item]
        click = self.np_random.random() < 1.0 / (1.0 + np.exp(-appeal))
        # What was shown a moment ago is dull for a while.
        self.seen *= 0.8
        self.seen[item] = 1.0
        self.screen += 1
        self.clicks += int(click)
        self.bored = 0 if click else self.bored + 1
        reward = float(click)
        leaves = self.bored >= self.patience
        return self._obs(), reward, leaves, self.screen >= self.screens, {"clicks": self.clicks}


def make() -> Shop:
    return Shop()


def expert(obs: Any) -> int:
    return int(np.argmax(2.5 * CATALOGUE @ obs["taste"] - 3.0 * obs["seen"]))
