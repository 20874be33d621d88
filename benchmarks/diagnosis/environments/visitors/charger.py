"""Overnight charging of one electric car under a tariff that changes through the night.

The car comes at 18:00 and leaves at 06:00. Units: kWh, kW, h, EUR.
"""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np


@dataclass
class Tariff:
    base: float
    swing: float
    cheapest: float
    ripple: Any

    def at(self, slot: int, hour: float) -> float:
        return self.base + self.swing * float(np.cos(2 * np.pi * (hour - self.cheapest) / 12.0 + np.pi)) + float(self.ripple[slot])


class NightCharging(gym.Env[Any, Any]):
    DT = 0.2
    SLOTS = 60
    MAX_POWER = 7.0
    PENALTY = 2.0  # EUR for each kWh that is missing in the morning

    def __init__(self) -> None:
        # need [kWh], time left [h], price now, usual price of the night [EUR/kWh]
        self.observation_space = gym.spaces.Box(np.array([0, 0, -1, -1]), np.array([60, 12, 2, 2]), dtype=np.float64)
        self.action_space = gym.spaces.Box(0.0, self.MAX_POWER, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        rng = self.np_random
        ripple = rng.normal(0.0, 0.03, self.SLOTS + 1)
        self.tariff = Tariff(rng.uniform(0.3, 0.5), rng.uniform(0.15, 0.25), rng.uniform(3.0, 9.0), ripple)
        self.need = rng.uniform(25.0, 55.0)
        self.slot = 0
        self.hour = 0.0
        self.bill = 0.0
        return self._state(), {}

    def _state(self) -> Any:
        left = (self.SLOTS - self.slot) * self.DT
        price = self.tariff.at(self.slot, self.hour) if self.slot <= self.SLOTS else self.tariff.base
        return np.array([self.need, max(left, 0.0), price, self.tariff.base])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        power = float(np.clip(np.asarray(action).reshape(-1)[0], 0.0, self.MAX_POWER))
        energy = min(self.need, power * self.DT)
        cost = energy * self.tariff.at(min(self.slot, self.SLOTS), self.hour)
        self.need -= energy
        self.slot += 1
        self.hour += self.DT
        leaves = self.slot >= self.SLOTS
        missing = self.PENALTY * self.need if leaves else 0.0
        self.bill += cost + missing
        reward = -(cost + missing)
        return self._state(), reward, leaves, False, {"bill": self.bill}


def make() -> NightCharging:
    return NightCharging()


def expert(obs: Any) -> Any:
    """Charge where it is cheaper than usual, or where the time is running out."""
    need, left, price, usual = (float(value) for value in obs)
    urgent = need > (left - 0.4) * NightCharging.MAX_POWER
    return np.array([NightCharging.MAX_POWER if urgent or price < usual - 0.05 else 0.0], np.float32)
