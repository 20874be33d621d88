"""One writer per run: a lock that the kernel drops when its process ends, however it ends."""

import errno
import fcntl
import json
import os
import resource
import socket
import weakref
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.errors import RunBusy
from rlclinic.runs import disk

NAME: Final = "lock"
HOST: Final = os.environ.get("RLCLINIC_HOST") or socket.gethostname()
"""Where processes are looked up by their number. Workers give theirs a name of its own: two containers may have the same hostname."""
_PROC: Final = Path("/proc")

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """Held from construction to `release` or the end of the process. Raises RunBusy if another writer holds it.

    The file stays behind, unlocked: only the kernel's lock counts, so a stale file never blocks anyone.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        with disk.guarded(self.path):
            fd = _open(self.path)
            try:
                _take(fd, folder)
            except (OSError, RunBusy):
                os.close(fd)
                raise
        self._fd: int | None = fd
        _held.add(self)

    def release(self) -> None:
        """Let another process write."""
        self.forget()
        _held.discard(self)

    @property
    def held(self) -> bool:
        return self._fd is not None

    def forget(self) -> None:
        """Close this process's handle. In a forked child this leaves the parent's lock as it is."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _open(path: Path) -> int:
    """Open the file; a cohort of a thousand runs may need more open files than a shell allows by default."""
    flags = os.O_RDWR | os.O_CREAT
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if error.errno != errno.EMFILE or soft == hard:
            raise
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return os.open(path, flags, 0o666)


def _take(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise RunBusy(*_describe_writer(folder)) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": HOST}).encode(), 0)


def _describe_writer(folder: Path) -> tuple[str, ...]:
    owner = disk.read_json(folder / NAME) or {}
    who = f"process {owner['pid']} on {owner['host']}" if {"pid", "host"} <= owner.keys() else "another process"
    return (
        f"run {folder.name} is being written by {who}.\n"
        "  A second writer would mix two histories in one metrics.csv.\n  Wait for it, or stop it first: ",
        Action("stop", folder.name),
    )


def started(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks since boot; None if there is no such process.

    A process number alone is not an identity: the kernel uses it again. Without /proc, 0 for every living process.
    """
    if not _PROC.exists():
        return 0 if _answers(pid) else None
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the command in parentheses and may contain anything; 22 is the start time, 3 the state.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _forget_in_child() -> None:
    # A forked env worker inherits the handle; if it outlived its parent, the dead parent's run would stay locked.
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_in_child)
