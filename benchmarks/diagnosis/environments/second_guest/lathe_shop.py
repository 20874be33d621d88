"""One machine, a board with five cards on it: which job is next? The rest of the day's jobs wait in a pile.

A job that is late costs its weight for every hour; a job that is in time pays its weight. An empty place on the board is a lost hour.
"""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

PLACES, JOBS, PICKS = 5, 16, 60


@dataclass
class Job:
    hours: float
    due: float
    weight: float


class LatheShop(gym.Env[Any, Any]):
    """Observation: for each place hours of work, hours until it is due, weight (zeros: empty); and how many wait in the pile."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-20.0, 20.0, (PLACES * 3 + 1,), np.float32)
        self.action_space = gym.spaces.Discrete(PLACES)

    def _draw(self, place: int) -> Job:
        rng = self.np_random
        return Job(float(rng.uniform(1.0, 6.0)), float(rng.uniform(4.0, 12.0) + 2.8 * place), float(rng.choice([1.0, 2.0, 5.0])))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        jobs = [self._draw(place) for place in range(JOBS)]
        self.board: list[Job | None] = list(jobs[:PLACES])
        self.pile = jobs[PLACES:]
        self.clock, self.picks, self.owed = 0.0, 0, 0.0
        return self._cards(), {}

    def _cards(self) -> Any:
        cards = [(job.hours / 6.0, (job.due - self.clock) / 10.0, job.weight / 5.0) if job else (0.0, 0.0, 0.0) for job in self.board]
        flat = np.array([value for card in cards for value in card] + [len(self.pile) / JOBS])
        return np.clip(flat, -20.0, 20.0).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        place = int(action)
        job = self.board[place]
        if job is None:
            self.clock += 1.0
            reward = -1.0
        else:
            self.clock += job.hours
            late = max(self.clock - job.due, 0.0)
            reward = job.weight * (1.0 if late == 0.0 else -0.1 * late)
            self.board[place] = self.pile.pop(0) if self.pile else None
        self.picks += 1
        self.owed += reward
        finished = not self.pile and not any(self.board)
        return self._cards(), reward, finished, self.picks >= PICKS, {"hours": self.clock}


def make() -> LatheShop:
    return LatheShop()


def expert(obs: Any) -> int:
    """Weight for each hour, more where it is urgent, nothing where there is no card."""
    hours, slack, weight = np.asarray(obs[: PLACES * 3], float).reshape(PLACES, 3).T * np.array([[6.0], [10.0], [5.0]])
    spare = np.maximum(slack - hours, 0.0)
    worth = np.where(hours > 0.0, weight / np.maximum(hours, 0.1) * np.exp(-spare / 6.0), -1.0)
    return int(np.argmax(worth))
