"""
Mean-reversion toy market
=========================
One asset, one year of trading days. Be short, flat or long each day.
Reward is the day's profit in percent, after fees.
"""

from typing import Any

import gymnasium as gym
import numpy as np

SHORT, FLAT, LONG = 0, 1, 2
WINDOW = 6


class TradingEnv(gym.Env[Any, Any]):
    metadata = {"render_modes": []}  # noqa: RUF012

    FAIR_VALUE = 40_000.0
    FEE = 0.0005
    DAYS = 200

    def __init__(self, volatility: float = 0.02, reversion: float = 0.2) -> None:
        self.volatility, self.reversion = volatility, reversion
        self.action_space = gym.spaces.Discrete(3)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (WINDOW + 1,), np.float32)

    def _simulate_year(self) -> Any:
        shocks = self.np_random.normal(0.0, self.volatility, self.DAYS + WINDOW)
        deviation = np.zeros(self.DAYS + WINDOW + 1)
        for day, shock in enumerate(shocks):
            deviation[day + 1] = (1.0 - self.reversion) * deviation[day] + shock
        return self.FAIR_VALUE * np.exp(deviation)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.prices = self._simulate_year()
        self.day = WINDOW
        self.position = 0
        return self._observation(), {}

    def _observation(self) -> Any:
        window = self.prices[self.day - WINDOW + 1 : self.day + 1]
        features = 20.0 * np.log(window / self.FAIR_VALUE)
        return np.append(features, self.position).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        target = int(action) - 1
        change = target - self.position
        self.position = target
        move = np.log(self.prices[self.day + 1] / self.prices[self.day])
        self.day += 1
        pnl = self.position * move - self.FEE * abs(change)
        reward = float(100.0 * pnl)
        done = self.day >= self.DAYS + WINDOW
        return self._observation(), reward, False, done, {"pnl": pnl}


def make() -> TradingEnv:
    return TradingEnv()


def expert(obs: Any) -> int:
    """Fade the deviation; in between, keep what is held."""
    deviation, position = float(obs[-2]), round(float(obs[-1]))
    if abs(deviation) < 0.1:
        return position + 1
    return SHORT if deviation > 0 else LONG
