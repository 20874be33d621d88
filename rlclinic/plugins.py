"""What other installed packages bring: algorithms, rules, doses, readers, operations, declared as entry points and loaded on use.

docs/extending.md says what each group of entry points takes. Ours always come first, and a package that cannot be loaded says so.
"""

import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints


def entry_points(*, group: str) -> "EntryPoints":
    """What installed packages declare in a group, for names that are looked up again and again: the packages are looked through once,
    and again when a folder of `sys.path` has changed."""
    return _read_entry_points(group, tuple((path, _last_change(path)) for path in sys.path))


def _last_change(path: str) -> int:
    try:
        return Path(path or ".").stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _read_entry_points(group: str, _: tuple[tuple[str, int], ...]) -> "EntryPoints":
    from importlib import metadata

    return metadata.entry_points(group=group)


def load(entry: "EntryPoint", what: str) -> Any:
    """What an entry point names; `what` says in a word what that is. ConfigError if it cannot be loaded, whatever the package raises."""
    try:
        return entry.load()
    except Exception as error:
        raise ConfigError(
            f"the {what} {entry.name!r} of another package ({entry.value}) cannot be loaded: {error}.\n"
            f"  Nothing that needs it would work.\n  Repair that package, or uninstall it"
        ) from error
