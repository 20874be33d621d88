"""LeRobot's folders: meta/info.json and parquet files with one row a frame. Pictures are left out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import plain_files
from rlclinic.datasets.episodes import Episode
from rlclinic.datasets.formats.source import Source, check_unpacked, guess_action_space, guess_observation_space, import_package
from rlclinic.errors import ConfigError

__all__ = ["knows", "open_source"]

STATE: Final = ("observation.state", "observation.environment_state")
MOST_BYTES: Final = 10_000_000


def knows(path: Path) -> bool:
    """A folder with meta/info.json and parquet files."""
    return plain_files.is_plain(path / "meta" / "info.json") and (path / "data").is_dir()


def open_source(path: Path) -> Source:
    """Its episodes; a recording that does not say that the task ended was cut."""
    files = sorted((path / "data").rglob("*.parquet"))
    if not files:
        raise ConfigError(f"{path} has no parquet file below data/.\n  Download the data, too, not only meta/")
    about = json.loads(plain_files.read_text(path / "meta" / "info.json", MOST_BYTES))
    first = _table(files[0])
    if not any(name in first for name in STATE) or "action" not in first:
        raise ConfigError(
            f"{files[0]} has no observation.state and action: it has {', '.join(first)}.\n  Data of pictures alone is not read"
        )
    source = Source(
        iter(()),
        guess_observation_space((_observations(first).shape[1],)),
        guess_action_space(first["action"]),
        source=f"LeRobot {path.name}",
    )
    source.facts = {"robot_type": about.get("robot_type"), "fps": about.get("fps")}
    if "next.reward" not in first:
        source.notes.append("it has no rewards: only imitation can learn from it")
    source.episodes = _episodes(files, source)
    return source


def _episodes(files: list[Path], source: Source) -> Iterator[Episode]:
    dropped = 0
    for file in files:
        table = _table(file)
        number = table["episode_index"]
        for index in np.unique(number):
            rows = {name: values[number == index] for name, values in table.items()}
            order = np.argsort(rows["frame_index"], kind="stable")
            observations, actions = _observations(rows)[order], rows["action"][order]
            rewards = rows["next.reward"][order] if "next.reward" in rows else np.zeros(len(order))
            succeeded = bool(rows["next.success"].any()) if "next.success" in rows else bool("next.done" in rows and rewards[-1] > 0)
            if succeeded:
                yield Episode(np.concatenate([observations, observations[-1:]]), actions, rewards, True, False, final_known=False)
                continue
            dropped += 1
            if len(order) > 1:
                yield Episode(observations, actions[:-1], rewards[:-1], False, True)
    if dropped:
        source.notes.append(f"the last step of {dropped:,} truncated episodes is left out: the data does not say what it led to")


def _observations(table: dict[str, NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([table[name].reshape(len(table[name]), -1) for name in STATE if name in table], axis=1).astype(np.float32)


def _table(file: Path) -> dict[str, NDArray[Any]]:
    parquet = import_package("pyarrow.parquet")
    try:
        with plain_files.open_plain(file) as opened:
            about = parquet.read_metadata(opened)
            check_unpacked(file, 8 * about.num_rows * about.num_columns, file.stat().st_size)
            table = parquet.read_table(opened)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as parquet: {error}") from error
    columns = {}
    for name in table.column_names:
        values = table[name].to_numpy(zero_copy_only=False) if table.num_rows else np.zeros(0)
        columns[name] = (
            np.stack([np.asarray(row, np.float32) for row in values])
            if values.dtype == object and len(values) and np.ndim(values[0])
            else values
        )
    return columns
