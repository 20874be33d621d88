"""Ordering for a warehouse: three products, an order for each of them every evening, delivered over night a day later.

action: MultiDiscrete([6, 6, 6]), how many pallets of each to order (a pallet holds 8)
obs: stock (3), on its way (3), what customers usually take tomorrow (3), cash
"""

from typing import Any

import gymnasium as gym
import numpy as np

PRICE = np.array([9.0, 14.0, 20.0])
COST = np.array([5.0, 8.0, 11.0])
STORAGE = np.array([0.15, 0.2, 0.3])
PALLET, ROOM, DAYS = 8, 80, 60


class Warehouse(gym.Env[Any, Any]):
    def __init__(self, days: int = DAYS) -> None:
        super().__init__()
        self.days = days
        self.action_space = gym.spaces.MultiDiscrete([6, 6, 6])
        self.observation_space = gym.spaces.Box(-2.0, 50.0, (10,), np.float64)

    def usual(self, day: int) -> Any:
        """What is bought on average; more towards the weekend, more in some seasons than in others."""
        weekend = 1.0 + 0.6 * np.sin(2 * np.pi * (day % 7) / 7)
        return self.season * weekend

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.season = self.np_random.uniform(5.0, 15.0, 3)
        self.stock = self.np_random.integers(5, 30, 3).astype(float)
        self.opening = self.stock.copy()
        self.coming = np.zeros(3)
        self.cash = 600.0
        self.day = int(self.np_random.integers(7))
        self.last_day = self.day + self.days
        self.ledger = 0.0
        return self.look(), {}

    def look(self) -> Any:
        return np.concatenate([self.stock / ROOM, self.coming / ROOM, self.usual(self.day + 1) / ROOM, [min(self.cash / 1000.0, 50.0)]])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.day += 1
        self.stock = np.minimum(self.stock + self.coming, ROOM)
        self.coming = np.zeros(3)
        bill = 0.0
        for shelf in range(3):
            pallets = int(action[shelf])
            self.coming[shelf] = pallets * PALLET
            bill += pallets * PALLET * COST[shelf]
        wanted = self.np_random.poisson(self.usual(self.day))
        sold = np.minimum(wanted, self.stock)
        self.stock -= sold
        profit = float((sold * PRICE).sum() - bill - (self.stock * STORAGE).sum())
        self.cash += profit
        reward = profit / 100.0
        broke = self.cash < -1000.0
        return self.look(), reward, broke, self.day >= self.last_day, {"sold": sold}


def make() -> Warehouse:
    return Warehouse()


def expert(obs: Any) -> Any:
    """Order up to what two days take, and a little more for luck."""
    stock, coming, usual = obs[:3], obs[3:6], obs[6:9]
    lack = (2.3 * usual - np.maximum(stock + coming, 0.0)) * ROOM
    return np.clip(np.round(lack / PALLET), 0, 5).astype(np.int64)
