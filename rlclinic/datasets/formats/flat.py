"""Arrays with one row a step, in HDF5 (D4RL), .npz or .csv, under the names in use. Where episodes end is found out from them."""

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import plain_files
from rlclinic.datasets.episodes import Dataset, Episode
from rlclinic.datasets.formats.source import (
    Source,
    check_array,
    check_unpacked,
    guess_action_space,
    guess_observation_space,
    import_package,
    open_hdf5,
)
from rlclinic.errors import ConfigError

__all__ = ["knows", "measure_unpacked", "open_source", "write"]

NAMES: Final = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "acts"),
    "rewards": ("rewards", "reward"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_states", "next_state"),
    "terminated": ("terminated", "terminals", "terminations", "terminal"),
    "truncated": ("truncated", "timeouts", "truncations", "timeout"),
    "done": ("dones", "done", "episode_terminals"),
    "episode": ("episode", "episode_id", "episode_ids", "episode_index"),
}
"""What is meant, and what files call it."""
FLAGS: Final = ("terminated", "truncated", "done")
MOST_COLUMNS: Final = 10_000
"""Of a table: reading one takes a step of Python for each number."""
BLOCK: Final = 65_536
"""Rows that are read at once."""
JOINT: Final = 1e-6
"""How far an observation may lie from what the step before led to, if both belong to one episode."""


def knows(path: Path) -> bool:
    """By its ending."""
    return path.suffix in (".h5", ".hdf5", ".npz", ".csv") and plain_files.is_plain(path)


def open_source(path: Path) -> Source:
    """Its episodes, one after another."""
    columns = _hdf5(path) if path.suffix in (".h5", ".hdf5") else _npz(path) if path.suffix == ".npz" else _csv(path)
    missing = [name for name in ("observations", "actions", "rewards") if name not in columns]
    if missing:
        raise ConfigError(
            f"{path} has no {' and no '.join(missing)}.\n  One row a step is needed: observations, actions, rewards, terminated, truncated"
            " (or their names in D4RL), and next_observations where there are any"
        )
    for name, values in columns.items():
        if not values.ndim:
            raise ConfigError(f"{path}: {name} is a single number.\n  Every array needs one row a step")
    steps = len(columns["rewards"])
    odd = {name: len(values) for name, values in columns.items() if len(values) != steps}
    if odd or not steps:
        wrong = ", ".join(f"{count:,} {name}" for name, count in odd.items()) or "nothing in it"
        raise ConfigError(f"{path}: {steps:,} rewards, but {wrong}.\n  Every array needs one row a step")
    for name in ("rewards", *FLAGS, "episode"):
        if name in columns and np.size(columns[name]) != steps:
            raise ConfigError(f"{path}: {name} has {np.size(columns[name]) // steps} numbers a step.\n  One is needed")
    notes: list[str] = []
    ends, terminated = _ends(columns, steps, notes, path)
    actions = np.asarray(columns["actions"])
    source = Source(
        iter(()),
        guess_observation_space(tuple(columns["observations"].shape[1:])),
        guess_action_space(actions),
        source=f"arrays in {path.name}",
        notes=notes,
    )
    source.episodes = _episodes(columns, ends, terminated, source)
    return source


def write(data: Dataset, path: Path) -> None:
    """All of it with one row a step, by the path's ending: HDF5 as D4RL has it, .npz or .csv.

    What each step led to is written beside it, so that no episode loses its last step.
    """
    if path.exists():
        raise ConfigError(f"{path} is there already, and data is not overwritten.\n  Name another place, or remove it first")
    if path.suffix == ".csv" and len(data.observation_space.shape) > 1:
        raise ConfigError(f"a table has one column for each number, and these observations are {data.observation_space}.\n  Write .npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part{path.suffix}")
    {".csv": _write_csv, ".npz": _write_npz}.get(path.suffix, _write_hdf5)(data, unfinished)
    unfinished.replace(path)


def _write_hdf5(data: Dataset, path: Path) -> None:
    """Block by block: the data may be larger than the memory."""
    with import_package("h5py").File(path, "w") as file:
        for start in range(0, len(data), BLOCK):
            for name, values in _rows(data, start, "terminals", "timeouts").items():
                if not start:
                    file.create_dataset(name, (len(data), *values.shape[1:]), values.dtype)
                file[name][start : start + len(values)] = values


def _write_npz(data: Dataset, path: Path) -> None:
    blocks = [_rows(data, start) for start in range(0, len(data), BLOCK)]
    columns: dict[str, Any] = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    np.savez(path, **columns)


def _write_csv(data: Dataset, path: Path) -> None:
    heads = {"observations": "obs", "actions": "action", "rewards": "reward", "next_observations": "next_obs"}
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        for start in range(0, len(data), BLOCK):
            rows = _rows(data, start)
            columns = {name: values.reshape(len(values), -1) for name, values in rows.items()}
            if not start:
                names = [
                    # A vector of one number has a number in its name, too: without one, whole numbers would be taken for choices.
                    f"{heads.get(name, name)}_{index}" if rows[name].ndim > 1 else heads.get(name, name)
                    for name, values in columns.items()
                    for index in range(values.shape[1])
                ]
                table.writerow(names)
            parts = [values.astype(int) if values.dtype.kind == "b" else values for values in columns.values()]
            for row in zip(*(column for part in parts for column in part.T.tolist()), strict=True):
                table.writerow(row)


def _rows(data: Dataset, start: int, terminated: str = "terminated", truncated: str = "truncated") -> dict[str, NDArray[Any]]:
    """A block of steps as columns."""
    index = np.arange(start, min(start + BLOCK, len(data)))
    steps, episode = data.transitions(index), data.episode_of(index)
    last = index == data.ends[episode] - 1
    return {
        "observations": steps.observations,
        "actions": steps.actions,
        "rewards": steps.rewards,
        "next_observations": steps.next_observations,
        terminated: steps.terminated,
        truncated: last & ~steps.terminated,
    }


def _ends(columns: Mapping[str, Any], steps: int, notes: list[str], path: Path) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The last row of each episode, and whether the task ended there."""
    flags = {name: _flags(path, name, np.asarray(columns[name]).reshape(steps)) for name in FLAGS if name in columns}
    if not flags and "episode" not in columns:
        raise ConfigError(
            f"{path} does not say where episodes end: it has neither terminated (terminals), truncated (timeouts), dones nor episode.\n"
            "  A value would be learned from another episode's future. Add one of them"
        )
    terminated = flags.get("terminated")
    if terminated is None:
        terminated = flags.get("done", np.zeros(steps, bool)) & ~flags.get("truncated", np.zeros(steps, bool))
        if "done" in flags and "truncated" not in flags:
            notes.append("dones are taken as terminated: where a time limit set them, what is learned there is too low")
    end = terminated.copy()
    for name in ("truncated", "done"):
        if name in flags:
            end |= flags[name]
    if "episode" in columns:
        number = np.asarray(columns["episode"]).reshape(steps)
        end[:-1] |= number[1:] != number[:-1]
    elif "next_observations" in columns:
        broken = _breaks(columns, steps) & ~end[:-1]
        if broken.any():
            notes.append(
                f"{int(broken.sum()):,} episodes end without a flag (the next observation is not what the step led to): taken as truncated"
            )
            end[:-1] |= broken
    elif "truncated" not in flags:
        notes.append("only terminations are marked: an episode that a time limit cut would run on into the next one")
    end[-1] = True
    rows = np.flatnonzero(end)
    return rows, terminated[rows]


def _flags(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Yes or no for each step, however it is stored."""
    flags = values.astype(bool)
    if values.dtype.kind not in "fiub" or not (values == flags).all():
        wrong = int(np.flatnonzero(values != flags)[0])
        raise ConfigError(f"{path}: {name} at step {wrong} is {values[wrong]}.\n  It says whether an episode ends there: 0 or 1 is needed")
    return flags


def _breaks(columns: Mapping[str, Any], steps: int) -> NDArray[np.bool_]:
    """[N - 1]: where the next row does not begin at what this row led to."""
    broken = np.zeros(steps - 1, bool)
    for start in range(0, steps - 1, BLOCK):
        stop = min(start + BLOCK, steps - 1)
        led, begins = (
            np.asarray(columns[name][first:last], np.float64)
            for name, first, last in (("next_observations", start, stop), ("observations", start + 1, stop + 1))
        )
        broken[start:stop] = ~(np.abs(led - begins).reshape(stop - start, -1).max(1) <= JOINT)  # what is no number joins nothing
    return broken


def _episodes(columns: Mapping[str, Any], ends: NDArray[np.int64], terminated: NDArray[np.bool_], source: Source) -> Iterator[Episode]:
    read = {name: _Blocks(columns[name]) for name in ("observations", "actions", "rewards", "next_observations") if name in columns}
    start, dropped = 0, 0
    for last, ended in zip(ends.tolist(), terminated.tolist(), strict=True):
        stop = last + 1
        observations, actions, rewards = (read[name].rows(start, stop) for name in ("observations", "actions", "rewards"))
        rewards = rewards.reshape(len(rewards))
        if observations.ndim == 1:
            observations = observations[:, None]
        if source.action_space.kind == "discrete":
            actions = actions.reshape(len(actions))
        elif actions.ndim == 1:
            actions = actions[:, None]
        if "next_observations" in read:
            final = read["next_observations"].rows(last, stop).reshape(1, *observations.shape[1:])
            yield Episode(np.concatenate([observations, final]), actions, rewards, ended, not ended)
        elif ended:
            yield Episode(np.concatenate([observations, observations[-1:]]), actions, rewards, True, False, final_known=False)
        else:
            dropped += 1
            if len(rewards) > 1:
                yield Episode(observations, actions[:-1], rewards[:-1], False, True)
        start = stop
    if dropped:
        source.notes.append(f"the last step of {dropped:,} truncated episodes is left out: the data does not say what it led to")


class _Blocks:
    """Rows of an array on disk, many at once."""

    def __init__(self, values: Any) -> None:
        self.values, self.start = values, 0
        self.block: NDArray[Any] = np.asarray(values[:0])

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        if start < self.start or stop > self.start + len(self.block):
            self.start, self.block = start, np.asarray(self.values[start : max(stop, start + BLOCK)])
        return self.block[start - self.start : stop - self.start]


def _named(found: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays under the names used here."""
    return {name: found[known] for name, aliases in NAMES.items() for known in aliases[::-1] if known in found}


def measure_unpacked(path: Path) -> int:
    """Bytes of all arrays of a file as they lie in memory; 0 where it is not one of these."""
    if not knows(path) or path.suffix == ".csv":
        return 0
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as file:
            return sum(part.file_size for part in file.infolist())
    with open_hdf5(path) as file:
        return sum(int(values.nbytes) for name in file if hasattr(values := file.get(name), "nbytes"))


def _hdf5(path: Path) -> dict[str, Any]:
    file = open_hdf5(path)
    return _named({name: check_array(path, values) for name in file if hasattr(values := file.get(name), "shape")})


def _npz(path: Path) -> dict[str, Any]:
    check_unpacked(path, measure_unpacked(path), path.stat().st_size)
    try:
        with np.load(path, allow_pickle=False) as file:
            return _named({name: file[name] for name in file.files})
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(
            f"{path} cannot be read as arrays: {error}.\n  Arrays of Python objects are not read, since they may run code"
        ) from error


def _csv(path: Path) -> dict[str, Any]:
    """Columns obs_0, obs_1, …, action or action_0, …, reward, terminated, truncated, episode, next_obs_0, …"""
    text = plain_files.read_text(path)
    first, _, rest = text.partition("\n")
    header = next(csv.reader(io.StringIO(first)), [])
    if not rest.strip():
        raise ConfigError(f"{path} has a header at most, and no rows.\n  A header, then one row a step")
    if len(header) > MOST_COLUMNS:
        raise ConfigError(f"{path} has {len(header):,} columns, and at most {MOST_COLUMNS:,} are read.\n  Write it as .npz")
    try:
        table = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2, converters=_number, encoding="utf-8")
    except ValueError as error:
        raise ConfigError(f"{path} is not a table of numbers: {error}.\n  A header, then one row a step") from error
    if table.shape[1] != len(header):
        raise ConfigError(f"{path}: the header has {len(header)} columns, and a row {table.shape[1]}")
    parts: dict[str, list[int]] = {}
    for index, column in enumerate(header):
        name = column.strip().lower()
        stem, _, number = name.rpartition("_")
        parts.setdefault(stem if number.isdigit() else name, []).append(index)
    columns = _named({name: table[:, places] if len(places) > 1 else table[:, places[0]] for name, places in parts.items()})
    for name in ("observations", "next_observations"):
        if name in columns and columns[name].ndim == 1:
            columns[name] = columns[name][:, None]
    actions = columns.get("actions")
    if (
        actions is not None
        and actions.ndim == 1
        and (actions == np.round(actions)).all()
        and "action_0" not in (name.strip().lower() for name in header)
    ):
        columns["actions"] = actions.astype(np.int64)
    return columns


def _number(text: str) -> float:
    lowered = text.strip().lower()
    return {"true": 1.0, "false": 0.0}[lowered] if lowered in ("true", "false") else float(lowered)
