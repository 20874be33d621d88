"""Which code of others may be run here: environments and wrappers named as `module:Name` or `file.py:Name`, and commands of trials.

Making such an environment imports its file, which may do anything. Whoever types the name, or names a config file that holds it, has
said yes: `approve` writes that down in the user's own folder, outside of every store. What stands in a run folder, a log or a trial's
record is only a claim: `check` lets it pass if this very code was approved before, by its path (edits are fine) or by its bytes and
those of all Python beside it (a project may be moved; a copy of one file among a stranger's others would import those). A server limits
its callers further (`limit`): none of them chooses code outside of the folders that its operator gave, and where it is read-only nothing
is run at all.

`check` is asked wherever code is imported (`training.envs.modules`), and before runs are created or started, so that a refusal comes
before anything is spent. Processes that are started inherit approvals and limits.
"""

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import ForPeople
from rlclinic.errors import Untrusted

STATE: Final = "RLCLINIC_STATE"
"""Another folder for what is remembered about the user; usual: ~/.local/state/rlclinic."""
TRUST: Final = "RLCLINIC_TRUST"
"""`all`: every name is approved, in a container that holds nothing of strangers."""
COMMAND: Final = "command: "
_APPROVED: Final = "RLCLINIC_APPROVED"
_LIMITS: Final = "RLCLINIC_LIMITS"
_FILE: Final = "trusted.jsonl"
_LARGEST_RECORD: Final = 16 << 20
_LARGEST_CODE: Final = 4 << 20
_LARGEST_FOLDER: Final = 16 << 20
_MOST_FILES: Final = 300
_IMPORTABLE: Final = (".py", ".pyc", ".so", ".pyd")
_PROBE: Final = re.compile(r"probe:\d+")
_INSTALLED: Final = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Limits:
    """What callers of a server may have run, beside what a person has approved."""

    run: bool = True
    """False: nothing, not even what was approved."""
    folders: tuple[Path, ...] | None = None
    """Where code must lie that a caller names; None: anywhere (a person at a terminal)."""
    except_in: tuple[Path, ...] = ()
    """Folders inside of those that hold what others wrote: the store."""

    def allow(self, path: Path | None) -> bool:
        """Whether a caller may name code that lies there."""
        if self.folders is None:
            return True
        if path is None or any(path.is_relative_to(folder) for folder in self.except_in):
            return False
        inside = [path.relative_to(folder) for folder in self.folders if path.is_relative_to(folder)]
        # A virtual environment in the project holds pip and much else that was not written as an environment.
        return any(not is_installed(relative) for relative in inside)


Ask = Callable[[Untrusted], bool]
_limits: ContextVar[Limits | None] = ContextVar("limits", default=None)
_ask: Ask | None = None


def names_in(env: Any) -> list[str]:
    """The names in an environment's settings (an object or a record) by which code would be imported."""
    names = [str(_of(env, "id")), *(str(_of(wrapper, "id")) for wrapper in _of(env, "wrappers") or ())]
    return [name for name in dict.fromkeys(names) if names_code(name)]


def _of(part: Any, key: str) -> Any:
    return part.get(key) if isinstance(part, dict) else getattr(part, key, None)


def names_code(name: str) -> bool:
    """Whether a name is that of a module's or a file's content, rather than of an environment that is registered."""
    return (":" in name and not _PROBE.fullmatch(name)) or name.endswith(".py")


def is_installed(path: Path) -> bool:
    """Whether a file belongs to a package that was installed, rather than to somebody's project."""
    return bool(set(path.parts) & set(_INSTALLED))


# ── who may ──


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Within: what a caller from elsewhere may have run."""
    token = _limits.set(limits)
    try:
        yield
    finally:
        _limits.reset(token)


def limit(limits: Limits) -> None:
    """From here on, in this process and in those that it starts."""
    folders = None if limits.folders is None else [str(folder) for folder in limits.folders]
    os.environ[_LIMITS] = json.dumps({"run": limits.run, "folders": folders, "except_in": [str(folder) for folder in limits.except_in]})


def ask_with(ask: Ask | None) -> None:
    """Whom to ask about code that nobody has approved yet: the person at this terminal. None: it is refused."""
    global _ask
    _ask = ask


def approve(*names: str) -> None:
    """Somebody has named this code for it to be run. Untrusted if a limit forbids it; else it is remembered."""
    limits = _current()
    for name in names:
        path, key, digest = _identify(name)
        if not limits.run:
            raise _refused(name, "this server is read-only")
        if _is_approved(path, key, digest):
            continue
        if not limits.allow(path):
            raise _refused(name, "it lies outside of the folders whose code may be run")
        os.environ[_APPROVED] = json.dumps([*_inherited(), key])
        beside = None if path is None else _digest_folder(path)
        _remember({"code": key, "sha256": digest, "beside": beside, "named": name, "time": time.time()})


def pass_on(*names: str) -> dict[str, str]:
    """Variables for a process on another machine, which does not see what is remembered here: what `check` has let pass."""
    keys = {*_inherited(), *(_identify(name)[1] for name in names)}
    return {_APPROVED: json.dumps(sorted(keys))} | {name: os.environ[name] for name in (TRUST, _LIMITS) if name in os.environ}


def approve_new(before: Any, after: Any) -> None:
    """Approve what changes of an environment's settings have brought in."""
    known = names_in(before)
    approve(*(name for name in names_in(after) if name not in known))


def check(*names: str) -> None:
    """Untrusted if code would be run that nobody approved, or that a limit forbids."""
    limits = _current()
    unknown = []
    for name in names:
        path, key, digest = _identify(name)
        if not limits.run:
            raise _refused(name, "this server is read-only")
        if not _is_approved(path, key, digest):
            unknown.append((name, key))
    if unknown:
        name, key = unknown[0]
        error = Untrusted(
            f"{name[:200]!r} stands in a run folder or a log, and nobody has named it here yet.\n"
            f"  Importing it runs whatever its author wrote{'' if name.startswith(COMMAND) else f' ({key[:300]})'}: nothing was run.\n"
            "  A person who knows it says so once",
            ForPeople(
                ": the same command with --trust, or rlclinic trust add NAME; in Python: from rlclinic import trust; trust.approve(NAME)"
            ),
        )
        if _ask is None or not _ask(error):
            raise error
        approve(*(each for each, _ in unknown))


def may_run(name: str) -> bool:
    """Whether this code was approved before and no limit forbids it; nobody is asked."""
    path, key, digest = _identify(name)
    return _current().run and _is_approved(path, key, digest)


def refuse_where_nothing_is_run(name: str) -> None:
    """Untrusted where a limit forbids to run anything at all: environments that everybody knows are code, too."""
    if not _current().run:
        raise _refused(name, "this server is read-only")


def check_envs(envs: Iterable[Any]) -> None:
    """`check` for the settings of environments."""
    check(*dict.fromkeys(name for env in envs for name in names_in(env)))


# ── what is remembered ──


@dataclass(frozen=True)
class Approval:
    """Code that somebody has named for it to be run, as it is remembered."""

    code: str
    """FILE:NAME, MODULE:NAME, or a command."""
    named: str
    """As it was typed."""
    time: float
    """Unix seconds of the last yes."""
    unchanged: bool | None
    """Whether its file still has the bytes that were approved; None where it is not one file."""


def record_file() -> Path:
    """Where approvals are remembered."""
    return state_folder() / _FILE


def approvals() -> list[Approval]:
    """What is remembered as approved, oldest first; of what was approved twice, the last time."""
    latest = {str(line["code"]): line for line in _read_lines(record_file())}
    return [_describe_approval(line) for line in latest.values()]


def _describe_approval(line: dict[str, Any]) -> Approval:
    code, digest = str(line["code"]), line.get("sha256")
    path = Path(code.rpartition(":")[0])
    unchanged = None if digest is None else path.is_file() and _digest(path) == digest
    made = line.get("time")
    return Approval(code, str(line.get("named", code)), float(made) if isinstance(made, int | float) else 0.0, unchanged)


def forget(name: str) -> list[str]:
    """Take back what was approved: FILE:NAME as it is listed or as it was typed, or a file or module with all in it; what was removed.

    Copies of the same bytes elsewhere are forgotten with it: they were let in by its approval.
    """
    _, key, _ = _identify(name)
    home = str(locate(name) or name)
    path = record_file()
    lines = _read_lines(path)
    gone = {str(line["code"]) for line in lines if line["code"] in (name, key) or str(line["code"]).rpartition(":")[0] in (name, home)}
    if gone:
        digests = {
            (line.get("sha256"), str(line["code"]).rpartition(":")[2]) for line in lines if line["code"] in gone and line.get("sha256")
        }
        kept = [
            line for line in lines if line["code"] not in gone and (line.get("sha256"), str(line["code"]).rpartition(":")[2]) not in digests
        ]
        gone |= {str(line["code"]) for line in lines if line not in kept}
        text = "".join(json.dumps(line) + "\n" for line in kept)
        descriptor = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(text.encode())
        path.with_suffix(".new").replace(path)
        os.environ[_APPROVED] = json.dumps([code for code in _inherited() if code not in gone])
    return sorted(gone)


def state_folder() -> Path:
    """Where approvals are kept: the user's own, never a store's."""
    if chosen := os.environ.get(STATE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "rlclinic"


def _current() -> Limits:
    chosen = _limits.get()
    if chosen is not None:
        return chosen
    text = os.environ.get(_LIMITS)
    if not text:
        return Limits()
    given = json.loads(text)
    folders = given["folders"]
    return Limits(given["run"], None if folders is None else tuple(map(Path, folders)), tuple(map(Path, given["except_in"])))


def _identify(name: str) -> tuple[Path | None, str, str | None]:
    """Where the code of a name lies, what it is remembered as, and the hash of its bytes where it is one file."""
    if name.startswith(COMMAND):
        return None, name, None
    home, _, inside = name.rpartition(":")
    path = locate(home or name)
    return path, f"{path or home}:{inside}", _digest(path) if path is not None else None


def locate(home: str) -> Path | None:
    """The file or folder that importing a module or a .py file would run first; None where there is none."""
    with suppress(OSError, ValueError, RuntimeError):
        if home.endswith(".py"):
            return Path(home).resolve()
        top = home.partition(".")[0]
        loaded = getattr(sys.modules.get(top), "__file__", None)
        if loaded:
            return Path(loaded).resolve()
        # In the order in which it would be imported: the working folder comes last, unless Python put it first.
        here = str(Path.cwd())
        spec = PathFinder.find_spec(top, [*(entry or here for entry in sys.path), here])
        origin = None if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ()), None)
        return None if origin is None or not Path(origin).exists() else Path(origin).resolve()
    return None


def _digest(path: Path) -> str | None:
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= _LARGEST_CODE:
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return None


def _digest_folder(path: Path) -> str | None:
    """A hash of all Python in a file's folder and below: what the file may import before anything else. None where that is too much."""
    folder, size = path.parent, 0
    lines: list[str] = []
    with suppress(OSError):
        for place, folders, files in os.walk(folder):
            # No import reaches into the others.
            folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]
            for file in (Path(place, name) for name in files if name.endswith(_IMPORTABLE)):
                content = _digest(file)
                size += file.stat().st_size
                if content is None or len(lines) >= _MOST_FILES or size > _LARGEST_FOLDER:
                    return None
                lines.append(f"{file.relative_to(folder)} {content}")
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return None


def _is_approved(path: Path | None, key: str, digest: str | None) -> bool:
    if os.environ.get(TRUST) == "all" or key in _inherited():
        return True
    keys, moved = _remembered()
    if key in keys:
        return True
    known = {beside for sha256, beside, inside in moved if (sha256, inside) == (digest, key.rpartition(":")[2])}
    return path is not None and bool(known) and _digest_folder(path) in known


def _inherited() -> list[str]:
    try:
        given = json.loads(os.environ.get(_APPROVED, "[]"))
    except ValueError:
        return []
    return [str(key) for key in given] if isinstance(given, list) else []


def _remember(line: dict[str, Any]) -> None:
    # A home that cannot be written to forgets: the next command asks again, this one and its processes go on.
    with suppress(OSError):
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "ab") as out:
            out.write((json.dumps(line) + "\n").encode())


def _remembered() -> tuple[frozenset[str], frozenset[tuple[str, str, str]]]:
    """What is approved by its path, and by its bytes: those of the file and of what lies beside it, and the name in it."""
    path = record_file()
    try:
        stat = path.stat()
    except OSError:
        return frozenset(), frozenset()
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, modified: int, size: int) -> tuple[frozenset[str], frozenset[tuple[str, str, str]]]:
    lines = _read_lines(path)
    whole = [line for line in lines if line.get("sha256") and line.get("beside")]
    by_bytes = frozenset((str(line["sha256"]), str(line["beside"]), str(line["code"]).rpartition(":")[2]) for line in whole)
    return frozenset(str(line["code"]) for line in lines), by_bytes


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of the file of approvals that can be read; none of one that is too large to be ours."""
    lines = []
    with suppress(OSError):
        if path.stat().st_size <= _LARGEST_RECORD:
            for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError):
                    line = json.loads(text)
                    if isinstance(line, dict) and "code" in line:
                        lines.append(line)
    return lines


def _refused(name: str, why: str) -> Untrusted:
    return Untrusted(
        f"{name[:200]!r} would choose what code is run here, and {why}.\n"
        "  Importing an environment runs its file: nothing was run.\n"
        "  Give a registered environment, or one that a person has trained here"
    )
