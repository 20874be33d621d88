"""Histories and sides made by hand: a few returns per run, and any other series."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlclinic.comparison.sides import Side, of_config
from rlclinic.config import Config, files
from rlclinic.runs import history
from rlclinic.runs.history import History, make_series

EVERY = 1_000
"""Env steps between two returns."""


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo_zoo", list(changes)).config


def run(
    returns: Sequence[float],
    *,
    name: str = "run",
    state: str = "finished",
    trained: bool = False,
    threshold: float | None = 475.0,
    source: str = "rlclinic",
    env: str = "CartPole-v1",
    more: Mapping[str, Sequence[float]] | None = None,
    env_steps: int | None = None,
    every: int = EVERY,
) -> History:
    """A run whose returns lie 1,000 env steps apart; `more` are other metrics at the same steps."""
    columns: dict[str, Sequence[float]] = {"train/roll/ep_rew_mean" if trained else "val/roll/ep_rew_mean": returns, **(more or {})}
    series = {}
    for key, values in columns.items():
        made = make_series(every * (1 + np.arange(len(values))), values, key)
        if made is not None:
            series[key] = made
    steps = every * len(returns) if env_steps is None else env_steps
    return History(name, source, env_id=env, algo="ppo", threshold=threshold, env_steps=steps, series=series, state=state)


def side(*runs: Sequence[float] | History, name: str = "side", settings: Mapping[str, Any] | None = None, **more: Any) -> Side:
    """A group; each run is a list of returns or a history."""
    found = [each if isinstance(each, History) else run(each, name=f"{name}-{place}", **more) for place, each in enumerate(runs)]
    known = of_config(name, config()).settings if settings is None else settings
    if "threshold" in more and settings is None:
        known = {**known, "spec.threshold": more["threshold"]}
    return Side(name, "group", {**known}, True, tuple(found))


def trained_with(*changes: str, name: str = "config") -> Side:
    """A config that has no runs."""
    return of_config(name, config(*changes))


def rows(seeds: int, level: float, spread: float = 5.0, length: int = 10, seed: int = 0) -> list[list[float]]:
    """Returns that rise to a level, a little differently for each seed."""
    rng = np.random.default_rng(seed)
    ends = level + spread * rng.normal(size=seeds)
    return [[float(end * (step + 1) / length) for step in range(length)] for end in ends]


def dotted(made: Config) -> dict[str, Any]:
    from rlclinic.config import to_record

    return history.dotted(to_record(made))
