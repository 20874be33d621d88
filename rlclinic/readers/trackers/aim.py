"""Aim's store (`.aim`), read by Aim's own package where it is installed: nothing else knows its database."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import hyperparameters, metric_aliases
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.trackers import tagged_logs

if TYPE_CHECKING:
    from rlclinic.readers.options import Options
    from rlclinic.runs.history import History

STORE: Final = ".aim"
_MAX_RUNS: Final = 256
_MAX_METRICS: Final = 4_096
_SYSTEM: Final = "__system__"
"""How Aim's own numbers about the machine begin."""


def matches(path: Path) -> bool:
    """A store; or, where Aim can be asked, the folder that it lies in. Where it cannot, other logs in that folder are looked at first."""
    return path.is_dir() and (path.name == STORE or (lies_in(path) and find_spec("aim") is not None))


def lies_in(folder: Path) -> bool:
    return (folder / STORE).is_dir()


def read(path: Path, options: Options) -> list[History]:
    """A history for each run that has a metric that is known."""
    folder = path.parent if path.name == STORE else path
    try:
        from aim import Repo  # type: ignore[import-not-found, unused-ignore]
    except ImportError as reason:
        raise UsageError(
            f"{path} holds Aim's store, a database that only Aim's own package reads, and that is not installed.\n"
            "  Nothing can be said about its runs.\n  Try: pip install aim"
        ) from reason
    try:
        repo = Repo(str(folder))
        runs = list(zip(range(_MAX_RUNS), repo.iter_runs(), strict=False))
        waiting = [] if runs else repo.list_all_runs()
        histories = [made for _, run in runs if (made := _read_run(run, folder, options)).series]
    except Exception as reason:  # whatever a package of others raises about its own database
        raise UsageError(
            f"{path} holds Aim's store, and Aim cannot read it: {type(reason).__name__}: {str(reason)[:200]}\n"
            "  Nothing can be said about its runs.\n  Try: aim storage upgrade, or a CSV for each run"
        ) from reason
    if waiting:
        raise UsageError(
            f"{path} holds Aim's store with {len(waiting)} runs that are not in its index yet.\n  Aim shows none of them.\n"
            "  Try: aim storage reindex, or open it once: aim up"
        )
    if not histories:
        raise UsageError(
            f"{path} holds Aim's store, but no run in it has a metric that is known.\n  Nothing can be said about its runs.\n"
            "  Say which metric is which: ",
            Argument("map", "return=METRIC"),
        )
    return histories


def _read_run(run: Any, folder: Path, options: Options) -> History:
    raw_log = RawLog(metric_aliases.EPISODIC | options.episodic)
    for _, metric in zip(range(_MAX_METRICS), run.metrics(), strict=False):
        if metric.name.startswith(_SYSTEM):
            continue
        steps, columns = metric.data.items_list()  # values, epochs, times; `metric.values` alone is keyed by hashes of steps
        raw_log.add_column(_name(metric), np.asarray(steps, float), np.asarray(columns[0], float))
    raw_log.step_factor = options.mapping.step_factor
    raw = {key: hyperparameters.parse_value(value) if isinstance(value, str) else value for key, value in _settings(run).items()}
    name = str(run.name or run.hash)
    made = tagged_logs.make_history(
        name, "aim", folder, raw_log, tagged_logs.translate_settings(raw, name), options, notes=[f"run {run.hash} of Aim's store"]
    )
    return replace(made, path=folder / STORE, state="finished" if made.state == "unknown" and not run.active else made.state)


def _name(metric: Any) -> str:
    """The metric's name, with the part of its context that says which half it is of: `loss` of {"subset": "train"} is `train/loss`."""
    subset = metric.context.to_dict().get("subset")
    return f"{subset}/{metric.name}" if isinstance(subset, str) and not metric.name.startswith(f"{subset}/") else str(metric.name)


def _settings(run: Any) -> dict[str, Any]:
    """What was put into the run, one level deep: run["hparams"] = {...} is the usual way."""
    found: dict[str, Any] = {}
    for key, value in run.meta_run_attrs_tree.collect().items():
        if isinstance(value, dict):
            found |= {str(inner): item for inner, item in value.items()}
        elif not str(key).startswith("__"):
            found[str(key)] = value
    return found
