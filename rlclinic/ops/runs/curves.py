"""Series of several runs on one axis, thinned for a screen: each seed, their middle with its interval, and what is healthy.

A bucket keeps lowest, highest and mean, so that a spike of one row survives. Only the columns that were asked for are read.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rlclinic import metrics, stats
from rlclinic.errors import UsageError
from rlclinic.ops.runs.listing import CLOCK, STEPS, TRAIN_RETURN
from rlclinic.report.models import Result, ResultPart, State, state_of
from rlclinic.runs import coerce
from rlclinic.runs.metrics_file import columns
from rlclinic.runs.metrics_file.table import Column
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

Axis = Literal["steps", "seconds"]
MOST_POINTS: Final = 2_000
MOST_NAMES: Final = 64
MOST_RUNS: Final = 256
ROUGH_BYTES: Final = 8_000_000
ROUGH_ROWS: Final = 1_500
"""Up to so many bytes everything is read at once; of more, so many rows are a first look."""
_RESAMPLES: Final = 200

Numbers = list[float | None]
Axes = dict[str, Column]


class SeedLine(ResultPart):
    """One run's series on the common axis; null where it has no row."""

    run: str
    mean: Numbers


class CurveSeries(ResultPart):
    """One metric over the runs."""

    name: str
    meaning: str | None
    unit: str | None
    band: tuple[float | None, float | None] | None
    """Where healthy runs usually are, on any environment; an open end is null."""
    band_note: str | None
    center: Numbers
    low: Numbers
    high: Numbers
    """Interquartile mean over runs and its 95 % interval; equal with one run."""
    lowest: Numbers
    highest: Numbers
    """Over all rows of all runs at this place: a spike of one row is in here."""
    seeds: list[SeedLine]


class CurveRun(ResultPart):
    """A run that was drawn."""

    run: str
    seed: int
    group: str | None
    state: State
    rows: int
    env_steps: int


class Growth(ResultPart):
    """Where the training returns of healthy runs of this environment and algorithm lie, by env steps."""

    runs: int
    source: str
    steps: list[float]
    low: list[float]
    middle: list[float]
    high: list[float]
    """5, 50 and 95 % of them."""


class Change(ResultPart):
    """A number that was changed while a run ran."""

    run: str
    env_steps: float
    text: str


class Curves(Result):
    """Series of runs on one axis."""

    of: list[str]
    axis: Axis
    x: list[float]
    rows: int
    """Rows of the longest run, before thinning."""
    rough: bool
    """Drawn from rows here and there of a long file: ask again, not rough, for what all of them say."""
    threshold: float | None
    max_env_steps: int | None
    runs: list[CurveRun]
    series: list[CurveSeries]
    available: list[str]
    """Every column that one of the runs has."""
    healthy: Growth | None
    changes: list[Change]


def get_curves(
    selectors: Sequence[str],
    runs_dir: Path = Path("runs"),
    *,
    names: Sequence[str] = (),
    points: int = 400,
    axis: Axis = "steps",
    rough: bool = False,
) -> Curves:
    """Series of the named groups' and runs' metrics on one axis, at most `points` places; without names, the training return.

    `rough` gives a first look at files that would take long to read, and all of the others.
    """
    if len(names) > MOST_NAMES:
        raise UsageError(f"{len(names)} metrics at once; at most {MOST_NAMES} are read together.\n  Ask for fewer")
    points = min(max(points, 16), MOST_POINTS)
    runs = _runs(Store(runs_dir), selectors)
    wanted = list(dict.fromkeys(names or [TRAIN_RETURN]))
    tables, rough = _tables(runs, [STEPS, CLOCK, *wanted], rough)
    axes = [_axis(run, table, axis) for run, table in zip(runs, tables, strict=True)]
    grid, edges = _grid(axes, points)
    series = [made for name in wanted if (made := _series(name, runs, tables, axes, grid, edges)) is not None]
    return Curves.model_construct(
        of=list(selectors),
        axis=axis,
        x=[float(f"{value:.7g}") for value in grid],
        rows=max((len(each) for each in axes), default=0),
        rough=rough,
        threshold=runs[0].threshold,
        max_env_steps=runs[0].status.max_env_steps,
        runs=[_about(run, each) for run, each in zip(runs, axes, strict=True)],
        series=series,
        available=_available(runs),
        healthy=_growth(runs, axis),
        changes=[change for run in runs for change in _changes(run)],
    )


def _runs(store: Store, selectors: Sequence[str]) -> list[Run]:
    found: dict[str, Run] = {}
    for selector in selectors:
        named = store.resolve(selector)
        members = named.runs if isinstance(named, Group) else [named.run if isinstance(named, Checkpoint) else named]
        found |= {run.id: run for run in members}
    if not found:
        raise UsageError("no run to draw was named.\n  Name groups or runs: of=g7k2,g8bx")
    return list(found.values())[:MOST_RUNS]


def _tables(runs: Sequence[Run], wanted: Sequence[str], rough: bool) -> tuple[list[dict[str, Column]], bool]:
    files = [run.path / METRICS for run in runs]
    if rough and sum(columns.of(file).unread(wanted) for file in files) > ROUGH_BYTES:
        return [columns.glance(file, wanted, max(ROUGH_ROWS // len(files), 50)) for file in files], True
    return [columns.of(file).read(wanted) for file in files], False


def _axis(run: Run, table: Mapping[str, Column], axis: Axis) -> Column:
    values = table.get(STEPS if axis == "steps" else CLOCK, np.empty(0))
    if axis == "steps" or not len(values):
        return values
    started = run.status.started
    first = float(values[0])
    return values - (min(started, first) if started else first)


def _grid(axes: Sequence[Column], points: int) -> tuple[Column, Column | None]:
    """The places of the axis: every row's own where they are few (no edges then), else buckets of equal width."""
    every = [each for each in axes if len(each)]
    if not every:
        return np.empty(0), None
    if max(len(each) for each in every) <= points:
        own = np.unique(np.concatenate(every))
        own = own[np.isfinite(own)]
        if len(own) <= points:
            return own, None
    low, high = min(float(np.nanmin(each)) for each in every), max(float(np.nanmax(each)) for each in every)
    edges = np.linspace(min(low, 0.0), high, points + 1)
    return edges[1:], edges


def _series(
    name: str, runs: Sequence[Run], tables: Sequence[Mapping[str, Column]], axes: Sequence[Column], grid: Column, edges: Column | None
) -> CurveSeries | None:
    lines, parts = [], []
    for run, table, axis in zip(runs, tables, axes, strict=True):
        values = table.get(name)
        if values is None or not len(values) or len(axis) != len(values):  # an imported log may have no clock
            continue
        low, mean, high = _thinned(axis, values, grid, edges)
        if np.isnan(mean).all():
            continue
        parts.append((low, mean, high))
        lines.append(SeedLine.model_construct(run=run.id, mean=_numbers(mean)))
    if not lines:
        return None
    center, low, high = _middle(grid, [mean for _, mean, _ in parts])
    entry = metrics.find(name)
    band = entry.band if entry is not None else None
    return CurveSeries.model_construct(
        name=name,
        meaning=entry.meaning if entry else None,
        unit=entry.unit if entry else None,
        band=None if band is None else (_open(band.low), _open(band.high)),
        band_note=None if band is None else band.when,
        center=_numbers(center),
        low=_numbers(low),
        high=_numbers(high),
        lowest=_numbers(np.fmin.reduce([low for low, _, _ in parts])),
        highest=_numbers(np.fmax.reduce([high for _, _, high in parts])),
        seeds=lines,
    )


def _thinned(axis: Column, values: Column, grid: Column, edges: Column | None) -> tuple[Column, Column, Column]:
    """(lowest, mean, highest) at each place of the grid; NaN where there is nothing."""
    known = np.isfinite(values) & np.isfinite(axis)
    axis, values = axis[known], values[known]
    if edges is None:
        whole = np.full(len(grid), np.nan)
        whole[np.searchsorted(grid, axis)] = values
        return whole, whole, whole
    bucket = np.clip(np.searchsorted(edges, axis, side="left") - 1, 0, len(grid) - 1)
    count = np.bincount(bucket, minlength=len(grid))
    empty = count == 0
    low, high = np.full(len(grid), np.inf), np.full(len(grid), -np.inf)
    np.minimum.at(low, bucket, values)
    np.maximum.at(high, bucket, values)
    mean = np.bincount(bucket, weights=values, minlength=len(grid)) / np.maximum(count, 1)
    for each in (low, high, mean):
        each[empty] = np.nan
    return low, mean, high


def _middle(grid: Column, means: Sequence[Column]) -> tuple[Column, Column, Column]:
    """Interquartile mean over runs with its interval, from the last run's start on; a run that ended keeps its last value."""
    filled = []
    starts = []
    for mean in means:
        known = np.flatnonzero(np.isfinite(mean))
        filled.append(np.interp(grid, grid[known], mean[known]))
        starts.append(known[0])
    table = np.stack(filled)
    # Where a run has a row, and every run has begun: between evaluations nothing is known.
    outside = np.logical_and.reduce([np.isnan(mean) for mean in means])
    outside[: max(starts)] = True
    center = stats.iqm(table, axis=0)
    low, high = stats.bootstrap_band(table, resamples=_RESAMPLES) if len(means) > 1 else (center.copy(), center.copy())
    for each in (center, low, high):
        each[outside] = np.nan
    return center, low, high


def _numbers(values: NDArray[np.float64]) -> Numbers:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]


def _open(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _about(run: Run, axis: Column) -> CurveRun:
    status = run.status
    return CurveRun.model_construct(
        run=run.id, seed=run.seed, group=run.group_id, state=state_of(status.state), rows=len(axis), env_steps=status.env_steps
    )


def _available(runs: Sequence[Run]) -> list[str]:
    found: dict[str, None] = {}
    for run in runs:
        found |= dict.fromkeys(columns.of(run.path / METRICS).header())
    return [name for name in found if name not in (STEPS, CLOCK, "epoch") and "fingerprint" not in name]


def _growth(runs: Sequence[Run], axis: Axis) -> Growth | None:
    """The recorded chart of the runs' environment; none where they differ, or where the environment was made with other kwargs."""
    from rlclinic.diagnosis.forecast import growth

    tasks = {(run.env_id, run.algo) for run in runs}
    if len(tasks) != 1 or axis != "steps" or coerce.within(runs[0].record, "env", "kwargs"):
        return None
    chart = growth.shipped(*tasks.pop())
    if chart is None:
        return None
    rows: dict[float, Any] = dict(zip(growth.QUANTILES, chart.levels, strict=True))
    return Growth(
        runs=chart.runs,
        source=chart.source,
        steps=list(chart.steps),
        low=list(rows[0.05]),
        middle=list(rows[0.5]),
        high=list(rows[0.95]),
    )


def _changes(run: Run) -> list[Change]:
    made = [each for each in run.interventions if isinstance(each.get("set"), dict)]
    return [Change(run=run.id, env_steps=float(each.get("env_steps", 0)), text=_said(each["set"])) for each in made]


def _said(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in numbers.items())
