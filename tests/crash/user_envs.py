"""An environment as a user might bring it, and a way to make one of its copies break at a chosen step."""

import sys
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

Observation = np.ndarray[Any, np.dtype[np.float32]]


class Walk(gymnasium.Env[Observation, np.int64]):
    """Left or right on a line; ends at 3 on either side. `harm` befalls it at its own step number `at`, counted over all episodes."""

    observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, harm: str | None = None, at: int = 0) -> None:
        self._harm, self._at, self._taken, self._place = harm, at, 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = float(self.np_random.uniform(-1, 1))
        return self._seen(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._taken += 1
        self._place += 1.0 if action else -1.0
        observation, reward = self._seen(), 1.0
        if self._taken == self._at:
            match self._harm:
                case "raises":
                    raise RuntimeError("the simulator lost its licence")
                case "nan":
                    observation[1] = np.nan
                case "inf":
                    reward = float("inf")
                case "shape":
                    observation = np.zeros(1, np.float32)  # numpy would repeat it without a word
                case "exits":
                    sys.exit(3)
                case "four values":
                    return observation, reward, False, {}  # type: ignore[return-value]
                case "text for a flag":
                    return observation, reward, "False", False, {}  # type: ignore[return-value]
                case "list for info":
                    return observation, reward, True, False, []  # type: ignore[return-value]
                case "reward of two":
                    return observation, np.ones(2), False, False, {}  # type: ignore[return-value]
                case "another action space":
                    self.action_space = gymnasium.spaces.Discrete(5)
                    return observation, reward, True, False, {}
        return observation, reward, abs(self._place) > 3, False, {}

    def _seen(self) -> Observation:
        return np.array([self._place, self._place**2 / 4], np.float32)


@dataclass
class Copies:
    """A factory whose n-th copy breaks; the others are well."""

    harm: str | None = None
    number: int = -1
    at: int = 0
    made: list[int] = field(default_factory=list)

    def __call__(self) -> Walk:
        self.made.append(len(self.made))
        return Walk(self.harm, self.at) if self.made[-1] == self.number else Walk()
