"""What may befall a training process, brought about from inside it: a kill at a chosen disk operation, a disk that refuses."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOBODY = 65_534
# Every way in which the run folders are changed, as Python's audit events name them; written bytes have none.
CHANGES = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.truncate", "shutil.rmtree"})


def signal_at_change(folder: str, number: int, name: str = "SIGKILL", times: int = 1) -> None:
    """A signal to this process before the n-th change of anything under `folder`."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if _changes(event, arguments, folder):
            seen += 1
            if seen == number:
                for _ in range(times):
                    os.kill(os.getpid(), signal.Signals[name])
                    time.sleep(0.05)  # a change made by another thread: the main one must hear of each signal

    sys.addaudithook(hook)
    _watch_writes(lambda fd: hook("write", (fd,)), folder)


def refuse(folder: str, name: str, after: int) -> None:
    """From the n-th change under `folder` on, every change there fails: the disk is full, or read-only, or whatever `name` says."""
    code = getattr(errno, name)
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if _changes(event, arguments, folder):
            seen += 1
            # A full disk still lets files be removed.
            if seen >= after and not (name == "ENOSPC" and event in ("os.remove", "os.rmdir", "shutil.rmtree")):
                raise OSError(code, os.strerror(code))

    sys.addaudithook(hook)
    _watch_writes(lambda fd: hook("write", (fd,)), folder)


def _changes(event: str, arguments: tuple[Any, ...], folder: str) -> bool:
    if event == "write":
        return True
    if event not in CHANGES:
        return False
    if event == "open" and not _for_writing(arguments):
        return False
    return any(isinstance(each, str | bytes | os.PathLike) and os.fsdecode(each).startswith(folder) for each in arguments)


def _for_writing(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def _watch_writes(hook: Callable[[int], None], folder: str) -> None:
    """Call `hook` before bytes reach the disk: pwrite and fsync on files under `folder`."""
    for name in ("pwrite", "fsync"):
        original = getattr(os, name)

        def watched(fd: int, *rest: Any, original: Any = original) -> Any:
            if Path(f"/proc/self/fd/{fd}").readlink().is_relative_to(folder):
                hook(fd)
            return original(fd, *rest)

        setattr(os, name, watched)


def become_nobody() -> None:
    """Give up root's privilege of writing everywhere, where it is there to give up."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def pause_at_change(folder: str, number: int, gate: str, reached: str) -> None:
    """Before the n-th change under `folder`, make the file `reached` and wait until the file `gate` is there."""
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if _changes(event, arguments, folder):
            seen += 1
            if seen == number:
                Path(reached).touch()
                while not Path(gate).exists():
                    time.sleep(0.01)

    sys.addaudithook(hook)
