"""What a format's reader gives: episodes one after another, and what is known about all of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from rlclinic.datasets.episodes import Episode, Space
from rlclinic.errors import ConfigError, UsageError

__all__ = ["Source", "guess_action_space", "guess_observation_space", "import_package", "open_hdf5"]


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


def open_hdf5(path: Path) -> Any:
    """An HDF5 file, for reading; links that lead out of it are not followed by those who use it."""
    h5py = import_package("h5py")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read as HDF5: {error}.\n  It is damaged, or still being written") from error


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
        return Space("discrete", n=int(actions.max()) + 1)
    return Space("box", actions.shape[1:] or (1,))
