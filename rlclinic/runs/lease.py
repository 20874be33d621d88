"""Until when the processes of a job may write: a deadline that they keep themselves, whatever the database or the network does.

A worker that got a job for LEASE_SECONDS puts the end of that time into a file on its own machine, moves it on with every renewal, and
names the file to the processes of the job in RLCLINIC_LEASE. Each of them looks at it before it writes or renames anything. One that was
paused past its deadline wakes up, finds that it is over, and writes no more: another worker may have gone on in its place.

The clock is that of the machine since it booted. It goes on while processes are paused or the machine sleeps, and nobody can set it.
"""

import os
import struct
import time
from pathlib import Path
from typing import Final

from rlclinic.errors import RunError

VARIABLE: Final = "RLCLINIC_LEASE"
SECONDS: Final = float(os.environ.get("RLCLINIC_LEASE_SECONDS") or 30.0)
"""How long a process is believed after its last word."""
SAFETY: Final = 0.1
"""Share of a lease that nobody writes in any more: a write that began before the deadline has that long to end."""
CUT_OFF: Final = "stopped before its end: whoever renews its lease was not heard of"
"""The reason of a run that had to stop, and was not asked to."""
WITH_ITS_PROCESS: Final = "asked to stop with its process"
"""The reason of a run whose process was asked to leave: another attempt of its job goes on with it."""
_DEADLINE: Final = struct.Struct("<d")


class LeaseLost(RunError):
    """Another worker goes on with the job, or somebody said that it is over: this one must not write any more."""


def now() -> float:
    """Seconds since the machine booted, those of sleep too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def extend(path: Path, asked: float, seconds: float) -> None:
    """Put down that a lease of so many seconds was asked for at that moment: the database counts from a later one."""
    write_deadline(path, asked + seconds * (1 - SAFETY))


def write_deadline(path: Path, deadline: float) -> None:
    """Replace the deadline at once; 0 ends it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, _DEADLINE.pack(deadline), 0)
    finally:
        os.close(fd)


def take_over(path: Path) -> None:
    """Say that from here on the job's own process renews the lease: while it started, its worker did."""
    with path.open("ab") as file:
        file.write(b"\1")


def is_taken_over(path: Path) -> bool:
    """Whether the job's own process renews the lease."""
    return path.stat().st_size > _DEADLINE.size


def left(path: Path | str) -> float:
    """Seconds until the deadline; less than 0 once it is over, or where nobody keeps it any more."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - before every write
            (deadline,) = _DEADLINE.unpack(file.read(_DEADLINE.size))
    except (OSError, struct.error):
        return -1.0
    return float(deadline) - now()


def is_kept() -> bool:
    """Whether this process belongs to a job of a worker, which has a deadline."""
    return VARIABLE in os.environ


def runs_out() -> bool:
    """Whether two thirds of this process's lease have gone by: whoever renews it is cut off, or gone."""
    path = os.environ.get(VARIABLE)
    return path is not None and left(path) < SECONDS / 3


def check() -> None:
    """LeaseLost if this process belongs to a job that is not its own any more. Costs nothing for all others."""
    path = os.environ.get(VARIABLE)
    if path is not None and left(path) <= 0:
        raise LeaseLost(
            "the time for which this process may write is over.\n  Another worker may have gone on in its place: two would mix rows.\n"
            "  This one stops; what came after the last checkpoint is computed again"
        )
