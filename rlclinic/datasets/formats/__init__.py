"""Which format a path has, and its episodes: one file per format, each with `knows(path)` and `open(path)`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rlclinic.actions import Action
from rlclinic.datasets import folder
from rlclinic.datasets.episodes import Dataset, Episode, join
from rlclinic.datasets.formats import d3rlpy, flat, lerobot, minari
from rlclinic.datasets.formats.source import Source, refuse_damage
from rlclinic.errors import ConfigError, NotFound

__all__ = ["FORMATS", "find", "minari_folder", "open_source", "read"]

LARGEST_IN_MEMORY: Final = 512_000_000
"""Bytes of a foreign dataset that is read as it is; a larger one is converted first, and then stays on disk."""
FORMATS: Final[dict[str, tuple[Callable[[Path], bool], Callable[[Path], Source]]]] = {
    "Minari": (minari.knows, minari.open_source),
    "d3rlpy": (d3rlpy.knows, d3rlpy.open_source),
    "LeRobot": (lerobot.knows, lerobot.open_source),
    "arrays": (flat.knows, flat.open_source),
}


def find(name: str | Path) -> Path:
    """Where a dataset lies: a path, or the id of one in Minari's own folder."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    home = minari_folder()
    if (home / name / "data").is_dir():
        return home / name
    raise NotFound(f"no dataset at {name}, and none of that name in {home}.\n  Collect one: ", Action("data collect", "@last"))


def minari_folder() -> Path:
    """Where Minari keeps what it has downloaded."""
    return Path(os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets")).expanduser()


def open_source(path: Path) -> Source:
    """A foreign dataset's episodes, one after another."""
    with refuse_damage(path):
        for knows, open_it in FORMATS.values():
            if knows(path):
                source = open_it(path)
                source.episodes = _guard(path, source.episodes)
                return source
    raise ConfigError(
        f"{path} is no dataset that rlclinic knows.\n"
        "  It reads folders of its own and of Minari and LeRobot, HDF5 of D4RL and d3rlpy, .npz and .csv with observations, actions,\n"
        "  rewards, terminated and truncated. Convert yours to one of them: docs/datasets.md shows each"
    )


def _guard(path: Path, episodes: Iterator[Episode]) -> Iterator[Episode]:
    """Episodes are read while they are taken: what is damaged in the middle of a file shows up there."""
    with refuse_damage(path):
        yield from episodes


def read(name: str | Path) -> Dataset:
    """A dataset of any known format. Ours stays on disk; another is read into memory."""
    path = find(name)
    if folder.is_dataset(path):
        return folder.read(path)
    with refuse_damage(path):
        _check_size(path, max(_bytes(path), flat.measure_unpacked(path)))
    source = open_source(path)
    data = join(
        _count_bytes(path, source.episodes),
        source.observation_space,
        source.action_space,
        env_id=source.env_id,
        source=source.source,
        facts=source.facts,
    )
    # Notes are complete when the last episode has been read.
    return replace(data, notes=tuple(source.notes))


def _check_size(path: Path, size: int) -> None:
    if size > LARGEST_IN_MEMORY:
        raise ConfigError(
            f"{path} has {size / 1e9:.1f} GB, which would all be read into memory.\n  Convert it once, and it stays on disk: ",
            Action("data convert", str(path)),
        )


def _count_bytes(path: Path, episodes: Iterator[Episode]) -> Iterator[Episode]:
    """Episodes, for as long as all of them together can be held in memory: packed files say little about that."""
    size = 0
    for episode in episodes:
        size += sum(np.asarray(values).nbytes for values in (episode.observations, episode.actions, episode.rewards))
        _check_size(path, size)
        yield episode


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
