"""Environments as users of Stable-Baselines3 get them wrong: one wrapper each around a good Gymnasium environment."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

Env = gym.Env[Any, Any]


class RewardTimes(gym.RewardWrapper[Any, Any]):
    """Every reward times a number; a negative one turns the task upside down, 0 pays nothing."""

    def __init__(self, env: Env, factor: float) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * self.factor


class RewardNoise(gym.RewardWrapper[Any, Any]):
    """Gaussian noise on every reward, seeded by the reset."""

    def __init__(self, env: Env, deviation: float) -> None:
        super().__init__(env)
        self.deviation = deviation

    def reward(self, reward: Any) -> float:
        return float(reward) + self.deviation * float(self.unwrapped.np_random.standard_normal())


class Blind(gym.ObservationWrapper[Any, Any, Any]):
    """A sensor that is not connected: every observation is the same."""

    def observation(self, observation: Any) -> Any:
        return np.zeros_like(observation)


class Units(gym.ObservationWrapper[Any, Any, Any]):
    """Components in other units."""

    def __init__(self, env: Env, factors: Sequence[float]) -> None:
        super().__init__(env)
        self.factors = np.asarray(factors, dtype=np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, env.observation_space.shape, np.float32)

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation, dtype=np.float32) * self.factors


class Keep(gym.ObservationWrapper[Any, Any, Any]):
    """Only some components reach the agent, usually positions without velocities."""

    def __init__(self, env: Env, kept: Sequence[int]) -> None:
        super().__init__(env)
        self.kept = list(kept)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (len(self.kept),), np.float32)

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation, dtype=np.float32)[self.kept]


class LooseWire(gym.ActionWrapper[Any, Any, Any]):
    """Whatever the agent does, a random action is taken, seeded by the reset."""

    def action(self, action: Any) -> Any:
        random, space = self.unwrapped.np_random, self.env.action_space
        if isinstance(space, gym.spaces.Discrete):
            return int(random.integers(space.n))
        return random.uniform(space.low, space.high).astype(np.float32)  # type: ignore[attr-defined]


class Box(gym.ActionWrapper[Any, Any, Any]):
    """The same actions in other units: the box is [-bound, bound]."""

    def __init__(self, env: Env, bound: float) -> None:
        super().__init__(env)
        inner = env.action_space
        self.factor = np.asarray(inner.high, dtype=np.float32) / np.float32(bound)  # type: ignore[attr-defined]
        self.action_space = gym.spaces.Box(-bound, bound, inner.shape, np.float32)

    def action(self, action: Any) -> Any:
        return np.asarray(action, dtype=np.float32) * self.factor


class Turns(gym.Wrapper[Any, Any, Any, Any]):
    """Dynamics that change for good: after some steps of this copy its actions mean the opposite."""

    def __init__(self, env: Env, after: int) -> None:
        super().__init__(env)
        self.after, self.taken = after, 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.taken > self.after:
            space = self.env.action_space
            action = space.n - 1 - action if isinstance(space, gym.spaces.Discrete) else -action
        return self.env.step(action)
