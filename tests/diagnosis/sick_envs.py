"""Environments that users get wrong: wrappers that change one thing of a good environment."""

from typing import Any

import gymnasium as gym
import numpy as np


class Rescale(gym.RewardWrapper):
    """Every reward times a number; a negative one turns the task upside down."""

    def __init__(self, env: gym.Env[Any, Any], scale: float) -> None:
        super().__init__(env)
        self.scale = scale

    def reward(self, reward: Any) -> float:
        return float(reward) * self.scale


class NoisyReward(gym.RewardWrapper):
    """Gaussian noise on every reward."""

    def __init__(self, env: gym.Env[Any, Any], deviation: float) -> None:
        super().__init__(env)
        self.deviation, self.random = deviation, np.random.default_rng(0)

    def reward(self, reward: Any) -> float:
        return float(reward) + self.deviation * float(self.random.standard_normal())


class NoReward(gym.RewardWrapper):
    """A reward that never comes."""

    def reward(self, reward: Any) -> float:
        return 0.0


class Constant(gym.ObservationWrapper[Any, Any, Any]):
    """A sensor that is not connected: every observation is the same."""

    def observation(self, observation: Any) -> Any:
        return np.zeros_like(observation)


class Components(gym.ObservationWrapper[Any, Any, Any]):
    """Some components times a number: 0 hides them, 1000 is another unit."""

    def __init__(self, env: gym.Env[Any, Any], scales: list[float]) -> None:
        super().__init__(env)
        self.scales = np.asarray(scales, dtype=np.float32)
        space = env.observation_space
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, space.shape, np.float32)

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation, dtype=np.float32) * self.scales


class Frozen(gym.Wrapper[Any, Any, Any, Any]):
    """The observation is not carried over: the agent sees the episode's first one for ever."""

    def reset(self, **options: Any) -> Any:
        self.first, info = self.env.reset(**options)
        return self.first, info

    def step(self, action: Any) -> Any:
        _, *rest = self.env.step(action)
        return (self.first, *rest)


class ActionBox(gym.ActionWrapper[Any, Any, Any]):
    """The same actions in other units: the box is [-bound, bound]."""

    def __init__(self, env: gym.Env[Any, Any], bound: float) -> None:
        super().__init__(env)
        inner = env.action_space
        self.factor = np.asarray(inner.high, dtype=np.float32) / bound  # type: ignore[attr-defined]
        self.action_space = gym.spaces.Box(-bound, bound, inner.shape, np.float32)

    def action(self, action: Any) -> Any:
        return np.asarray(action, dtype=np.float32) * self.factor


class ShiftsAt(gym.Wrapper[Any, Any, Any, Any]):
    """Dynamics that change for good: after some steps of this copy its actions mean the opposite (discrete: n - 1 - action)."""

    def __init__(self, env: gym.Env[Any, Any], after: int) -> None:
        super().__init__(env)
        self.after, self.taken = after, 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.taken > self.after:
            space = self.env.action_space
            action = space.n - 1 - action if isinstance(space, gym.spaces.Discrete) else -action
        return self.env.step(action)


class BreaksAt(gym.Wrapper[Any, Any, Any, Any]):
    """A simulator that returns NaN once."""

    def __init__(self, env: gym.Env[Any, Any], after: int) -> None:
        super().__init__(env)
        self.after, self.taken = after, 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        obs, *rest = self.env.step(action)
        return (obs * np.nan if self.taken > self.after else obs, *rest)


class IgnoresActions(gym.ActionWrapper[Any, Any, Any]):
    """A wire that is loose: whatever the agent does, a random action is taken."""

    def action(self, action: Any) -> Any:
        return self.env.action_space.sample()
