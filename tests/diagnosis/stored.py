"""Recorded cases as run folders, written through the store and the writer that training uses."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlclinic.config import Config, files
from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from tests.diagnosis import recorded

EVAL = "val/roll/ep_rew_mean"


def write_group(name: str, root: Path = Path("runs"), changes: Sequence[str] = (), **about: Any) -> Group:
    """A recorded case as a group of runs; `about` goes to Store.create_group."""
    recipe, histories = recorded.load(name)
    config = files.load(recipe["ref"], [*recipe["changes"], *changes]).config
    group = Store(root).create_group([config.model_copy(update={"seed": history.seed}) for history in histories], **about)
    for run, history in zip(group.runs, histories, strict=True):
        write_run(run.path, history)
    return group


def write_run(path: Path, history: History) -> None:
    """metrics.csv and status.json of a run as it ended."""
    columns = ["total_timesteps", *history.series]
    table: dict[float, dict[str, float]] = {}
    for name, series in history.series.items():
        for step, value in zip(series.steps, series.values, strict=True):
            table.setdefault(float(step), {})[name] = float(value)
    with RunWriter(path, columns) as writer:
        for step in sorted(table):
            writer.row({"total_timesteps": step, **table[step]})
        writer.status(history.state, int(history.env_steps or 0), reason=history.reason, **_figures(history))


def _figures(history: History) -> dict[str, Any]:
    found = history.series.get(EVAL)
    if found is None or not len(found.values):
        return {}
    passed = found.steps[found.values >= history.threshold] if history.threshold is not None else []
    reached = int(passed[0]) if len(passed) else None
    return {"eval_mean": float(found.values[-1]), "best_eval": float(found.values.max()), "threshold_reached_at": reached}


def write_gamed(path: Path = Path("runs"), **series: Any) -> Group:
    """A run whose return rises while no episode succeeds, with four policies saved on the way."""
    made = cases.unsolved({"val/roll/ep_rew_mean": None, **series}, threshold=None)
    history = replace(made, series={name: each for name, each in made.series.items() if name.startswith("train/roll/")})
    group = Store(path).create_group([Config.model_validate({"env": {"id": "Delivery-v0"}})])
    write_run(group.runs[0].path, history)
    for share in (0.0, 0.3, 0.6, 1.0):
        (group.runs[0].path / "checkpoints" / str(int(share * history.env_steps))).mkdir(parents=True)
    return group
