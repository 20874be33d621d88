"""Training without training: run folders are written at once, as a function of their config. Everything around it is real."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlclinic.config import Config
from rlclinic.launch import local
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter

COLUMNS = [
    "time",
    "total_timesteps",
    "epoch",
    "total_episodes",
    "train/roll/ep_rew_mean",
    "train/roll/ep_len_mean",
    "train/metrics/kl_divergence",
    "train/metrics/clip_fraction",
    "train/metrics/entropy",
    "train/hp/learning_rate",
    "val/roll/ep_rew_mean",
    "val/roll/ep_rew_std",
    "time/fps",
    "time/env",
    "time/act",
    "time/learn",
]
ROWS = 20
Behaviour = Callable[[Config], float | None]
"""The share of its budget after which a run of this config reaches 500; None if it never does."""


class Pretended:
    """Stands in for rlclinic.launch.local.start, and counts what it trained."""

    def __init__(self, behaviour: Behaviour, kill_after: int | None = None) -> None:
        self.behaviour = behaviour
        self.trained: list[str] = []
        self.kill_after = kill_after
        self.stopping = False

    def start(self, cohorts: Sequence[Sequence[Path]], **_: Any) -> "Pretended":
        self._paths = [path for cohort in cohorts for path in cohort]
        return self

    def wait(self, timeout: float | None = None, tick: Callable[[], None] | None = None) -> bool:
        """Write every run; a tick after each, as if they had trained one after the other."""
        for path in self._paths:
            if self.kill_after is not None and len(self.trained) >= self.kill_after:
                raise KeyboardInterrupt
            self._train(Run(path))
            if tick is not None:
                tick()
        return True

    def stop(self) -> None:
        self.stopping = True

    def _train(self, run: Run) -> None:
        config = run.config
        share, budget = self.behaviour(config), config.run.max_env_steps
        self.trained.append(run.id)
        rate = float(getattr(config.algo.learning_rate, "start", config.algo.learning_rate))
        noise = np.random.default_rng(run.seed)
        with RunWriter(run.path, COLUMNS) as writer:
            reached = None
            for row in range(1, ROWS + 1):
                steps = budget * row // ROWS
                level = 20.0 if share is None else min(500.0, 20.0 + 480.0 * row / ROWS / share)
                value = level + float(noise.normal(0, 2))
                done = share is not None and row / ROWS >= share
                writer.row(_row(row, steps, 500.0 if done else value, rate))
                reached = reached or (steps if done else None)
                if done and config.run.stop_at_threshold:
                    break
            last = 500.0 if reached else value
            writer.status("finished", steps, return_mean=last, eval_mean=last, best_eval=last, fps=1000.0, threshold_reached_at=reached)


def _row(row: int, steps: int, value: float, rate: float) -> dict[str, float]:
    # KL as it is on CartPole: about half a usual step at 1e-3, growing with the square of the rate.
    kl = min(0.01 * (rate / 1e-3) ** 2, 2.0)
    return {
        "time": 1.0e9 + row,
        "total_timesteps": steps,
        "epoch": row,
        "total_episodes": 20 * row,
        "train/roll/ep_rew_mean": value,
        "train/roll/ep_len_mean": value,
        "train/metrics/kl_divergence": kl,
        "train/metrics/clip_fraction": min(kl * 5, 0.6),
        "train/metrics/entropy": 0.6,
        "train/hp/learning_rate": rate,
        "val/roll/ep_rew_mean": value,
        "val/roll/ep_rew_std": 1.0,
        "time/fps": 1000.0,
        "time/env": 0.4,
        "time/act": 0.1,
        "time/learn": 0.5,
    }


def pretend(monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, kill_after: int | None = None) -> Pretended:
    """Replace the launcher; what it returns counts the runs that were trained."""
    pretended = Pretended(behaviour, kill_after)
    monkeypatch.setattr(local, "start", pretended.start)
    return pretended
