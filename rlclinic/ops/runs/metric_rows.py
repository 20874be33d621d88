"""Rows of a run's metrics for whoever reads them one by one: aligned, few, and with every spike in them.

A long run is cut into buckets of rows; a bucket says the mean, the lowest and the highest of each metric, so that an update that
went wrong once is still there. Numbers keep four digits; what is not a number is said as such and counted.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlclinic import metrics
from rlclinic.errors import UsageError
from rlclinic.ops.runs.listing import CLOCK, EVAL_RETURN, STEPS, TRAIN_RETURN, choose_metrics
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs.record import Checkpoint, Run
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.runs.metrics_file.table import Column, Mask

DIGITS = 4
FIRST = (TRAIN_RETURN, EVAL_RETURN, "train/metrics/kl_divergence", "train/metrics/entropy", "train/metrics/explained_variance")
"""What is shown where nothing is named."""
MOST_ROWS = 500
MOST_COLUMNS = 12
FEWEST = 4
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
    available = [name for name in table.names if name not in (STEPS, CLOCK, "epoch")]
    wanted = choose_metrics(names, available, run.id) if names else [name for name in FIRST if name in table]
    wanted, left_out = wanted[:MOST_COLUMNS], wanted[MOST_COLUMNS:]
    steps = table[STEPS] if STEPS in table else table.values[:, :1].reshape(-1)
    rows = np.flatnonzero((steps >= from_step) & (steps <= to_step))
    steps = steps[rows]
    columns = {name: (table[name][rows], table.logged(name)[rows]) for name in wanted}
    per = max(1, math.ceil(len(rows) / limit))
    return MetricRows(
        run=run.id,
        others=others,
        columns=[_column(name, steps, values, logged) for name, (values, logged) in columns.items()],
        rows=[_row(steps, columns, slice(start, start + per), per > 1) for start in range(0, len(rows), per)],
        left_out=left_out,
        bucket_rows=per,
        total_rows=len(rows),
        next_step=float(steps[-1]) + 1 if len(rows) else from_step,
    )


def one_run(store: Store, selector: str) -> tuple[Run, list[str]]:
    """The run that is meant; of a group the one with the median return, and the names of the others."""
    found = store.resolve(selector)
    if isinstance(found, Checkpoint):
        return found.run, []
    if isinstance(found, Run):
        return found, []
    ordered = sorted(found.runs, key=_return)
    middle = ordered[(len(ordered) - 1) // 2]
    return middle, [run.id for run in found.runs if run.id != middle.id]


def _return(run: Run) -> float:
    status = run.status
    value = status.eval_mean if status.eval_mean is not None else status.return_mean
    return -math.inf if value is None else value


def _row(steps: "Column", columns: "dict[str, tuple[Column, Mask]]", rows: slice, bucketed: bool) -> dict[str, Cell]:
    """One bucket: its last env step, and what the metrics were in it."""
    found: dict[str, Cell] = {STEPS: float(steps[rows][-1])}
    for name, (values, logged) in columns.items():
        there = values[rows][logged[rows]]
        finite = there[np.isfinite(there)]
        if not len(finite):
            found[name] = cell(float(there[-1])) if len(there) else None
            continue
        found[name] = cell(float(finite.mean()))
        if bucketed and len(there) > 1:
            found[f"{name}:min"], found[f"{name}:max"] = cell(float(there.min())), cell(float(there.max()))
    return found


def _column(name: str, steps: "Column", values: "Column", logged: "Mask") -> MetricColumn:
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
        trend=_trend(finite),
        broken=int((~good).sum()),
        values=len(there),
    )


def _trend(values: "Column") -> str:
    """Which way the last tenth lies from the first, where that is more than the series wobbles from row to row."""
    if len(values) < FEWEST:
        return "too few rows"
    tenth = max(1, len(values) // 10)
    change = float(np.median(values[-tenth:]) - np.median(values[:tenth]))
    wobble = float(np.median(np.abs(np.diff(values))))
    return "flat" if abs(change) <= 2 * wobble or change == 0 else "rises" if change > 0 else "falls"


def cell(value: float) -> Cell:
    """A number with four digits; a word where it is none."""
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{DIGITS}g}")
