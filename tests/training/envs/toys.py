"""Small environments with known behaviour, importable by env workers."""

import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlclinic.rewards import Ramp, Rewards


class Walk(gym.Env[Any, Any]):
    """Observation [steps in this episode, a number drawn at reset]; reward is the action; terminates after `length` steps."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  (Gymnasium's own way)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: Any = spaces.Discrete(3)

    def __init__(self, length: int = 5, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.taken, self.drawn = 0, self.np_random.uniform()
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        self.taken += 1
        over = self.taken >= self.length
        return self._obs(), float(np.sum(action)), over, False, {"is_success": bool(np.sum(action) > 0)} if over else {}

    def _obs(self) -> Any:
        return np.array([self.taken, self.drawn], np.float32)

    def render(self) -> Any:
        return np.full((2, 2, 3), self.taken, np.uint8)

    def close(self) -> None:
        self.closed = True


class Talking(Walk):
    """A Walk of three steps that says what it is paid for; its last step pays the goal."""

    def __init__(self) -> None:
        super().__init__(length=3)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        info |= {"reward_terms": {"goal": float(terminated) * 4, "cost": -1.0, "word": "none"}, "taken": self.taken, "picture": np.ones(3)}
        return obs, reward, terminated, truncated, info


class Faulty(Walk):
    """A Walk that goes wrong at its `at`-th step in all, counting over episodes, if the seed it drew is below `share`."""

    def __init__(self, fault: str, at: int = 3, share: float = 1.0) -> None:
        super().__init__(length=4)
        self.fault, self.at, self.share = fault, at, share
        self.total, self.chosen = 0, None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed)
        if self.chosen is None:
            self.chosen = self.drawn < self.share
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.total += 1
        if self.chosen and self.total == self.at:
            if self.fault == "raise":
                raise ValueError("the wheel came off")
            if self.fault == "obs":
                obs[1] = np.nan
            if self.fault == "reward":
                reward = np.inf
        return obs, reward, terminated, truncated, info


class Shaped(gym.Env[Any, Any]):
    """Any spaces: observations are samples, the last action is kept in `acted`."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.acted: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.seen = self.observation_space.sample()
        return self.seen, {}

    def step(self, action: Any) -> Any:
        self.acted.append(action)
        self.seen = self.observation_space.sample()
        return self.seen, 0.0, False, False, {}


class Masked(Walk):
    """Allows action (steps taken) mod 3 only."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, _ = super().reset(seed=seed)
        return obs, {"action_mask": self._mask()}

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "action_mask": self._mask()}

    def _mask(self) -> Any:
        return (np.arange(3) == self.taken % 3).astype(np.int8)


class MadeHereOnly(Walk):
    """Can be made in the process `pid` only."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        if os.getpid() != pid:
            raise RuntimeError("it works only where it was written")


class Misshapen(Shaped):
    """Gives `wrong` instead of an observation at its third step."""

    def __init__(self, observation_space: Any, wrong: Any) -> None:
        super().__init__(observation_space, spaces.Discrete(2))
        self.wrong, self.taken = wrong, 0

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        self.taken += 1
        return (self.wrong if self.taken == 3 else obs), *rest


class MisshapenVector(gym.vector.VectorEnv[Any, Any, Any]):
    """Two numbers per env; at the third step, `fault` has the shape of one env's."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 2, fault: str = "obs") -> None:
        self.num_envs, self.fault, self.taken = num_envs, fault, 0
        self.single_observation_space, self.single_action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        self.taken += 1
        given: dict[str, Any] = {"obs": np.zeros((self.num_envs, 2), np.float32), "reward": np.zeros(self.num_envs)}
        given |= {"terminated": np.zeros(self.num_envs, bool), "truncated": np.zeros(self.num_envs, bool)}
        if self.taken == 3:
            given[self.fault] = given[self.fault][:1]
        return *given.values(), {}


class Fading(Walk):
    """Pays 1 in every step at first, and nothing after ten steps of it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.rewards = Rewards(0.99, {"help": Ramp(1.0, 0.0, 10)})

    def reset(self, **given: Any) -> Any:
        self.rewards.reset(0)
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        obs, _, *ends, info = super().step(action)
        reward, said = self.rewards.step({"help": 1.0}, 0, False)
        return obs, reward, *ends, {**info, **said}
