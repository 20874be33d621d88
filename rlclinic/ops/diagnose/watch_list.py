"""What an earlier diagnosis said to watch, checked unasked on the runs that were made from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from rlclinic import plain_files
from rlclinic.diagnosis.findings import Diagnosis, Watch
from rlclinic.errors import RlclinicError
from rlclinic.report.format import number
from rlclinic.report.models import WatchCheck, Watched
from rlclinic.runs import coerce
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

FILE: Final = "diagnosis.json"
_WHEN: Final = (("at half time", 0.4, 0.6), ("in the first half", 0.0, 0.5))
"""When a watch holds, as its text says it: shares of the budget. Without one of these, the whole run."""


def checked(owner: Run | Group | None, histories: Sequence[History]) -> Watched | None:
    """The watches of the run or group that this one was forked, extended, initialized or repeated from; None without any."""
    source = _source(owner) if owner is not None else None
    if source is None:
        return None
    before = _diagnosis(source)
    if before is None or not before.watch:
        return None
    checks = [check(watch, histories) for watch in before.watch if watch.below is not None or watch.above is not None]
    return Watched(source=source.id, cause=before.answer, checks=checks) if checks else None


def check(watch: Watch, histories: Sequence[History]) -> WatchCheck:
    """One watch on the median over runs of what was logged in the part of the run that it is about."""
    levels = [level for history in histories if (level := _level(watch, history)) is not None]
    if not levels:
        return WatchCheck(text=watch.text, series=watch.series, measured=None, held=None, said=f"{watch.text}: not logged this time")
    measured = float(np.median(levels))
    held = (watch.below is None or measured <= watch.below) and (watch.above is None or measured >= watch.above)
    text = f"{watch.text}: {'held' if held else 'did not hold'}, {number(measured)}"
    return WatchCheck(text=watch.text, series=watch.series, measured=measured, held=held, said=text)


def _level(watch: Watch, history: History) -> float | None:
    series = history.series.get(watch.series)
    if series is None or not len(series.values):
        return None
    end = float(history.max_env_steps or series.steps[-1])
    low, high = next(((low, high) for phrase, low, high in _WHEN if phrase in watch.text), (0.0, 1.0))
    inside = series.values[(series.steps >= low * end) & (series.steps <= high * end)]
    return float(np.median(inside)) if len(inside) else None


def _source(owner: Run | Group) -> Run | Group | None:
    """What the owner was made from, if it is still in the store: the group rather than one of its runs."""
    root = owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent
    try:
        named = owner.parent or coerce.text(owner.record.get("repeats"))
        selected = Store(root).resolve(named.partition("@")[0]) if named else None
    except RlclinicError:
        return None
    if isinstance(selected, Run):
        return selected.group or selected
    return selected if isinstance(selected, Group) else None


def _diagnosis(source: Run | Group) -> Diagnosis | None:
    """The diagnosis beside a group, or beside one of its runs where only that was diagnosed."""
    runs = source.runs if isinstance(source, Group) else []
    for folder in (source.path, *(run.path for run in runs)):
        diagnosis = read(folder / FILE)
        if diagnosis is not None:
            return diagnosis
    return None


def read(path: Path) -> Diagnosis | None:
    """A diagnosis.json; None if there is none, or one that another version wrote."""
    try:
        return Diagnosis.model_validate_json(plain_files.read_bytes(path))
    except (OSError, ValidationError):
        return None
