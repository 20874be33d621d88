"""Looking at what runs left behind: lists, facts, logs, checkpoints; and removing them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.report.format import step_unit
from rlclinic.report.models import (
    CheckpointList,
    CheckpointRow,
    Curve,
    LogText,
    Removed,
    RunInfo,
    RunList,
    RunRow,
    SeedCurve,
    finite,
    state_of,
)
from rlclinic.runs import trials
from rlclinic.runs.listed import describe_run
from rlclinic.runs.record import Checkpoint, Group, Run, possible_returns, settings
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    from rlclinic.runs.metrics_file.table import Table

STATES: Final = ("queued", "running", "finished", "stopped", "failed", "crashed")


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
    runs = store.runs()[::-1]
    if group is not None:
        wanted = store.group(group).id
        runs = [run for run in runs if run.group_id == wanted]
    if trial is not None:
        tid = trials.find(store, trial).id
        runs = [run for run in runs if trials.trial_of(run) == tid]
    if env is not None:
        runs = [run for run in runs if run.name.lower().startswith(env.lower())]
    if state is not None and state not in STATES:
        raise UsageError(f"there is no state {state!r}.\n  Nothing would ever be listed.\n  Give one of {', '.join(STATES)}")
    if state is not None:
        runs = [run for run in runs if run.status.state == state]
    shown = runs if limit is None else runs[:limit]
    return RunList(root=str(runs_dir), runs=[run_row(run) for run in shown], total=len(runs))


def run_row(run: Run) -> RunRow:
    """What a list shows of a run."""
    listed = describe_run(run)
    # The values are ours, and a thousand rows must not cost a thousand validations.
    return RunRow.model_construct(
        **listed.pick(RunRow.model_fields.keys() - {"state"}),
        state=state_of(listed.state),
        age_seconds=max(0.0, time.time() - listed.heartbeat) if listed.heartbeat else None,
    )


def get_run_info(selector: str = "@last", runs_dir: Path = Path("runs")) -> RunInfo:
    """One run: config, state, checkpoints, newest metrics and its curve."""
    from rlclinic.ops.runs.series import MAIN_METRICS
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
    targets: dict[Path, Run | Group] = {}
    for selector in selectors:
        named = store.resolve(selector)
        if isinstance(named, Checkpoint):
            raise UsageError(f"{selector!r} is a checkpoint, and runs are removed as a whole.\n  Type: ", Action("runs rm", named.run.id))
        targets[named.path] = named
    groups = [target for target in targets.values() if isinstance(target, Group)]
    members = {run.path: run for group in groups for run in group.runs}
    single = [target for target in targets.values() if isinstance(target, Run) and target.path not in members]
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
    from rlclinic.ops.runs.series import thin
    from rlclinic.runs.outcome import RETURNS, choose_source

    source = choose_source([table])
    kept = thin(*table.series(RETURNS[source]), 256)
    steps, values = [float(step) for step in kept[0]], finite(kept[1])
    seed = SeedCurve(seed=run.seed, steps=steps, values=values)
    return Curve(
        label=f"{source} return",
        steps=steps,
        center=values,
        low=values,
        high=values,
        seeds=[seed],
        threshold=run.threshold,
        return_range=possible_returns(run.record),
        step_unit=step_unit(run.algo, run.record),
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
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
