"""Keeping a patient asleep: how fast to infuse, once every quarter of a minute.

Three compartments (blood, muscle, brain); what counts is how close the depth of sleep is to what the surgeon asks for.
Concentrations in mg/l, weight in kg, the pump's rate from 0 (off) to 1 (full).
"""

import math
from typing import Any

import gymnasium as gym
import numpy as np

MINUTES = 0.25
PUMP = 60.0  # mg/min at full rate
TOO_DEEP = 92.0


class Anaesthesia(gym.Env[Any, Any]):
    """The patient differs from episode to episode, the surgeon's wish changes once within each."""

    def __init__(self, length: int = 160) -> None:
        self.length = length
        # depth of sleep now, depth wanted (both of 100), in blood, in muscle, in the brain, weight
        self.observation_space = gym.spaces.Box(0.0, 20.0, (6,), np.float32)
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        draw = self.np_random.uniform
        self.weight = draw(50.0, 110.0)
        self.wishes = draw(35.0, 70.0, 2)
        self.second = int(self.np_random.integers(60, 100))
        self.blood, self.muscle = draw(0.0, 2.0), draw(0.0, 1.0)
        self.brain = draw(0.0, 1.0)
        self.tick = 0
        self.record = [self._chart()]
        return self._chart(), {}

    def depth(self) -> float:
        return 100.0 * self.brain**2 / (self.brain**2 + 9.0)

    def wish(self) -> float:
        return float(self.wishes[0] if self.tick < self.second else self.wishes[1])

    def _chart(self) -> Any:
        chart = [self.depth() / 50.0, self.wish() / 50.0, self.blood / 5.0, self.muscle / 5.0, self.brain / 5.0, self.weight / 80.0]
        return np.clip(np.array(chart, np.float32), 0.0, 20.0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        rate = float(np.clip(action, 0.0, 1.0)[0])
        litres = 0.2 * self.weight
        inflow = PUMP * rate / litres
        flow_muscle = 0.25 * (self.blood - self.muscle)
        flow_brain = 0.9 * (self.blood - self.brain)
        self.blood += MINUTES * (inflow - 0.3 * self.blood - flow_muscle)
        self.muscle += MINUTES * 0.5 * flow_muscle
        self.brain += MINUTES * flow_brain
        self.tick += 1
        depth = self.depth()
        miss = abs(depth - self.wish())
        reward = 0.3 - miss / 50.0
        emergency = depth > TOO_DEEP
        if emergency:
            reward -= 30.0
        self.record.append(self._chart())
        return self._chart(), reward, emergency, self.tick >= self.length, {"miss": miss}


def make() -> Anaesthesia:
    return Anaesthesia()


def expert(obs: Any) -> Any:
    """The brain level that is wished for, what holds it, and a push towards it."""
    wish = min(max(float(obs[1]) * 50.0, 1.0), 94.0)
    level = 3.0 * math.sqrt(wish / (100.0 - wish))
    blood, muscle, brain, litres = float(obs[2]) * 5.0, float(obs[3]) * 5.0, float(obs[4]) * 5.0, float(obs[5]) * 16.0
    hold = 0.3 * level + 0.25 * (level - muscle)
    return np.array([np.clip((hold + 2.0 * (level + 0.8 * (level - brain) - blood)) * litres / PUMP, 0.0, 1.0)], np.float32)
