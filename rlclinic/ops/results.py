"""What operations return: one frozen model each, the same for the command line's --json, Python and servers.

Here are the parts that all share and what is said about single runs; groups and the rest are in `outcomes`.

Steps are env steps summed over all envs of a run; times are seconds; a value that does not exist is null, never 0.
"""

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1

State = Literal["queued", "running", "finished", "stopped", "failed", "crashed"]
"""`crashed`: status.json says running, but its process is gone."""
STATES: Final[tuple[State, ...]] = get_args(State)


# Built on first use: a command imports all of these models and uses two. Their docstrings stay docstrings: reading them back into
# fields costs half a millisecond each.
_MODEL = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Part(BaseModel):
    """A piece of a result."""

    model_config = _MODEL


class Result(BaseModel):
    """What one operation returns as a whole."""

    model_config = _MODEL
    schema_version: int = SCHEMA_VERSION


class SeedCurve(Part):
    """One seed's evaluations."""

    seed: int
    steps: list[float]
    values: list[float | None]


class Curve(Part):
    """Return against env steps: the interquartile mean over seeds, its 95 % interval, and every seed."""

    label: str
    """What is drawn: evaluation return, or training return where no evaluation was made."""
    steps: list[float]
    center: list[float | None]
    low: list[float | None]
    high: list[float | None]
    seeds: list[SeedCurve]
    threshold: float | None
    return_range: tuple[float, float] | None = None
    """The lowest and the highest possible return, where known."""


class RunRow(Part):
    """One line of `runs list`."""

    id: str
    group: str | None
    name: str
    """The config's name, CartPole-v1:ppo."""
    seed: int
    state: State
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    """Mean return of the last training episodes."""
    eval_mean: float | None
    """The last evaluation."""
    best_eval: float | None
    threshold: float | None
    threshold_reached_at: int | None
    """Env step of the first evaluation at or above the threshold."""
    age_seconds: float | None
    """Since the run last wrote its status."""
    parent: str | None


class RunList(Result):
    """Runs, newest first."""

    root: str
    runs: list[RunRow]
    total: int
    """How many matched before the limit."""


class CheckpointRow(Part):
    """A checkpoint that is kept."""

    step: int
    path: str
    best: bool
    last: bool
    valid: bool
    """Every file is there with the bytes that were written."""
    bytes: int


class CheckpointList(Result):
    """A run's checkpoints, oldest first."""

    run: str
    checkpoints: list[CheckpointRow]


class RunInfo(Result):
    """One run: what it was asked to do and what came of it."""

    run: RunRow
    reason: str | None
    config: dict[str, Any]
    versions: dict[str, Any]
    engine: dict[str, Any] | None
    checkpoints: list[CheckpointRow]
    latest: dict[str, float | None]
    """The last row's main metrics."""
    curve: Curve
    wall_seconds: float | None
    steps_per_second: float | None
    path: str


class MetricSeries(Part):
    """One metric of one run."""

    name: str
    meaning: str | None
    unit: str | None
    steps: list[float]
    values: list[float | None]
    first: float | None
    last: float | None
    low: float | None
    high: float | None
    rows: int
    """Rows with a value before thinning."""


class MetricTable(Result):
    """Series of a run, thinned so that a one-row spike survives."""

    run: str
    step_axis: str = "env steps"
    series: list[MetricSeries]
    available: list[str]


class LogText(Result):
    """The end of a run's log."""

    run: str
    lines: list[str]
    total_lines: int


class Removed(Result):
    """What `runs rm` deleted, or would delete."""

    runs: list[str]
    groups: list[str]
    bytes: int
    deleted: bool


def state_of(word: str) -> State:
    """A state as status.json has it; what nobody knows counts as failed."""
    return next((state for state in STATES if state == word), "failed")


def finite(values: Iterable[float]) -> list[float | None]:
    """JSON has no NaN: what is not a number becomes null."""
    return [float(value) if math.isfinite(value) else None for value in values]
