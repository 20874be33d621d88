"""What other installed packages bring: algorithms, rules, doses, readers, operations, declared as entry points and loaded on use.

docs/extending.md says what each group of entry points takes. Ours always come first, and a package that cannot be loaded says so.
"""

from typing import TYPE_CHECKING, Any

from rlclinic.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def load(entry: "EntryPoint", what: str) -> Any:
    """What an entry point names; `what` says in a word what that is. ConfigError if it cannot be loaded, whatever the package raises."""
    try:
        return entry.load()
    except Exception as error:
        raise ConfigError(
            f"the {what} {entry.name!r} of another package ({entry.value}) cannot be loaded: {error}.\n"
            f"  Nothing that needs it would work.\n  Repair that package, or uninstall it"
        ) from error
