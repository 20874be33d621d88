"""Requests to a run that is training: control.json, read between iterations.

    {"stop": true}                              checkpoint and stop
    {"checkpoint": true}                        checkpoint and go on
    {"set": {"algo.ent_coef": 0.01}}            change numbers; recorded in interventions.jsonl when they take effect

Requests that come before the run has read the last one are joined; for the same number the later one holds.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import UsageError
from rlclinic.runs import disk, lease

NAME: Final = "control.json"
ASKED: Final = "asked to stop"
"""The reason of a run that was asked to stop, by itself or with all others of its process."""
_LOCK: Final = "control.lock"
_FLAGS: Final = ("stop", "checkpoint")


def ask(folder: Path, *, stop: bool = False, checkpoint: bool = False, numbers: Mapping[str, Any] | None = None) -> None:
    """Leave a request for the process that trains this run."""
    if not (stop or checkpoint or numbers):
        raise UsageError("a request needs something to do: stop, checkpoint, or numbers to change")
    with _alone(folder):
        pending = disk.read_json(folder / NAME) or {}
        for flag, wanted in zip(_FLAGS, (stop, checkpoint), strict=True):
            if wanted:
                pending[flag] = True
        if numbers:
            pending["set"] = {**pending.get("set", {}), **numbers}
        disk.write_json(folder / NAME, pending)


def take(folder: Path) -> dict[str, Any] | None:
    """Read and remove the pending request. Costs one look at the folder when there is none."""
    # Not through a Path: a cohort of a thousand runs looks a thousand times at every row.
    if not os.path.exists(f"{folder}/{NAME}"):  # noqa: PTH110
        return None
    with _alone(folder):
        pending = disk.read_json(folder / NAME)
        (folder / NAME).unlink(missing_ok=True)
    return pending


def drop_old(folder: Path) -> None:
    """Remove a request to a process that is gone: it must not stop the next one.

    Not of a job that is done by workers: a request is to whoever does it, also where that one is lost and another goes on.
    """
    if not lease.is_kept():
        take(folder)


def pending(folder: Path) -> dict[str, Any] | None:
    """The request that waits, left where it is."""
    return disk.read_json(folder / NAME)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with disk.guarded(folder / NAME), (folder / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
