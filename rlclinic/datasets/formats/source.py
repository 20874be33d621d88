"""What a format's reader gives: episodes one after another, and what is known about all of them."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from numpy.typing import NDArray

from rlclinic.datasets.episodes import Episode, Space
from rlclinic.errors import ConfigError, RlclinicError, UsageError

__all__ = [
    "MOST_CHOICES",
    "Source",
    "check_array",
    "check_unpacked",
    "guess_action_space",
    "guess_observation_space",
    "import_package",
    "open_hdf5",
    "refuse_damage",
]

MOST_CHOICES: Final = 100_000
"""Of one action or observation: more are no choices but numbers."""
HARMLESS_BYTES: Final = 128_000_000
"""Whatever unpacks to less is read."""
MOST_TIMES: Final = 1_000
"""What unpacks to more than so many times its size was made to fill the memory; numbers do not repeat themselves that often."""
_DAMAGE: Final = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What libraries raise on files that are cut, lie about their sizes, or hold something else than their names say."""


@dataclass
class Source:
    """A foreign dataset. `notes` is complete when the last episode has been taken."""

    episodes: Iterator[Episode]
    observation_space: Space
    action_space: Space
    env_id: str | None = None
    source: str = ""
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def import_package(name: str) -> ModuleType:
    """A package that only some formats need."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise UsageError(f"this format needs {missing.name}, which is not installed.\n  Type: pip install 'rlclinic[data]'") from missing


@contextmanager
def refuse_damage(path: Path) -> Iterator[None]:
    """Within: whatever a damaged or hostile file makes a library raise is said as what it is."""
    try:
        yield
    except RlclinicError:
        raise
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise ConfigError(
            f"{path} cannot be read as data ({what}).\n  It is damaged, or holds something else than its name says"
        ) from error


def check_unpacked(path: Path, unpacked: int, packed: int) -> None:
    """ConfigError for what was packed to fill the memory of whoever opens it."""
    if unpacked > HARMLESS_BYTES and unpacked > MOST_TIMES * max(packed, 1):
        raise ConfigError(
            f"{path} says that it unpacks to {unpacked / 1e9:,.1f} GB, {unpacked // max(packed, 1):,} times its size.\n"
            "  It would fill the memory, and is not read"
        )


def open_hdf5(path: Path) -> Any:
    """An HDF5 file, for reading. One with links that lead out of it is refused: they could name any file."""
    h5py = import_package("h5py")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read as HDF5: {error}.\n  It is damaged, or still being written") from error

    outside = file.visititems_links(lambda name, link: name if isinstance(link, h5py.ExternalLink) else None)
    if outside is not None:
        file.close()
        raise ConfigError(f"{path}: {outside} is a link to another file, which is not followed.\n  Copy the data into one file")
    return file


def check_array(path: Path, values: Any) -> Any:
    """An array of an HDF5 file whose rows lie in that file, and which is as large as it says; a group as it is."""
    if hasattr(values, "nbytes"):
        if values.external or values.is_virtual:
            raise ConfigError(f"{path}: {values.name} has its rows in another file, which is not read.\n  Copy the data into one file")
        check_unpacked(path, int(values.nbytes), int(values.id.get_storage_size()))
    return values


def guess_observation_space(shape: tuple[int, ...]) -> Space:
    """A box whose bounds nobody says."""
    return Space("box", shape or (1,))


def guess_action_space(actions: NDArray[Any]) -> Space:
    """Whole numbers from 0 are choices; anything else is a box whose bounds nobody says."""
    if actions.dtype.kind in "iub" and (actions.ndim == 1 or actions.shape[1:] == (1,)):
        if int(actions.min()) < 0:
            raise ConfigError(
                f"an action is {int(actions.min())}: choices count from 0.\n  Continuous actions must be floating-point numbers"
            )
        if int(actions.max()) >= MOST_CHOICES:
            raise ConfigError(
                f"an action is {int(actions.max())}: nothing has that many choices.\n  Continuous actions must be floating-point numbers"
            )
        return Space("discrete", n=int(actions.max()) + 1, guessed=True)
    return Space("box", actions.shape[1:] or (1,))
