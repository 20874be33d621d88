"""Looking at what runs left behind: lists, facts, series, logs, checkpoints; and removing them."""

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError, nearest
from rlclinic.report.group import possible_returns
from rlclinic.report.models import (
    CheckpointList,
    CheckpointRow,
    Curve,
    LogText,
    MetricSeries,
    MetricTable,
    Removed,
    RunInfo,
    RunList,
    RunRow,
    SeedCurve,
    finite,
    state_of,
)
from rlclinic.runs import trials
from rlclinic.runs.record import Checkpoint, Group, Run, settings
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.runs.metrics_file.table import Column, Table

STEPS, CLOCK = "total_timesteps", "time"
TRAIN_RETURN, EVAL_RETURN = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"
MAIN_METRICS = (
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


def list_runs(
    runs_dir: Path = Path("runs"),
    *,
    state: str | None = None,
    env: str | None = None,
    group: str | None = None,
    trial: str | None = None,
    limit: int | None = 20,
) -> RunList:
    """Runs, newest first; `env` matches the beginning of the config's name, `limit=None` gives all of them."""
    store = Store(runs_dir)
    found = store.runs()[::-1]
    if group is not None:
        wanted = store.group(group).id
        found = [run for run in found if run.group_id == wanted]
    if trial is not None:
        tid = trials.find(store, trial).id
        found = [run for run in found if trials.trial_of(run) == tid]
    if env is not None:
        found = [run for run in found if run.name.lower().startswith(env.lower())]
    if state is not None:
        found = [run for run in found if run.status.state == state]
    shown = found if limit is None else found[:limit]
    return RunList(root=str(runs_dir), runs=[run_row(run) for run in shown], total=len(found))


def run_row(run: Run) -> RunRow:
    """What a list shows of a run."""
    status = run.status
    return RunRow.model_construct(  # the values are ours, and a thousand rows must not cost a thousand validations
        id=run.id,
        group=run.group_id,
        name=run.name,
        seed=run.seed,
        state=state_of(status.state),
        env_steps=status.env_steps,
        max_env_steps=status.max_env_steps,
        return_mean=status.return_mean,
        eval_mean=status.eval_mean,
        best_eval=status.best_eval,
        threshold=run.threshold,
        threshold_reached_at=status.threshold_reached_at,
        age_seconds=max(0.0, time.time() - status.heartbeat) if status.heartbeat else None,
        parent=run.parent,
    )


def get_run_info(selector: str = "@last", runs_dir: Path = Path("runs")) -> RunInfo:
    """One run: config, state, checkpoints, newest metrics and its curve."""
    from rlclinic.runs import summary

    run = Store(runs_dir).run(selector)
    table, status = run.metrics, run.status
    return RunInfo(
        run=run_row(run),
        reason=status.reason,
        config=settings(run.record),
        versions=run.record.get("versions") or {},
        engine=_engine(run.record.get("engine")),
        checkpoints=[_checkpoint_row(checkpoint) for checkpoint in run.checkpoints],
        latest={name: table.last(name) for name in MAIN_METRICS if name in table},
        curve=run_curve(run, table),
        wall_seconds=summary.wall_seconds(table),
        steps_per_second=status.fps,
        path=str(run.path),
    )


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
    available = [name for name in table.names if name not in (STEPS, CLOCK, "epoch")]
    wanted = choose_metrics(names, available, run.id) if names else [name for name in MAIN_METRICS if name in table]
    series = [_series(table, name, points, from_step, to_step) for name in wanted]
    return MetricTable(run=run.id, series=series, available=available)


def get_run_logs(selector: str = "@last", runs_dir: Path = Path("runs"), *, lines: int | None = 50) -> LogText:
    """The last lines of a run's log."""
    run = Store(runs_dir).run(selector)
    text = run.log.splitlines()
    shown = text if lines is None else text[len(text) - min(lines, len(text)) :]
    return LogText(run=run.id, lines=shown, total_lines=len(text))


def list_checkpoints(selector: str = "@last", runs_dir: Path = Path("runs")) -> CheckpointList:
    """A run's checkpoints, oldest first."""
    run = Store(runs_dir).run(selector)
    return CheckpointList(run=run.id, checkpoints=[_checkpoint_row(checkpoint) for checkpoint in run.checkpoints])


def remove_runs(selectors: Sequence[str], runs_dir: Path = Path("runs"), *, dry_run: bool = False) -> Removed:
    """Delete runs, or groups with all their runs. All names are resolved before anything is deleted."""
    store = Store(runs_dir)
    found: dict[Path, Run | Group] = {}
    for selector in selectors:
        named = store.resolve(selector)
        if isinstance(named, Checkpoint):
            raise UsageError(f"{selector!r} is a checkpoint, and runs are removed as a whole.\n  Type: ", Action("runs rm", named.run.id))
        found[named.path] = named
    groups = [target for target in found.values() if isinstance(target, Group)]
    members = {run.path: run for group in groups for run in group.runs}
    single = [target for target in found.values() if isinstance(target, Run) and target.path not in members]
    runs = [*members.values(), *single]
    freed = sum(_bytes(run.path) for run in runs) + sum(_bytes(group.path) for group in groups)
    if not dry_run:
        doomed: list[Run | Group] = [*groups, *single]
        for target in doomed:
            store.remove(target)
    return Removed(runs=[run.id for run in runs], groups=[group.id for group in groups], bytes=freed, deleted=not dry_run)


def complete_selector(incomplete: str, runs_dir: Path = Path("runs")) -> list[str]:
    """What a shell offers for the beginning of a selector: words, groups, runs; newest first."""
    store = Store(runs_dir)
    words = ["@last", "@best", "@running"]
    ids = [group.id for group in reversed(store.groups())] + [run.id for run in reversed(store.runs())]
    return [name for name in [*words, *ids] if name.startswith(incomplete)][:200]


def run_curve(run: Run, table: "Table") -> Curve:
    """A run's evaluations, or its training return where it has none."""
    name, label = (EVAL_RETURN, "evaluation return") if len(table.series(EVAL_RETURN)[0]) else (TRAIN_RETURN, "training return")
    kept = _thin(*table.series(name), 256)
    steps, values = [float(step) for step in kept[0]], finite(kept[1])
    seed = SeedCurve(seed=run.seed, steps=steps, values=values)
    return Curve(
        label=label,
        steps=steps,
        center=values,
        low=values,
        high=values,
        seeds=[seed],
        threshold=run.threshold,
        return_range=possible_returns(run.record),
    )


def _engine(engine: object) -> dict[str, Any] | None:
    return engine if isinstance(engine, dict) else {"name": engine} if engine else None


def _checkpoint_row(checkpoint: Checkpoint) -> CheckpointRow:
    return CheckpointRow(
        step=checkpoint.step,
        path=str(checkpoint.path),
        best=checkpoint.best,
        last=checkpoint.last,
        valid=checkpoint.valid,
        bytes=_bytes(checkpoint.path),
    )


def _bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*"))


def choose_metrics(names: Sequence[str], available: Sequence[str], run: str) -> list[str]:
    """Exact names first, then every column that contains the text: `kl` finds train/metrics/kl_divergence."""
    found: list[str] = []
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
        found += [hit for hit in hits if hit not in found]
    return found


def _series(table: "Table", name: str, points: int, from_step: float, to_step: float) -> MetricSeries:
    steps, values = table.series(name)
    inside = (steps >= from_step) & (steps <= to_step)
    steps, values = steps[inside], values[inside]
    numbers = [float(value) for value in values if math.isfinite(value)]
    kept_steps, kept = _thin(steps, values, points)
    meaning, unit = _definition(name)
    return MetricSeries(
        name=name,
        meaning=meaning,
        unit=unit,
        steps=[float(step) for step in kept_steps],
        values=finite(kept),
        first=numbers[0] if numbers else None,
        last=numbers[-1] if numbers else None,
        low=min(numbers, default=None),
        high=max(numbers, default=None),
        rows=len(values),
    )


def _thin(steps: "Column", values: "Column", points: int) -> "tuple[Column, Column]":
    """At most `points` rows: each bucket keeps its lowest and its highest, so that a spike of one row stays visible."""
    import numpy as np

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


def _definition(name: str) -> tuple[str | None, str | None]:
    """What a metric means and its unit, from the dictionary of metrics."""
    from rlclinic import metrics

    entry = metrics.find(name)
    return (entry.meaning, entry.unit) if entry else (None, None)
