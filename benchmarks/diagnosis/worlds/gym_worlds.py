"""Worlds as Gymnasium environments, one at a time, and the same faults around them: for Stable-Baselines3."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.worlds import families

Env = gym.Env[Any, Any]


class WorldEnv(gym.Env[Any, Any]):
    """One world. `info["reward_terms"]` has what the reward is made of, `info["is_success"]` is there where the world reports it."""

    def __init__(self, name: str) -> None:
        self.world = families.world(name)
        size = self.world.obs_size
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        box = gym.spaces.Box(-1.0, 1.0, (self.world.dims,), np.float32)
        self.action_space = box if self.world.dims else gym.spaces.Discrete(self.world.choices)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.world.start(np, list(self.np_random.random(self.world.noise)))
        return self._observe(), {}

    def _observe(self) -> Any:
        return self.world.obs_scale * np.asarray(self.world.observe(np, self._state), np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        world = self.world
        taken = np.clip(action, -1.0, 1.0) if world.dims else int(action)
        moved = world.step(np, self._state, taken, self.np_random.random() if world.chance else None)
        self._state = moved.state
        terms = {term: world.reward_scale * float(value) for term, value in moved.terms.items()}
        info: dict[str, Any] = {"reward_terms": terms}
        if world.success:
            info["is_success"] = bool(moved.success)
        return self._observe(), sum(terms.values()), bool(moved.ended), False, info


class FaultyEnv(gym.Wrapper[Any, Any, Any, Any]):
    """The faults of benchmarks.diagnosis.faulty around one environment; the time limit lies inside of it."""

    def __init__(self, env: Env, fault: EnvFault, seed: int = 0) -> None:
        super().__init__(env)
        self.fault, self._random, self._taken = fault, np.random.default_rng(seed), 0
        self._box = isinstance(env.action_space, gym.spaces.Box)
        if fault.bound:
            self.action_space = gym.spaces.Box(-fault.bound, fault.bound, env.action_space.shape, np.float32)
        size = int(np.prod(env.observation_space.shape or (1,)))
        scales = fault.obs_scale or (1.0,)
        self._scales = np.array([scales[place % len(scales)] for place in range(size)], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=4321 if self.fault.same_start else seed, options=options)
        lag = max(self.fault.obs_lag, int(self.fault.obs_late))
        self._first, self._past, self._owed, self._age = obs, deque([obs] * (lag + 1), maxlen=lag + 1), 0.0, 0
        return self._show(obs), info

    def _show(self, obs: Any) -> Any:
        fault = self.fault
        self._past.append(obs)
        shown = self._first if fault.obs_frozen else self._past[0]
        shown = shown * self._scales + np.float32(fault.obs_shift)
        if fault.obs_noise:
            shown = shown + fault.obs_noise * self._random.standard_normal(shown.shape) * np.abs(self._scales)
        if fault.nan_after and self._taken > fault.nan_after:
            shown = np.full_like(shown, np.nan)
        return shown.astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._taken += 1
        obs, reward, terminated, truncated, info = self.env.step(self._act(action))
        paid = self._pay(float(reward), action, terminated, truncated)
        if self.fault.limit_terminal and truncated:
            terminated, truncated = True, False
        if self.fault.reward_scale != 1.0 or self.fault.reward_noise or self.fault.reward_every:
            # The terms would not add up to what is paid.
            info = {key: value for key, value in info.items() if key != "reward_terms"}
        return self._show(obs), paid, terminated, truncated, info

    def _act(self, action: Any) -> Any:
        fault, space = self.fault, self.env.action_space
        if fault.action_flip_after and self._taken > fault.action_flip_after:
            action = -np.asarray(action) if self._box else space.n - 1 - action  # type: ignore[attr-defined]
        if fault.action_ignored:
            action = np.zeros_like(action)
        if fault.action_random and self._random.random() < fault.action_random:
            low, high = (space.low, space.high) if self._box else (0, 0)  # type: ignore[attr-defined]
            action = self._random.uniform(low, high) if self._box else int(self._random.integers(space.n))  # type: ignore[attr-defined]
        if not self._box:
            return action
        return np.asarray(action, np.float32) * fault.action_scale / (fault.bound or 1.0)

    def _pay(self, reward: float, action: Any, terminated: bool, truncated: bool) -> float:
        fault = self.fault
        if fault.reward_at_end and not terminated:
            reward = 0.0
        if fault.reward_every:
            self._owed, self._age = self._owed + reward, self._age + 1
            due = terminated or truncated or self._age >= fault.reward_every
            reward = self._owed if due else 0.0
            self._owed, self._age = (0.0, 0) if due else (self._owed, self._age)
        if fault.reward_late and self._random.random() >= 0.05:
            reward = 0.0
        if fault.action_cost:
            reward -= fault.action_cost * float(np.square(np.clip(action, -1, 1)).mean() if self._box else action != 0)
        if fault.reward_flip_after and self._taken > fault.reward_flip_after:
            reward = -reward
        reward = reward * fault.reward_scale + fault.reward_offset + fault.reward_noise * float(self._random.standard_normal())
        return float(np.clip(reward, -fault.reward_clip, fault.reward_clip)) if fault.reward_clip else reward


def make(name: str, fault: EnvFault | None = None, limit: int | None = None, seed: int = 0) -> Env:
    """A world with its time limit, and a fault around both."""
    env: Env = gym.wrappers.TimeLimit(WorldEnv(name), limit or families.world(name).limit)
    return env if fault is None or fault == EnvFault() else FaultyEnv(env, fault, seed)
