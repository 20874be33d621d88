"""What a sampler hears of training, and what it says in turn."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
State = dict[str, NDArray[Any]]
"""Arrays of fixed shapes, by name."""


class Ended(NamedTuple):
    """Episodes of one run that have ended, in the order of their ends; every array is [E]."""

    env: NDArray[np.int64]
    """Which of the run's environments played it."""
    task: NDArray[np.int64]
    success: NDArray[np.bool_]


class Sampler(Protocol):
    """Chooses the task of the next episodes."""

    @property
    def chances(self) -> Floats:
        """How likely each task is, [K]; they add up to 1."""
        ...

    def add(self, ended: Ended, env_steps: int) -> list[str]:
        """Take in what has ended by now; what has changed, in words for the log."""
        ...

    def score(self, task: NDArray[np.int64], value: Floats) -> None:
        """How wrong values were on steps of tasks, by size: for samplers that want to know."""
        ...

    def cells(self) -> dict[str, float]:
        """What a row of metrics.csv says, by column."""
        ...

    def state(self) -> State:
        """Everything that a resume needs."""
        ...

    def load(self, state: State) -> None:
        """Go on from `state`."""
        ...


class Tally:
    """Success by task: of the last episodes, weighted by how new they are, and how many there were."""

    def __init__(self, tasks: int, memory: float) -> None:
        self._keep = 1.0 - 1.0 / memory
        self.successes, self.weight = np.zeros(tasks), np.zeros(tasks)
        self.episodes = np.zeros(tasks, np.int64)

    def add(self, ended: Ended) -> None:
        """One episode after the other: the order counts."""
        for task, success in zip(ended.task, ended.success, strict=True):
            self.successes[task] = self._keep * self.successes[task] + float(success)
            self.weight[task] = self._keep * self.weight[task] + 1.0
            self.episodes[task] += 1

    def cells(self) -> dict[str, float]:
        """Success rate and episodes of each task."""
        rates = {
            f"train/stage/{task + 1}/success_rate": float(self.successes[task] / self.weight[task]) for task in np.flatnonzero(self.weight)
        }
        return rates | {f"train/stage/{task + 1}/episodes": float(count) for task, count in enumerate(self.episodes)}

    def state(self) -> State:
        return {"successes": self.successes.copy(), "weight": self.weight.copy(), "episodes": self.episodes.copy()}

    def load(self, state: State) -> None:
        self.successes, self.weight, self.episodes = (state[name].copy() for name in ("successes", "weight", "episodes"))
