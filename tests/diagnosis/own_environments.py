"""Environments as people write them, sound, and each with one line that is wrong."""

from typing import Final, NamedTuple

BOAT: Final = '''import gymnasium as gym
import numpy as np


class Boat(gym.Env):
    """A boat that has to come to rest at the pier, against a wind that blows through the whole episode."""

    def __init__(self, limit=60):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1.5, 1.5)
        self.v = self.np_random.uniform(-0.1, 0.1)
        self.wind = self.np_random.uniform(-0.02, 0.02)
        self.steps = 0
        self.owed = 0.0
        return self._observe(), {}

    def _observe(self):
        return np.array([self.x, 5.0 * self.v, 40.0 * self.wind], np.float32)

    def step(self, action):
        thrust = float(np.clip(action[0], -1.0, 1.0))
        self.v += 0.08 * thrust + self.wind - 0.1 * self.v
        self.x += self.v
        self.steps += 1
        docked = abs(self.x) < 0.15 and abs(self.v) < 0.1
        lost = abs(self.x) > 4.0
        reward = 3.0 * docked - 0.2 * abs(self.x) - 0.02 * thrust**2
        terminated = docked or lost
        truncated = self.steps >= self.limit
        return self._observe(), reward, terminated, truncated, {"is_success": docked}
'''

SHOP: Final = '''import gymnasium as gym
import numpy as np


class Shop(gym.Env):
    """How much to order of something that is sold every day, and that goes bad."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = self.np_random.uniform(0.0, 8.0)
        self.season = self.np_random.uniform(0.0, 6.28)
        self.day = 0
        return self.look(), {}

    def look(self):
        return np.array([self.stock / 4.0 - 1.0, np.sin(self.season)], np.float32)

    def step(self, action):
        wanted = 2.0 + 1.5 * np.sin(self.season)
        sold = min(self.stock, wanted)
        self.stock = 0.9 * (self.stock - sold) + float(action)
        self.season += 0.3
        self.day += 1
        reward = 0.5 * sold - 0.2 * float(action) - 0.05 * self.stock
        return self.look(), float(reward), False, self.day >= 50, {}
'''


class Fault(NamedTuple):
    """A sound environment, and what somebody wrote instead of what."""

    sound: str
    changes: tuple[tuple[str, str], ...]
    cause: str
    """What a diagnosis should say."""
    line: str
    """The line that should be named, as it begins."""
    threshold: float = 20.0

    def write(self) -> str:
        """The faulty source."""
        source = self.sound
        for right, wrong in self.changes:
            assert source.count(right) == 1, right
            source = source.replace(right, wrong)
        return source


THRUST: Final = "        thrust = float("
ENDS: Final = "        terminated = docked or lost\n"
FAULTS: Final = {
    "sign": Fault(
        BOAT,
        (("return self._observe(), reward", "return self._observe(), -reward"),),
        "reward-sign",
        "return self._observe(), -reward",
        2.0,
    ),
    "scale": Fault(SHOP, (("reward = 0.5 * sold", "reward = 5000.0 * sold"),), "reward-scale-too-large", "reward = 5000.0 * sold"),
    "units": Fault(BOAT, (("array([self.x, 5.0", "array([1000.0 * self.x, 5.0"),), "observation-scale", "return np.array([1000.0"),
    "stale observation": Fault(
        BOAT,
        ((THRUST, f"        obs = self._observe()\n{THRUST}"), ("return self._observe(), reward", "return obs, reward")),
        "observation-late",
        "obs = self._observe()",
    ),
    "action ignored": Fault(BOAT, ((THRUST, f"        action = np.zeros(1)\n{THRUST}"),), "actions-without-effect", "action = np.zeros(1)"),
    "equal starts": Fault(SHOP, (("super().reset(seed=seed)", "super().reset(seed=7)"),), "starts-identical", "super().reset(seed=7)"),
    "terminated at the limit": Fault(
        SHOP,
        (("False, self.day >= 50, {}", "self.day >= 50, False, {}"),),
        "time-limit-as-terminal",
        "return self.look(), float(reward), self.day >= 50",
    ),
    "reward delayed": Fault(
        BOAT,
        (
            (
                ENDS,
                "        self.owed += reward\n        reward = self.owed if self.steps % 15 == 0 else 0.0\n"
                f"        self.owed -= reward\n{ENDS}",
            ),
        ),
        "reward-delayed",
        "reward = self.owed if",
    ),
    "normalized twice": Fault(
        SHOP,
        (("np.sin(self.season)], np.float32)", "np.sin(self.season)], np.float32) / 40.0 / 40.0"),),
        "observation-scale",
        "return np.array([self.stock / 4.0",
    ),
}
"""Of those that keep a run from learning."""

LINTED: Final = {
    "missing truncation": (SHOP, "False, self.day >= 50, {}", "False, False, {}", "ENV209", "return self.look(), float(reward), False"),
    "success wrong": (BOAT, '{"is_success": docked}', '{"is_success": self.steps > 0}', "ENV417", "is_success"),
    "seed ignored": (SHOP, "self.np_random.uniform(0.0, 8.0)", "np.random.uniform(0.0, 8.0)", "ENV203", "np.random.uniform(0.0, 8.0)"),
}
"""Of those that a look before training should name: what is right, what is wrong, the check, a part of the line."""
