"""What a launcher writes about a run: that it waits, and how it ended where its process died without a word."""

import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from rlclinic import plain_files
from rlclinic.errors import DiskFailed, RunBusy
from rlclinic.runs import control, disk, record, status_file
from rlclinic.runs.lock import Lock

LAST_LINES: Final = 40


def queue(run: Path) -> None:
    """Mark a run as waiting for its process: if that dies before its first word, the death is not lost in an older status.

    Requests to an earlier process are dropped: they must not stop the next one. RunBusy if one is still writing.
    """
    lock = Lock(run)
    try:
        before = status_file.raw(run)
        if before.state != "queued":
            control.drop_old(run)
            status_file.write(run, replace(before, state="queued", reason=None, heartbeat=time.time()))
    finally:
        lock.release()


def launch_log(run: Path) -> Path:
    """Where a process that trains this run and others prints to."""
    return run / record.LAUNCH_LOG


def open_log(path: Path) -> IO[bytes]:
    """Open a launch log for a child to append to."""
    with disk.guarded(path):
        return path.open("ab")


def read_log(path: Path, start: int) -> str:
    """What was printed after byte `start`; empty if the file is gone."""
    try:
        with plain_files.open_plain(path) as file:
            file.seek(start)
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def drop_empty(path: Path) -> None:
    """Remove a launch log in which nothing was printed."""
    try:
        if path.stat().st_size == 0:
            path.unlink()
    except OSError:
        return


def close(run: Path, state: str, reason: str, printed: str = "") -> bool:
    """Give a run without a final status this one, and put what its process printed last into run.log.

    Leaves a run alone that ended by itself, or that another process writes to by now. True if it was changed.
    """
    before = status_file.raw(run)
    if before.state in status_file.FINAL:
        return False
    try:
        lock = Lock(run)
    except (RunBusy, DiskFailed):
        return False
    try:
        lines = printed.rstrip().splitlines()[-LAST_LINES:]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ")
        disk.append_line(run / record.LOG, "\n".join([f"{stamp}{state}: {reason}", *(f"  | {line}" for line in lines)]))
        status_file.write(run, replace(before, state=state, reason=reason, heartbeat=time.time()))
    except DiskFailed:
        # On a full disk the run still reads as crashed, which is true.
        return False
    finally:
        lock.release()
    return True
