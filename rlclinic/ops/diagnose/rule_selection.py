"""Rules that a project selects or ignores for itself: [tool.rlclinic] in the nearest pyproject.toml, from this folder upwards."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rlclinic import plain_files
from rlclinic.diagnosis import registry
from rlclinic.diagnosis.checkpoints import findings
from rlclinic.diagnosis.lint import checks
from rlclinic.errors import NotFound, UsageError
from rlclinic.report.models import Switched

FILE = "pyproject.toml"


class Chosen(NamedTuple):
    """Which rules to ask, all sources together."""

    select: list[str] | None
    ignore: list[str]
    switched: Switched | None
    """What the project's file says; None where it says nothing."""


def chosen(select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> Chosen:
    """--select and --ignore with what the project's file adds: its ignored rules too, and its selection unless another was asked for."""
    switched = switched_here()
    if switched is None:
        return Chosen(list(select) if select else None, list(ignore or ()), None)
    wanted = list(select) if select else _about_runs(switched.select)
    return Chosen(wanted or None, [*(ignore or ()), *_about_runs(switched.ignore)], switched)


def switched_here(folder: Path | None = None) -> Switched | None:
    """What the nearest pyproject.toml says under [tool.rlclinic]; None without one that says anything."""
    start = (folder or Path.cwd()).resolve()
    for place in (start, *start.parents):
        if (place / FILE).is_file():
            written = (place / FILE).stat()
            return _read(place / FILE, written.st_mtime_ns, written.st_size)
    return None


@lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int, _size: int) -> Switched | None:
    """What a file says, read again only when it has changed: a server diagnoses hundreds of groups with the same one."""
    import tomllib

    try:
        read: Any = tomllib.loads(plain_files.read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Switched(file=_shown(path), select=[], ignore=[], note=f"cannot be read, and is not used: {error}")
    for name in ("tool", "rlclinic"):
        read = read.get(name, {}) if isinstance(read, dict) else {}
    if not isinstance(read, dict) or not read.keys() & {"select", "ignore"}:
        return None
    switched = Switched(file=_shown(path), select=_names(read, "select", path), ignore=_names(read, "ignore", path))
    return switched if switched.select or switched.ignore else None


def _names(table: dict[str, Any], key: str, path: Path) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(
            f"{_shown(path)}: tool.rlclinic.{key} = {value!r} is no list of rules.\n"
            f'  Rules would be asked that you meant to switch off.\n  Write: {key} = ["THR", "BUD103"]'
        )
    for each in value:
        if not checks.fits_any(checks.checks(), each) and not findings.fits_any(each):
            _check(each, key, path)
    return value


def _check(each: str, key: str, path: Path) -> None:
    try:
        registry.selected([each], None)
    except NotFound as error:
        raise NotFound(f"{_shown(path)}, tool.rlclinic.{key}: {error}") from error


def _about_runs(given: Sequence[str]) -> list[str]:
    """Those that a rule about runs or a check of checkpoints fits; the others are about environments or scripts."""
    return [each for each in given if registry.fits_any(each) or findings.fits_any(each)]


def _shown(path: Path) -> str:
    """As it would be typed from here."""
    here = Path.cwd().resolve()
    return path.name if path.parent == here else str(path)
