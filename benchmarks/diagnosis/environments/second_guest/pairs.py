"""Pairs trading: the spread of two shares wanders off and comes back. Short, nothing, or long; changing costs a fee.

Money is counted in units of the spread's usual deviation.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray


class Pairs(gym.Env[NDArray[np.float32], np.int64]):
    BACK = 0.08  # how much of the way the spread comes back in a bar
    FEE = 0.06
    BARS = 250
    CALL = -6.0  # the bank closes the account

    def __init__(self) -> None:
        # spread, its last change, position, share A's price (of 100), equity
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.equity = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.spread = float(self.np_random.normal())
        self.change = 0.0
        self.price = 100.0 * float(self.np_random.uniform(0.8, 1.2))
        self.position = 0
        self.equity = 0.0
        self.bar = 0
        self.tape = [self.spread]
        return self._tick(), {}

    def _tick(self) -> NDArray[np.float32]:
        return np.array([self.spread, self.change, self.position, self.price / 100.0, self.equity / 10.0], np.float32)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        held, self.position = self.position, int(action) - 1
        fee = self.FEE * abs(self.position - held)
        shock = float(self.np_random.normal(0.0, np.sqrt(1.0 - (1.0 - self.BACK) ** 2)))
        self.change = -self.BACK * self.spread + shock
        self.spread += self.change
        self.price *= float(np.exp(self.np_random.normal(0.0, 0.01)))
        profit = self.position * self.change - fee
        self.equity += profit
        self.tape.append(self.spread)
        self.bar += 1
        called = self.equity < self.CALL
        reward = profit
        return self._tick(), reward, called, self.bar >= self.BARS, {"equity": self.equity}


def make() -> Pairs:
    return Pairs()


def expert(obs: Any) -> int:
    """Against the spread once it is far off; out again where it is back."""
    spread, position = float(obs[0]), round(float(obs[2]))
    if abs(spread) > 0.7:
        return 0 if spread > 0 else 2
    return 1 if position * spread > 0 or position == 0 else position + 1
