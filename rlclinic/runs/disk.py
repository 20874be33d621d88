"""Files that survive a kill: whole-file replacement, JSON, and disk errors that say what to do."""

import errno
import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.errors import DiskFailed, UsageError
from rlclinic.runs import lease

# No vowels and nothing that looks like something else: ids are read aloud and typed again.
_ALPHABET: Final = "23456789bcdfghjkmnpqrstvwxz"

MOST_JSON_BYTES = 64 << 20
"""No file of a store is larger; a larger one is not read."""
_FREE = ("Free space (", Action("runs rm", "RUN"), "), then: ")
_ADVICE: dict[int, tuple[str, str | tuple[str, ...]]] = {
    errno.ENOSPC: ("the disk is full", _FREE),
    errno.EDQUOT: ("your quota is used up", _FREE),
    errno.EROFS: ("the file system is read-only", "Choose a folder you can write to: --runs-dir DIR"),
    errno.EACCES: ("permission denied", "Choose a folder you can write to: --runs-dir DIR"),
    errno.EPERM: ("permission denied", "Choose a folder you can write to: --runs-dir DIR"),
    errno.ENOENT: ("the folder is gone", ("Was the run removed while it was written? Start it again: ", Action("train"))),
    errno.EMFILE: ("too many open files", "Raise the limit (ulimit -n 4096) or train fewer seeds at once"),
    errno.ENOLCK: ("the file system has no locks", "Choose a folder on a local disk: --runs-dir DIR"),
    errno.EOPNOTSUPP: ("the file system has no locks", "Choose a folder on a local disk: --runs-dir DIR"),
}


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into DiskFailed, which names the file, the consequence and the way out.

    LeaseLost before anything is written, if this process belongs to a job that another worker may be doing by now.
    """
    lease.check()
    try:
        yield
    except OSError as error:
        what, advice = _ADVICE.get(error.errno or 0, (error.strerror or str(error), ("Check the disk, then: ",)))
        parts = (advice,) if isinstance(advice, str) else advice
        raise DiskFailed(
            f"cannot write {path}: {what}.\n"
            f"  Everything written before is intact; what came after the last checkpoint is computed again by a resume.\n"
            "  ",
            *parts,
            *([Action("train", resume=_run_of(path))] if parts[-1].endswith("then: ") else []),
        ) from error


def _run_of(path: Path) -> str:
    """The run to resume: its folder, or the one that the file or the checkpoint lies in."""
    if path.parent.name == "checkpoints":
        return path.parent.parent.name
    return path.name if path.is_dir() else path.parent.name


def write(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file as a whole: a reader, or a kill at any moment, finds the old content or the new one, never a mix.

    `sync` waits for the disk, which only a power cut makes necessary.
    """
    temporary = _temporary_name(path)
    with guarded(path):
        try:
            with temporary.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            lease.check()
            temporary.replace(path)
        except (OSError, lease.LeaseLost):
            temporary.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any, *, sync: bool = False) -> None:
    """Replace a JSON file as a whole. Keys keep their order; NaN is written as Python's json reads it back."""
    write(path, json.dumps(value, indent=1) + "\n", sync=sync)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where the file is missing or is not an object (half a foreign write, say)."""
    try:
        value = json.loads(plain_files.read_bytes(path, MOST_JSON_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line, in order; a damaged line is left out, and no file holds none."""
    try:
        text = plain_files.read_bytes(path).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    entries = []
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def append_line(path: Path, line: str, *, sync: bool = False) -> None:
    """Append one line with one write; half a line that a kill left behind is closed first, so that lines never merge."""
    with guarded(path), path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            if file.read(1) != b"\n":
                line = "\n" + line
        file.write((line + "\n").encode())
        if sync:
            file.flush()
            os.fsync(file.fileno())


def point(link: Path, target: str) -> None:
    """Make `link` a relative symlink to `target`, replacing an older one at once."""
    temporary = _temporary_name(link)
    with guarded(link):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)


def reserve(root: Path, letter: str) -> str:
    """A new id with a folder of its own: a letter for its kind and three letters or digits, more once those get crowded.

    Where machines that share no disk make ids for one store (`ops.jobs.remote`), nobody sees what the others have taken: then eight.
    """
    shortest = 8 if all(os.environ.get(variable) for variable in ("RLCLINIC_DB", "RLCLINIC_ARTIFACTS")) else 3
    with guarded(root):
        root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1_000):
            id = letter + "".join(secrets.choice(_ALPHABET) for _ in range(shortest + attempt // 8))
            try:
                (root / id).mkdir()
            except FileExistsError:
                continue
            return id
    raise UsageError(f"found no free id in {root} after 1,000 tries; is the folder what it should be?")


def _temporary_name(path: Path) -> Path:
    """A name that no other process or thread uses at the same time; the dot keeps a leftover out of listings."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
