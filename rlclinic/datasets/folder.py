"""Our own format: a folder of .npy files, which are read without loading them, and dataset.json, which says what they are.

    dataset.json        spaces, environment, source, notes, facts
    observations.npy    [N + E, ...]    T + 1 an episode
    actions.npy, rewards.npy            [N, ...]
    lengths.npy, terminated.npy, truncated.npy      [E]
    beside/*.npy        [N, ...]        what else is known of each step, such as an expert's labels

It is written one episode after another, beside its final place, and moved there when it is whole.
"""

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlclinic import plain_files
from rlclinic.datasets.episodes import Dataset, Episode, Space, check_episode, check_shape
from rlclinic.errors import ConfigError

__all__ = ["Writer", "is_dataset", "read", "write"]

ABOUT: Final = "dataset.json"
VERSION: Final = 1
MOST_BYTES: Final = 10_000_000
"""Of dataset.json."""
BESIDE: Final = "beside"
ARRAYS: Final = ("observations", "actions", "rewards", "lengths", "terminated", "truncated")


class _Growing:
    """A .npy file that rows are added to; its header is written again when the number of rows is known."""

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.rows = np.dtype(dtype), shape, 0
        self.file: BufferedWriter = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        # numpy leaves room in the header for a first axis that grows.
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, described)

    def add(self, values: NDArray[Any]) -> None:
        """Append rows."""
        self.file.write(np.ascontiguousarray(values, self.dtype).tobytes())
        self.rows += len(values)

    def close(self) -> None:
        """Write how many rows there are, and everything to the disk."""
        self.file.seek(0)
        self._write_header()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


class Writer:
    """Writes episodes to a dataset folder; nothing is at its place until all of it is.

    with Writer(Path("data/medium"), observation_space, action_space, env_id="Pendulum-v1") as writer:
        writer.add(episode)
    """

    def __init__(self, path: Path, observation_space: Space, action_space: Space, **about: Any) -> None:
        if path.exists():
            raise ConfigError(f"{path} is there already, and data is not overwritten.\n  Name another place, or remove it first")
        self.path, self.partial = path, path.with_name(f".{path.name}.{os.getpid()}.partial")
        self.observation_space, self.action_space, self.about = observation_space, action_space, about
        self.episodes = 0
        self._arrays: dict[str, _Growing] = {}
        self._final_known = True

    def __enter__(self) -> "Writer":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir()
        return self

    def add(self, episode: Episode, beside: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Append one episode; one that cannot be learned from is refused. beside: what else is known of each step, [T, ...] by name."""
        check_episode(episode, self.episodes, self.action_space)
        extra = {f"{BESIDE}/{name}": values for name, values in (beside or {}).items()}
        if not self._arrays:
            action_type = np.int64 if self.action_space.kind == "discrete" else np.float32
            types = {"rewards": np.float32, "lengths": np.int64, "terminated": np.bool_, "truncated": np.bool_}
            observed, acted = np.asarray(episode.observations), np.asarray(episode.actions)
            observed_type = observed.dtype if observed.dtype == np.uint8 else np.dtype(np.float32)
            self._arrays = {name: _Growing(self.partial / f"{name}.npy", dtype, ()) for name, dtype in types.items()}
            self._arrays["observations"] = _Growing(self.partial / "observations.npy", observed_type, observed.shape[1:])
            self._arrays["actions"] = _Growing(self.partial / "actions.npy", action_type, acted.shape[1:])
            if extra:
                (self.partial / BESIDE).mkdir()
            self._arrays |= {name: _Growing(self.partial / f"{name}.npy", values.dtype, values.shape[1:]) for name, values in extra.items()}
        rows = {
            "observations": np.asarray(episode.observations),
            "actions": np.asarray(episode.actions),
            "rewards": np.asarray(episode.rewards),
            "lengths": np.array([len(episode.rewards)]),
            "terminated": np.array([episode.terminated]),
            "truncated": np.array([episode.truncated]),
            **extra,
        }
        for name, values in rows.items():
            check_shape(self.episodes, name, values.shape[1:], self._arrays[name].shape)
        for name, values in rows.items():
            self._arrays[name].add(values)
        self._final_known &= episode.final_known
        self.episodes += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            for array in self._arrays.values():
                array.close()
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self.partial, ignore_errors=True)

    def _finish(self) -> None:
        if not self.episodes:
            raise ConfigError("there was no episode to write: the dataset would be empty")
        about = {
            "version": VERSION,
            "observation_space": asdict(self.observation_space),
            "action_space": asdict(self.action_space),
            "final_known": self._final_known,
            **self.about,
        }
        (self.partial / ABOUT).write_text(json.dumps(about, indent=1, default=str), encoding="utf-8")
        self.partial.rename(self.path)


def is_dataset(path: Path) -> bool:
    """Whether a folder is one of ours."""
    return plain_files.is_plain(path / ABOUT) and plain_files.is_plain(path / "observations.npy")


def read(path: Path) -> Dataset:
    """A dataset of ours; its arrays stay on disk until they are looked at."""
    try:
        about = json.loads(plain_files.read_text(path / ABOUT, MOST_BYTES))
        arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        spaces = {name: _space(about[name]) for name in ("observation_space", "action_space")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a whole dataset: {error}.\n  Write or convert it again") from error
    if about.get("version") != VERSION:
        raise ConfigError(
            f"{path} has the version {about.get('version')!r} of the format, and this rlclinic reads {VERSION}.\n  Upgrade rlclinic"
        )
    for name, values in arrays.items():
        space = spaces.get(f"{name[:-1]}_space")
        whole = name == "lengths" or (name == "actions" and spaces["action_space"].kind == "discrete")
        if values.dtype.kind not in ("iu" if whole else "b" if name in ("terminated", "truncated") else "fiu"):
            raise ConfigError(f"{path}: {name}.npy holds {values.dtype}, which is no {name}: it is damaged.\n  Write or convert it again")
        size = math.prod(values.shape[1:])
        if space is not None and space.kind == "box" and size != math.prod(space.shape):
            raise ConfigError(
                f"{path}: {name}.npy has {size} numbers in a row, and {ABOUT} says {space}: it is damaged.\n  Write or convert it again"
            )
    beside = {file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in sorted((path / BESIDE).glob("*.npy"))}
    small = {name: np.array(arrays[name]) for name in ("lengths", "terminated", "truncated")}
    data = Dataset(
        arrays["observations"],
        arrays["actions"],
        arrays["rewards"],
        small["lengths"],
        small["terminated"],
        small["truncated"],
        spaces["observation_space"],
        spaces["action_space"],
        env_id=about.get("env_id"),
        source=str(about.get("source", "")),
        notes=tuple(map(str, about.get("notes", ()))),
        final_known=bool(about.get("final_known", True)),
        facts=dict(about.get("facts") or {}),
        beside=beside,
    )
    steps = int(small["lengths"].sum())
    rows = {
        "observations": steps + data.n_episodes,
        "actions": steps,
        "rewards": steps,
        "terminated": data.n_episodes,
        "truncated": data.n_episodes,
        **dict.fromkeys(beside, steps),
    }
    for name, wanted in rows.items():
        there = len({**beside, **arrays}[name])
        if there != wanted:
            raise ConfigError(f"{path}: {name}.npy has {there:,} rows instead of {wanted:,}: it is damaged.\n  Write or convert it again")
    if not data.n_episodes or (small["lengths"] < 1).any():
        raise ConfigError(f"{path} has no episodes, or empty ones.\n  Write or convert it again")
    endless = np.flatnonzero(~(small["terminated"] | small["truncated"]))
    if len(endless):
        raise ConfigError(
            f"{path}: episode {endless[0]} says neither terminated nor truncated: it is damaged.\n  Write or convert it again"
        )
    return data


def write(path: Path, episodes: Iterable[Episode], observation_space: Space, action_space: Space, **about: Any) -> Dataset:
    """Write episodes one after another, and read them back."""
    with Writer(path, observation_space, action_space, **about) as writer:
        for episode in episodes:
            writer.add(episode)
    return read(path)


def _space(about: dict[str, Any]) -> Space:
    bounds = {name: None if about.get(name) is None else tuple(map(float, about[name])) for name in ("low", "high")}
    return Space(about["kind"], tuple(map(int, about["shape"])), int(about["n"]), **bounds, guessed=bool(about.get("guessed")))
