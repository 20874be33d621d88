"""Environments of the tests' own: one per kind of action space, and some that break on purpose."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Signs(gym.Env[Any, Any]):
    """Observe three signs; each part of the action that fits its sign pays. Episodes last `length` steps; `kind` names the action space."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, kind: str = "discrete", length: int = 4) -> None:
        self.action_space: Any = {
            "discrete": spaces.Discrete(2),
            "box": spaces.Box(-1, 1, (3,), np.float32),
            "multi_discrete": spaces.MultiDiscrete([2, 3]),
            "multi_binary": spaces.MultiBinary(3),
        }[kind]
        self.length = length
        self.taken = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        parts = np.ravel(action)
        reward = float(np.mean((parts > 0) == (self.signs[: len(parts)] > 0)))
        self.taken += 1
        return self._observe(), reward, False, self.taken >= self.length, {}

    def _observe(self) -> Any:
        self.signs = self.np_random.choice([-1.0, 1.0], 3).astype(np.float32)
        return self.signs


class Resetting(gym.vector.SyncVectorEnv):
    """Three-step episodes that are reset in the step after their end: that step is no transition."""

    def __init__(self, num_envs: int = 2, kind: str = "discrete") -> None:
        super().__init__([lambda: Signs(kind, length=3)] * num_envs, autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP)


class Fragile(Signs):
    """Signs until its `last`-th step in all; then it raises, or gives what `gives` says."""

    def __init__(self, last: int = 20, gives: str = "raise") -> None:
        super().__init__()
        self.last, self.gives, self.steps = last, gives, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        obs, reward, terminated, truncated, info = super().step(action)
        if self.steps >= self.last:
            if self.gives == "raise":
                raise RuntimeError("the simulator fell over")
            if self.gives == "nan reward":
                reward = float("nan")
            else:
                obs = np.full_like(obs, np.inf)
        return obs, reward, terminated, truncated, info


class Slippery(gym.Env[Any, Any]):
    """Refuses, by raising, every action that its own mask forbids; which one is allowed changes at each step."""

    observation_space = spaces.Box(0, 1, (4,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return self._observe()

    def step(self, action: Any) -> Any:
        if not self.allowed[action]:
            raise ValueError(f"action {action} was forbidden")
        self.taken += 1
        obs, info = self._observe()
        return obs, 1.0, self.taken >= 5, False, info

    def _observe(self) -> Any:
        self.allowed = np.zeros(4, np.int8)
        self.allowed[self.np_random.choice(4, 2, replace=False)] = 1
        return self.np_random.uniform(size=4).astype(np.float32), {"action_mask": self.allowed}


class Paying(gym.Env[Any, Any]):
    """One observation, 0, and a reward of 1 for every step; a limit cuts the episode after `length` steps. V is 1 / (1 - gamma)."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length, self.taken = length, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        return np.zeros(1, np.float32), 1.0, False, self.taken >= self.length, {}


class PayingVector(gym.vector.SyncVectorEnv):
    """Several of them in one vector environment that resets as `mode` says."""

    def __init__(self, num_envs: int = 2, mode: str = "NEXT_STEP", length: int = 3) -> None:
        super().__init__([lambda: Paying(length)] * num_envs, autoreset_mode=gym.vector.AutoresetMode[mode])
        self.spec = gym.envs.registration.EnvSpec("Paying-v0", entry_point="none", max_episode_steps=length)


class Corridor(gym.Env[Any, Any]):
    """Places 0, 1 and 2, which pay 1, 2 and 4 when they are left. Every other episode is cut at place 2; the others end behind it.

    So with gamma the values are 4, 2 + 4 gamma and 1 + 2 gamma + 4 gamma^2, whatever is done, if the cut is bootstrapped and the end is
    not. With `masked`, one action is forbidden at each place, and taking it raises.
    """

    observation_space = spaces.Box(0, 3, (1,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, masked: bool = False, continuous: bool = False) -> None:
        self.masked, self.episodes, self.place = masked, -1, 0
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if continuous else spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.episodes = 0, self.episodes + 1
        return self._observe()

    def step(self, action: Any) -> Any:
        if self.masked and not self._mask()[action]:
            raise ValueError(f"action {action} is forbidden at place {self.place}")
        reward, self.place = float(2**self.place), self.place + 1
        obs, info = self._observe()
        return obs, reward, self.place == 3, self.place == 2 and self.episodes % 2 == 1, info

    def _mask(self) -> Any:
        return np.arange(2) == self.place % 2

    def _observe(self) -> Any:
        return np.array([self.place], np.float32), {"action_mask": self._mask()} if self.masked else {}


class CorridorVector(gym.vector.SyncVectorEnv):
    """Several corridors in a vector environment that resets as `mode` says."""

    def __init__(self, num_envs: int = 2, mode: str = "NEXT_STEP", masked: bool = False, continuous: bool = False) -> None:
        super().__init__([lambda: Corridor(masked, continuous)] * num_envs, autoreset_mode=gym.vector.AutoresetMode[mode])
        self.spec = gym.envs.registration.EnvSpec("Corridor-v0", entry_point="none", max_episode_steps=3)


class Trap(gym.Env[Any, Any]):
    """State 0: action 0 costs 1 and leads to state 1, action 1 costs 5 and ends. State 1 allows only action 1, which costs 10 and ends.

    The best return is -5. Whoever believes that action 0 can be taken in state 1, where nothing was ever paid for it, goes there.
    """

    observation_space = spaces.Discrete(2)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = 0
        return self.state, self._info()

    def step(self, action: Any) -> Any:
        if not self._info()["action_mask"][action]:
            raise ValueError(f"action {action} was forbidden in state {self.state}")
        if self.state == 0 and action == 0:
            self.state = 1
            return 1, -1.0, False, False, self._info()
        return self.state, -5.0 if self.state == 0 else -10.0, True, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.state == 0, True])}


class Hall(gym.Env[Any, Any]):
    """Run (pays 2, costs 1), walk (pays 1, costs nothing) or stand."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(3)
    cost: Any = "cost"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        ran, walked = float(action == 0), float(action == 1)
        spoken: dict[str, dict[str, Any]] = {
            "cost": {"cost": ran},
            "costs": {"costs": {"knees": ran, "shoes": 0.0}},
            "none": {},
            "nan": {"cost": np.nan},
            "always": {"cost": 1.0},
        }
        info = {**spoken[self.cost], "reward_terms": {"run": 2 * ran, "walk": walked}}
        return np.array([self.steps / 10 - 1], np.float32), 2 * ran + walked, False, self.steps >= 10, info


class Parts(Hall):
    cost = "costs"


class Toll(Hall):
    """Every step costs 1, so that an episode costs 10."""

    cost = "always"


class Silent(Hall):
    cost = "none"


class Broken(Hall):
    cost = "nan"
