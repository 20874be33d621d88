"""Whether anything in a run or group folder has changed, at the price of one look at the folder: hardly a file is read."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from rlclinic.runs import notes, status_file
from rlclinic.runs.record import CHECKPOINTS, CONFIG, INTERVENTIONS, LOG, METRICS, Group, Run
from rlclinic.runs.status_file import Status

_FILES: Final = frozenset({METRICS, status_file.NAME, CONFIG, LOG, INTERVENTIONS, notes.NAME, CHECKPOINTS})


def of(owner: Run | Group) -> str:
    """A text that is another one after any change of a file that answers are made from."""
    if isinstance(owner, Run):
        return of_run(owner)
    return "+".join((_stamp(owner.path.stat()), *(of_run(run) for run in owner.runs)))


def of_run(run: Run) -> str:
    """Of one run. A process that died without a word changes it too: the run then reads as crashed."""
    try:
        with os.scandir(run.path) as entries:
            marks = {entry.name: _stamp(entry.stat()) for entry in entries if entry.name in _FILES}
    except OSError:
        return f"{run.id}/-"
    running = _running(run.path, marks.get(status_file.NAME, ""))
    gone = "gone" if running is not None and not status_file.alive(running) else ""
    return "/".join((run.id, *(f"{name}.{marks[name]}" for name in sorted(marks)), gone))


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns:x}.{found.st_size:x}"


@lru_cache(maxsize=20_000)
def _running(folder: Path, mark: str) -> Status | None:
    """The status of a run that says that it is running, read once for each change of its file."""
    found = status_file.raw(folder)
    return found if found.state == "running" else None
