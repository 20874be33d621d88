"""Metrics of runs as numbers: one way to choose columns and to read them, and an answer for each who asks.

    get_run_metrics   a terminal: some columns, each thinned so that a spike of one row stays visible
    get_metric_rows   an agent: aligned rows, few, with the lowest and the highest of each
    run_series        a chart of one run: columns on one axis, bucketed, and what was added since
    get_curves        a picture of several runs: each seed, their middle with its interval, and what is healthy

A bucket keeps its lowest and its highest beside the mean. What is asked for again and again while a run goes on is read through
`metrics_file.table.Columns`, which reads only the columns that are wanted and only what was added; the others read the whole table.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import metrics, stats
from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError, nearest
from rlclinic.metrics import EVAL_RETURN, STEPS, TRAIN_RETURN
from rlclinic.ops.runs.requests import Axis
from rlclinic.report.models import MetricSeries, MetricTable, Result, ResultPart, State, finite, state_of
from rlclinic.runs import coerce, summary
from rlclinic.runs.metrics_file.table import Mask, Table, glance, open_columns
from rlclinic.runs.record import METRICS, Checkpoint, Group, Run
from rlclinic.runs.store import Store

Values = NDArray[np.float64]
Numbers = list[float | None]
"""JSON has no NaN: what is not a number is null."""

CLOCK: Final = "time"
AXIS_COLUMNS: Final[Mapping[Axis, str]] = {"steps": STEPS, "seconds": CLOCK, "updates": "epoch", "episodes": "total_episodes"}
"""What rows can be drawn against; of seconds, those since the start."""
MAIN_METRICS: Final = (
    TRAIN_RETURN,
    EVAL_RETURN,
    "train/roll/ep_len_mean",
    "train/metrics/kl_divergence",
    "train/metrics/clip_fraction",
    "train/metrics/entropy",
    "train/metrics/explained_variance",
    "train/loss/policy",
    "train/loss/value",
    "train/metrics/grad_norm/all",
    "time/fps",
)


# ── which columns ──


def list_metrics(names: Sequence[str]) -> list[str]:
    """The columns of a file that are metrics: all but its axes."""
    return [name for name in names if name not in (STEPS, CLOCK, "epoch")]


def choose_metrics(names: Sequence[str], available: Sequence[str], run: str) -> list[str]:
    """Exact names first, then every column that contains the text: `kl` finds train/metrics/kl_divergence."""
    chosen: list[str] = []
    for name in names:
        hits = [name] if name in available else [column for column in available if name.lower() in column.lower()]
        if not hits:
            offered = nearest(name, available)
            raise NotFound(
                f"run {run} has no metric {name!r}"
                + (f"; nearest: {', '.join(offered)}" if offered else "")
                + f".\n  See all {len(available)}: ",
                Action("runs metrics", run, list=True),
            )
        chosen += [hit for hit in hits if hit not in chosen]
    return chosen


def round_numbers(values: Values, digits: int) -> Numbers:
    """Rounded to so many significant digits: more than a screen shows, and half the bytes."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values.tolist()]


# ── for a terminal ──


def get_run_metrics(
    selector: str = "@last",
    names: Sequence[str] = (),
    runs_dir: Path = Path("runs"),
    *,
    points: int = 64,
    from_step: float = 0.0,
    to_step: float = math.inf,
) -> MetricTable:
    """Series of a run by column name (or a part of one), at most `points` values each; none named: the main ones."""
    run = Store(runs_dir).run(selector)
    table = run.metrics
    available = list_metrics(table.names)
    wanted = choose_metrics(names, available, run.id) if names else [name for name in MAIN_METRICS if name in table]
    series = [_describe_series(table, name, points, from_step, to_step) for name in wanted]
    return MetricTable(run=run.id, series=series, available=available)


def _describe_series(table: Table, name: str, points: int, from_step: float, to_step: float) -> MetricSeries:
    steps, values = table.series(name)
    inside = (steps >= from_step) & (steps <= to_step)
    steps, values = steps[inside], values[inside]
    numbers = [float(value) for value in values if math.isfinite(value)]
    kept_steps, kept = thin(steps, values, points)
    entry = metrics.find(name)
    return MetricSeries(
        name=name,
        meaning=entry.meaning if entry else None,
        unit=entry.unit if entry else None,
        steps=[float(step) for step in kept_steps],
        values=finite(kept),
        first=numbers[0] if numbers else None,
        last=numbers[-1] if numbers else None,
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        rows=len(values),
    )


def thin(steps: Values, values: Values, points: int) -> tuple[Values, Values]:
    """At most `points` rows: each bucket keeps its lowest and its highest, so that a spike of one row stays visible."""
    if len(values) <= points:
        return steps, values
    edges = np.linspace(0, len(values), max(points // 2, 1) + 1).astype(int)
    keep: set[int] = set()
    for start, end in pairwise(edges):
        bucket = values[start:end]
        if np.isnan(bucket).all():
            keep.add(int(start))
        else:
            keep |= {int(start + np.nanargmin(bucket)), int(start + np.nanargmax(bucket))}
    rows = sorted(keep)
    return steps[rows], values[rows]


# ── for an agent: rows ──

CELL_DIGITS: Final = 4
FIRST_METRICS: Final = (
    TRAIN_RETURN,
    EVAL_RETURN,
    "train/metrics/kl_divergence",
    "train/metrics/entropy",
    "train/metrics/explained_variance",
)
"""What is shown where nothing is named."""
MOST_ROWS: Final = 500
MOST_ROW_COLUMNS: Final = 12
FEWEST_ROWS: Final = 4
"""Rows that a trend takes."""
Cell = float | str | None
"""A number; "nan", "inf" or "-inf"; None where nothing was logged."""


class MetricColumn(ResultPart):
    """One metric: what it is, and what became of it between the first row and the last."""

    name: str
    unit: str
    estimator: str
    first: Cell
    last: Cell
    low: Cell
    low_at: float | None
    high: Cell
    high_at: float | None
    trend: str
    """rises, falls or flat: the last tenth against the first, measured by how much it varies."""
    broken: int
    """Values that were not finite."""
    values: int
    """Rows that have one."""


class MetricRows(Result):
    """Aligned rows of a run."""

    run: str
    others: list[str]
    """The other runs of the group, where a group was asked for: this one has the median return."""
    step_axis: str = "total_timesteps: env steps, all envs of the run together"
    columns: list[MetricColumn]
    rows: list[dict[str, Cell]]
    """`total_timesteps` and a value for each metric; of a bucket of several the mean, and `<name>:min` and `<name>:max`."""
    left_out: list[str]
    """Metrics that were asked for, too, and are too many for one answer."""
    bucket_rows: int
    """Logged rows in one row here; 1: nothing was thinned."""
    total_rows: int
    next_step: float
    """Ask again from here for what was logged since."""


def get_metric_rows(
    selector: str = "@last",
    names: Sequence[str] = (),
    runs_dir: Path = Path("runs"),
    *,
    limit: int = 24,
    from_step: float = 0.0,
    to_step: float = math.inf,
) -> MetricRows:
    """At most `limit` rows of a run (of a group: its run with the median return); no names: returns, KL, entropy, explained variance."""
    if not 1 <= limit <= MOST_ROWS:
        raise UsageError(f"limit {limit}: between 1 and {MOST_ROWS} rows.\n  More would not be read.\n  Zoom in: from_step and to_step")
    run, others = one_run(Store(runs_dir), selector)
    table = run.metrics
    available = list_metrics(table.names)
    wanted = choose_metrics(names, available, run.id) if names else [name for name in FIRST_METRICS if name in table]
    wanted, left_out = wanted[:MOST_ROW_COLUMNS], wanted[MOST_ROW_COLUMNS:]
    steps = table[STEPS] if STEPS in table else table.values[:, :1].reshape(-1)
    rows = np.flatnonzero((steps >= from_step) & (steps <= to_step))
    steps = steps[rows]
    read = {name: (table[name][rows], table.logged(name)[rows]) for name in wanted}
    per = max(1, math.ceil(len(rows) / limit))
    return MetricRows(
        run=run.id,
        others=others,
        columns=[_describe_column(name, steps, values, logged) for name, (values, logged) in read.items()],
        rows=[_make_row(steps, read, slice(start, start + per), per > 1) for start in range(0, len(rows), per)],
        left_out=left_out,
        bucket_rows=per,
        total_rows=len(rows),
        next_step=float(steps[-1]) + 1 if len(rows) else from_step,
    )


def one_run(store: Store, selector: str) -> tuple[Run, list[str]]:
    """The run that is meant; of a group the one with the median return, and the names of the others."""
    selected = store.resolve(selector)
    if isinstance(selected, Checkpoint):
        return selected.run, []
    if isinstance(selected, Run):
        return selected, []
    ordered = sorted(selected.runs, key=_last_return)
    middle = ordered[(len(ordered) - 1) // 2]
    return middle, [run.id for run in selected.runs if run.id != middle.id]


def _last_return(run: Run) -> float:
    status = run.status
    value = status.eval_mean if status.eval_mean is not None else status.return_mean
    return -math.inf if value is None else value


def _make_row(steps: Values, read: dict[str, tuple[Values, Mask]], rows: slice, bucketed: bool) -> dict[str, Cell]:
    """One bucket: its last env step, and what the metrics were in it."""
    cells: dict[str, Cell] = {STEPS: float(steps[rows][-1])}
    for name, (values, logged) in read.items():
        there = values[rows][logged[rows]]
        finite = there[np.isfinite(there)]
        if not len(finite):
            cells[name] = cell(float(there[-1])) if len(there) else None
            continue
        cells[name] = cell(float(finite.mean()))
        if bucketed and len(there) > 1:
            cells[f"{name}:min"], cells[f"{name}:max"] = cell(float(there.min())), cell(float(there.max()))
    return cells


def _describe_column(name: str, steps: Values, values: Values, logged: Mask) -> MetricColumn:
    known = metrics.find(name)
    there, at = values[logged], steps[logged]
    good = np.isfinite(there)
    finite, where = there[good], at[good]
    any_finite = len(finite) > 0
    return MetricColumn(
        name=name,
        unit=known.unit if known else "?",
        estimator=known.estimator if known else "?",
        first=cell(float(there[0])) if len(there) else None,
        last=cell(float(there[-1])) if len(there) else None,
        low=cell(float(finite.min())) if any_finite else None,
        low_at=float(where[finite.argmin()]) if any_finite else None,
        high=cell(float(finite.max())) if any_finite else None,
        high_at=float(where[finite.argmax()]) if any_finite else None,
        trend=_describe_trend(finite),
        broken=int((~good).sum()),
        values=len(there),
    )


def _describe_trend(values: Values) -> str:
    """Which way the last tenth lies from the first, where that is more than the series wobbles from row to row."""
    if len(values) < FEWEST_ROWS:
        return "too few rows"
    tenth = max(1, len(values) // 10)
    change = float(np.median(values[-tenth:]) - np.median(values[:tenth]))
    wobble = float(np.median(np.abs(np.diff(values))))
    return "flat" if abs(change) <= 2 * wobble or change == 0 else "rises" if change > 0 else "falls"


def cell(value: float) -> Cell:
    """A number with four digits; a word where it is none."""
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{CELL_DIGITS}g}")


# ── for a chart of one run ──

MOST_COLUMNS: Final = 64
SERIES_DIGITS: Final = 6


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
    file = open_columns(run.path / METRICS)
    file.read([STEPS])
    available = list_metrics(file.names)
    chosen = choose_metrics(names, available, run.id) if names else [name for name in MAIN_METRICS if name in available]
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
        steps=round_numbers(steps[ends], SERIES_DIGITS),
        seconds=round_numbers(_count_seconds(read, phases)[ends], SERIES_DIGITS),
        columns={name: _bucket(read[name][rows], edges) for name in chosen[:MOST_COLUMNS]},
        available=available,
    )


def latest_rows(names: Sequence[str], header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[list[float | None]]:
    """Rows that were just written, reduced to these columns: what a live chart appends."""
    places = [header.index(name) if name in header else None for name in names]
    return [[None if place is None else _parse_cell(line[place]) for place in places] for line in lines]


def _parse_cell(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _count_seconds(read: Mapping[str, Values], phases: Sequence[str]) -> Values:
    """Seconds of work until each row: the phases' own, or the clock where a log has none."""
    if phases:
        return np.cumsum(np.nansum(np.stack([read[name] for name in phases]), axis=0))
    clock = read.get(CLOCK)
    if clock is None:
        return np.full(len(read.get(STEPS, ())), np.nan)
    return clock - clock[0] if len(clock) else clock


def _bucket(values: Values, edges: Any) -> Column:
    if len(edges) == len(values) + 1:
        return Column(mean=round_numbers(values, SERIES_DIGITS), min=None, max=None)
    mean, low, high = _reduce(values, np.isfinite(values), edges[:-1])
    return Column(mean=round_numbers(mean, SERIES_DIGITS), min=round_numbers(low, SERIES_DIGITS), max=round_numbers(high, SERIES_DIGITS))


def _reduce(values: Values, finite: Any, starts: Any) -> tuple[Values, Values, Values]:
    """Mean, lowest and highest finite value of each bucket; NaN where it has none."""
    count = np.add.reduceat(finite, starts, dtype=np.int64)
    with np.errstate(all="ignore"):
        mean = np.add.reduceat(np.where(finite, values, 0.0), starts) / count
    low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    return mean, np.where(count > 0, low, np.nan), np.where(count > 0, high, np.nan)


# ── for a picture of several runs ──

MOST_CURVE_POINTS: Final = 2_000
MOST_NAMES: Final = 64
MOST_RUNS: Final = 256
ROUGH_BYTES: Final = 8_000_000
ROUGH_ROWS: Final = 1_500
"""Up to so many bytes everything is read at once; of more, so many rows are a first look."""
_RESAMPLES: Final = 200
CURVE_DIGITS: Final = 5


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
    """Interquartile mean over runs and its 95 % interval, below 8 runs their range; equal with one run."""
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
    x: float | None
    """Its place on the axis that was asked for; None where no row was written after it."""
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
    points = min(max(points, 16), MOST_CURVE_POINTS)
    runs = _find_runs(Store(runs_dir), selectors)
    wanted = list(dict.fromkeys(names or [TRAIN_RETURN]))
    tables, rough = _read_tables(runs, list(dict.fromkeys([STEPS, AXIS_COLUMNS[axis], *wanted])), rough)
    axes = [_measure_axis(run, table, axis) for run, table in zip(runs, tables, strict=True)]
    grid, edges = _choose_grid(axes, points)
    series = [made for name in wanted if (made := _draw_metric(name, runs, tables, axes, grid, edges)) is not None]
    return Curves.model_construct(
        of=list(selectors),
        axis=axis,
        x=[float(f"{value:.7g}") for value in grid],
        rows=max((len(axis) for axis in axes), default=0),
        rough=rough,
        threshold=runs[0].threshold,
        max_env_steps=runs[0].status.max_env_steps,
        runs=[_describe_run(run, each) for run, each in zip(runs, axes, strict=True)],
        series=series,
        available=_list_available(runs),
        healthy=_find_growth(runs, axis),
        changes=[
            change
            for run, table, places in zip(runs, tables, axes, strict=True)
            for change in _list_changes(run, table.get(STEPS, np.empty(0)), places)
        ],
    )


def _find_runs(store: Store, selectors: Sequence[str]) -> list[Run]:
    by_id: dict[str, Run] = {}
    for selector in selectors:
        named = store.resolve(selector)
        members = named.runs if isinstance(named, Group) else [named.run if isinstance(named, Checkpoint) else named]
        by_id |= {run.id: run for run in members}
    if not by_id:
        raise UsageError("no run to draw was named.\n  Name groups or runs: of=g7k2,g8bx")
    return list(by_id.values())[:MOST_RUNS]


def _read_tables(runs: Sequence[Run], wanted: Sequence[str], rough: bool) -> tuple[list[dict[str, Values]], bool]:
    files = [run.path / METRICS for run in runs]
    if rough and sum(open_columns(file).unread(wanted) for file in files) > ROUGH_BYTES:
        return [glance(file, wanted, max(ROUGH_ROWS // len(files), 50)) for file in files], True
    return [open_columns(file).read(wanted) for file in files], False


def _measure_axis(run: Run, table: Mapping[str, Values], axis: Axis) -> Values:
    values = table.get(AXIS_COLUMNS[axis], np.empty(0))
    if axis != "seconds" or not len(values):
        return values
    started = run.status.started
    first = float(values[0])
    return values - (min(started, first) if started else first)


def _choose_grid(axes: Sequence[Values], points: int) -> tuple[Values, Values | None]:
    """The places of the axis: every row's own where they are few (no edges then), else buckets of equal width."""
    every = [axis for axis in axes if len(axis)]
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


def _draw_metric(
    name: str, runs: Sequence[Run], tables: Sequence[Mapping[str, Values]], axes: Sequence[Values], grid: Values, edges: Values | None
) -> CurveSeries | None:
    lines, parts = [], []
    for run, table, axis in zip(runs, tables, axes, strict=True):
        values = table.get(name)
        if values is None or not len(values) or len(axis) != len(values):  # an imported log may have no clock
            continue
        low, mean, high = _thin_to_grid(axis, values, grid, edges)
        if np.isnan(mean).all():
            continue
        parts.append((low, mean, high))
        lines.append(SeedLine.model_construct(run=run.id, mean=round_numbers(mean, CURVE_DIGITS)))
    if not lines:
        return None
    center, low, high = _average(grid, [mean for _, mean, _ in parts])
    entry = metrics.find(name)
    band = entry.band if entry is not None else None
    return CurveSeries.model_construct(
        name=name,
        meaning=entry.meaning if entry else None,
        unit=entry.unit if entry else None,
        band=None if band is None else (_null_if_infinite(band.low), _null_if_infinite(band.high)),
        band_note=None if band is None else band.when,
        center=round_numbers(center, CURVE_DIGITS),
        low=round_numbers(low, CURVE_DIGITS),
        high=round_numbers(high, CURVE_DIGITS),
        lowest=round_numbers(np.fmin.reduce([low for low, _, _ in parts]), CURVE_DIGITS),
        highest=round_numbers(np.fmax.reduce([high for _, _, high in parts]), CURVE_DIGITS),
        seeds=lines,
    )


def _thin_to_grid(axis: Values, values: Values, grid: Values, edges: Values | None) -> tuple[Values, Values, Values]:
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


def _average(grid: Values, means: Sequence[Values]) -> tuple[Values, Values, Values]:
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


def _null_if_infinite(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _describe_run(run: Run, axis: Values) -> CurveRun:
    status = run.status
    return CurveRun.model_construct(
        run=run.id, seed=run.seed, group=run.group_id, state=state_of(status.state), rows=len(axis), env_steps=status.env_steps
    )


def _list_available(runs: Sequence[Run]) -> list[str]:
    names_seen: dict[str, None] = {}
    for run in runs:
        names_seen |= dict.fromkeys(open_columns(run.path / METRICS).header())
    return [name for name in list_metrics(list(names_seen)) if "fingerprint" not in name]


def _find_growth(runs: Sequence[Run], axis: Axis) -> Growth | None:
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


def _list_changes(run: Run, steps: Values, axis: Values) -> list[Change]:
    """The changes of a run, each with its place on the axis that is drawn: that of the first row at or after it."""
    changes = []
    for intervention in run.interventions:
        if isinstance(intervention.get("set"), dict):
            at = float(intervention.get("env_steps", 0))
            rows = np.flatnonzero(steps >= at) if len(steps) == len(axis) else steps
            x = float(axis[int(rows[0])]) if len(rows) else math.nan
            changes.append(Change(run=run.id, env_steps=at, x=x if math.isfinite(x) else None, text=_join(intervention["set"])))
    return changes


def _join(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in numbers.items())
