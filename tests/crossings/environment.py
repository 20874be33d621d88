"""One environment with every kind of observation, action and report, for features that are crossed with each other."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "doubles": spaces.Box(-1, 1, (2, 2), np.float64),
    "state": spaces.Discrete(6),
    "states": spaces.MultiDiscrete([3, 2]),
    "bits": spaces.MultiBinary(4),
    "dict": spaces.Dict({"speed": spaces.Box(-2, 2, (2,), np.float32), "gear": spaces.Discrete(3)}),
    "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
    "image and numbers": spaces.Dict({"camera": spaces.Box(0, 255, (8, 8, 1), np.uint8), "speed": spaces.Box(-2, 2, (2,), np.float32)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "choice": spaces.Discrete(3),
    "later choice": spaces.Discrete(3, start=2),
    "choices": spaces.MultiDiscrete([2, 3]),
    "switches": spaces.MultiBinary(3),
    "box": spaces.Box(-2, 1, (2,), np.float32),
}


class Crossed(gym.Env[Any, Any]):
    """Observations are drawn anew at every step and actions pay by their sum. Episodes last `length` steps: every other one terminates,
    the others are cut. Says costs, reward terms, success and one number more; with `masked` it forbids one choice, and raises if that is
    taken."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own way

    def __init__(
        self, obs: str = "vector", action: str = "choice", length: int = 5, masked: bool = False, render_mode: str | None = None
    ) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[obs], ACTIONS[action]
        self.length, self.masked, self.render_mode = length, masked, render_mode
        self.episodes, self.age = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.episodes = -1
        self.episodes, self.age = self.episodes + 1, 0
        return self._observe(), self._info(0.0)

    def step(self, action: Any) -> Any:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        if self.masked and np.ravel(action - getattr(self.action_space, "start", 0))[0] == self.forbidden:
            raise ValueError(f"{action!r} was forbidden")
        self.age += 1
        paid = float(np.tanh(np.sum(np.asarray(action, np.float64))))
        over = self.age >= self.length
        return self._observe(), paid, over and self.episodes % 2 == 0, over and self.episodes % 2 == 1, self._info(paid)

    def render(self) -> Any:
        return np.full((16, 16, 3), self.age, np.uint8)

    def _observe(self) -> Any:
        self.forbidden = int(self.np_random.integers(2))
        return draw(self.observation_space, self.np_random)

    def _info(self, paid: float) -> dict[str, Any]:
        said = {
            "cost": float(self.age % 2),
            "progress": self.age / self.length,
            "is_success": self.age >= self.length and self.episodes % 2 == 0,
            "reward_terms": {"half": paid / 2, "rest": paid - paid / 2},
        }
        if self.masked:
            sizes = {"Discrete": [3], "MultiDiscrete": [2, 3]}[type(self.action_space).__name__]
            mask = np.ones(sum(sizes), np.int8)
            mask[self.forbidden] = 0
            said["action_mask"] = mask
        return said


def draw(space: spaces.Space[Any], generator: np.random.Generator) -> Any:
    """A member of a space, from the environment's own generator: a space's would not be seeded with it."""
    if isinstance(space, spaces.Dict):
        return {name: draw(part, generator) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return np.int64(generator.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return generator.integers(space.nvec)
    if isinstance(space, spaces.MultiBinary):
        return generator.integers(2, size=space.shape).astype(np.int8)
    assert isinstance(space, spaces.Box)
    return generator.uniform(space.low, space.high).astype(space.dtype)


class CrossedVector(gym.vector.SyncVectorEnv):
    """Several of them in a vector environment that resets as `mode` says."""

    def __init__(self, num_envs: int = 2, mode: str = "NEXT_STEP", **settings: Any) -> None:
        super().__init__([lambda: Crossed(**settings)] * num_envs, autoreset_mode=gym.vector.AutoresetMode[mode])
        self.spec = gym.envs.registration.EnvSpec("Crossed-v0", entry_point="none", max_episode_steps=settings.get("length", 5))
