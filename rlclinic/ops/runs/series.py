"""Metrics as columns of numbers for a chart: one axis for all columns, bucketed so that a spike of one row survives."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from rlclinic.ops.runs import listing
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import summary
from rlclinic.runs.metrics_file import columns, table
from rlclinic.runs.metrics_file.table import STEPS
from rlclinic.runs.record import METRICS, Run

CLOCK: Final = "time"
MOST_POINTS: Final = 5_000
MOST_COLUMNS: Final = 64
DIGITS: Final = 6
"""Significant digits: more than a screen shows, and half the bytes."""

Numbers = list[float | None]


class Column(ResultPart):
    """One metric on the shared axis; null where a bucket holds no finite number."""

    mean: Numbers
    min: Numbers | None
    max: Numbers | None
    """None where nothing was bucketed: the mean is the value."""


class Series(Result):
    """Columns of one run."""

    run: str
    rows: int
    """Rows with a later step than `since`, before bucketing."""
    last_step: float | None
    """Ask for `since` this step to get what comes after."""
    steps: Numbers
    """Env steps: the last of each bucket."""
    seconds: Numbers
    """Seconds of work until then, without the pauses before a resume."""
    columns: dict[str, Column]
    available: list[str]


def run_series(run: Run, names: Sequence[str] = (), *, points: int = 500, since: float = -1.0) -> Series:
    """Columns of a run after an env step, at most `points` buckets; no names: the main ones."""
    file = columns.of(run.path / METRICS)
    file.read([STEPS])
    available = [name for name in file.names if name not in (STEPS, CLOCK, "epoch")]
    chosen = listing.choose_metrics(names, available, run.id) if names else [name for name in listing.MAIN_METRICS if name in available]
    phases = [name for name in available if name.startswith(summary.PHASES) and name != summary.FPS]
    read = file.read([STEPS, CLOCK, *phases, *chosen[:MOST_COLUMNS]])
    steps = read.get(STEPS, np.empty(0))
    rows = np.flatnonzero(steps > since)
    edges = np.linspace(0, len(rows), min(len(rows), points) + 1).round().astype(np.int64)
    ends = rows[edges[1:] - 1] if len(rows) else rows
    return Series(
        run=run.id,
        rows=len(rows),
        last_step=float(steps[-1]) if len(steps) and math.isfinite(steps[-1]) else None,
        steps=_numbers(steps[ends]),
        seconds=_numbers(_seconds(read, phases)[ends]),
        columns={name: _bucketed(read[name][rows], edges) for name in chosen[:MOST_COLUMNS]},
        available=available,
    )


def latest_rows(names: Sequence[str], header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[list[float | None]]:
    """Rows that were just written, reduced to these columns: what a live chart appends."""
    places = [header.index(name) if name in header else None for name in names]
    return [[None if place is None else _cell(line[place]) for place in places] for line in lines]


def _cell(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds(read: Mapping[str, table.Column], phases: Sequence[str]) -> table.Column:
    """Seconds of work until each row: the phases' own, or the clock where a log has none."""
    if phases:
        return np.cumsum(np.nansum(np.stack([read[name] for name in phases]), axis=0))
    clock = read.get(CLOCK)
    if clock is None:
        return np.full(len(read.get(STEPS, ())), np.nan)
    return clock - clock[0] if len(clock) else clock


def _bucketed(values: table.Column, edges: Any) -> Column:
    if len(edges) == len(values) + 1:
        return Column(mean=_numbers(values), min=None, max=None)
    mean, low, high = _reduced(values, np.isfinite(values), edges[:-1])
    return Column(mean=_numbers(mean), min=_numbers(low), max=_numbers(high))


def _reduced(values: table.Column, finite: Any, starts: Any) -> tuple[table.Column, table.Column, table.Column]:
    """Mean, lowest and highest finite value of each bucket; NaN where it has none."""
    count = np.add.reduceat(finite, starts, dtype=np.int64)
    with np.errstate(all="ignore"):
        mean = np.add.reduceat(np.where(finite, values, 0.0), starts) / count
    low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    return mean, np.where(count > 0, low, np.nan), np.where(count > 0, high, np.nan)


def _numbers(values: table.Column) -> Numbers:
    """JSON has no NaN: what is not a number becomes null. Rounded to DIGITS significant digits."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values.tolist()]
