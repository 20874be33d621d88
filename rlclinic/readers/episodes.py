"""SB3's files of single episodes: monitor.csv of every env, and evaluations.npz."""

import json
import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from rlclinic import plain_files
from rlclinic.readers import tables, text_files
from rlclinic.readers.metric_aliases import Tag
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.tables import LeftOut
from rlclinic.readers.thinning import Column, Points
from rlclinic.runs.coerce import real, text

MONITOR: Final = "monitor.csv"
EVALUATIONS: Final = "evaluations.npz"
MAX_ARRAY_BYTES: Final = 256 << 20
DAMAGED: Final = (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What opening a damaged zip file raises."""
START_SECONDS: Final = 120.0
"""Envs of one run start within this time; older files are left from a run before."""

MONITOR_TAGS: Final = (
    Tag("train/roll/ep_rew_mean", "r", episodic=True),
    Tag("train/roll/ep_len_mean", "l", episodic=True),
    Tag("train/roll/success_rate", "is_success", episodic=True),
)
EVALUATION_TAGS: Final = (
    Tag("val/roll/ep_rew_mean", "results mean"),
    Tag("val/roll/ep_rew_std", "results std"),
    Tag("val/roll/ep_rew_min", "results min"),
    Tag("val/roll/ep_len_mean", "ep_lengths mean"),
    Tag("val/roll/success_rate", "successes mean"),
)


@dataclass
class Monitors:
    """The episodes of all envs of a run, on the axis of env steps."""

    raw_log: RawLog
    env_id: str | None = None
    n_envs: int = 0
    started: float | None = None
    """Unix seconds."""
    notes: list[str] = field(default_factory=list)
    silent: int = 0
    """Envs that began and never ended an episode, where none did."""


@dataclass
class _Env:
    """One monitor.csv: its episodes, thinned, at the env's own steps."""

    path: Path
    started: float | None
    env_id: str | None
    columns: dict[str, Points] = field(default_factory=dict)


def is_monitor(path: Path) -> bool:
    """Whether a file is called so and begins as SB3's do."""
    return path.name.endswith(MONITOR) and text_files.read_head(path)[:2] in (b"#{", b"# ", b"r,")


def read_monitors(files: Sequence[Path]) -> Monitors:
    """Join the monitors of a run. Vector envs step together: an env's own steps times their number are the run's."""
    notes: list[str] = []
    opened = [env for path in files if (env := _read_monitor(path, notes)) is not None]
    envs = [env for env in opened if env.columns]
    newest = max((env.started for env in envs if env.started is not None), default=None)
    kept = [env for env in envs if newest is None or env.started is None or newest - env.started <= START_SECONDS]
    if len(kept) < len(envs):
        notes.append(f"{len(envs) - len(kept)} monitor files of an earlier run were left out")
    found = Monitors(RawLog({"r", "l", "is_success"}), n_envs=len(kept), started=newest, notes=notes)
    found.env_id = next((env.env_id for env in kept or opened if env.env_id), None)
    found.silent = 0 if envs else len(opened)
    for name in ("r", "l", "is_success"):
        columns = [env.columns[name].columns for env in kept if name in env.columns]
        if not columns:
            continue
        steps = np.concatenate([column[1] for column in columns]) * len(kept)
        order = np.argsort(steps, kind="stable")
        found.raw_log.add_column(name, steps[order], np.concatenate([column[2] for column in columns])[order])
    stride = max((points.stride for env in kept for points in env.columns.values()), default=1)
    if stride > 1:
        notes.append(f"many episodes: 1 in {stride} of each env was kept")
    return found


def _read_monitor(path: Path, notes: list[str]) -> _Env | None:
    env = _Env(path, read_start_time(path), text(_read_first_line(path).get("env_id")))
    count, passed = LeftOut(), 0.0
    try:
        with plain_files.open_plain(path) as file:
            for block in tables.read_csv(file, count):
                if "r" in block.names and "l" in block.names:
                    passed = _add_block(env, block, passed)
    except OSError as error:
        notes.append(f"{path.name} cannot be read: {error.strerror}")
        return None
    if count.skipped:
        notes.append(f"{path.name}: {count.skipped:,} lines that are no episodes were left out")
    return env


def read_start_time(path: Path) -> float | None:
    """Unix seconds at which a monitor was opened."""
    return real(_read_first_line(path).get("t_start"))


def _read_first_line(path: Path) -> dict[str, object]:
    """The first line: `#{"t_start": ..., "env_id": ...}`."""
    first = text_files.read_head(path).split(b"\n", 1)[0]
    try:
        value = json.loads(first[1:]) if first.startswith(b"#") else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _add_block(env: _Env, block: tables.Block, passed: float) -> float:
    """The episodes of a block, at the env's own step count; returns that count."""
    returns, lengths = block.values[:, block.names.index("r")], block.values[:, block.names.index("l")]
    whole = np.isfinite(lengths) & (lengths >= 0)
    steps: Column = passed + np.cumsum(np.where(whole, lengths, 0.0))
    columns = {"r": returns, "l": lengths}
    if "is_success" in block.names:
        columns["is_success"] = block.values[:, block.names.index("is_success")]
    for name, values in columns.items() if whole.any() else ():
        env.columns.setdefault(name, Points()).add(steps[whole], steps[whole], values[whole])
    return float(steps[-1]) if len(steps) else passed


def read_evaluations(path: Path, notes: list[str]) -> tuple[RawLog, int] | None:
    """The evaluations in evaluations.npz and how many episodes each has; None with a note if it cannot be read."""
    try:
        arrays = _read_arrays(path)
        steps, results = arrays["timesteps"].reshape(-1), np.atleast_2d(arrays["results"])
        if results.ndim != 2 or len(results) != len(steps) or not results.size:
            raise ValueError("the shapes do not fit")
        with np.errstate(all="ignore"):
            columns = [results.mean(1), results.std(1), results.min(1)]
        names = ["results mean", "results std", "results min"]
        for key in ("ep_lengths", "successes"):
            if key in arrays and arrays[key].ndim == 2 and arrays[key].size and len(arrays[key]) == len(steps):
                columns.append(arrays[key].mean(1))
                names.append(f"{key} mean")
    except (*DAMAGED, MemoryError) as error:
        notes.append(f"{path.name} cannot be read ({type(error).__name__}) and was left out")
        return None
    table = np.stack(columns, axis=1)
    raw_log = RawLog()
    raw_log.add_rows(names, steps, table, np.zeros_like(table, dtype=bool))
    return raw_log, results.shape[1]


def _read_arrays(path: Path) -> dict[str, Column]:
    """The numeric arrays of an npz. Pickled ones are refused, and sizes are checked before anything is allocated."""
    found = {}
    with plain_files.open_plain(path) as file, zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name not in ("timesteps", "results", "ep_lengths", "successes"):
                continue
            if info.file_size > MAX_ARRAY_BYTES:
                raise ValueError("too large")
            with archive.open(info) as member:
                version = np.lib.format.read_magic(member)
                header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = header(member)
            if dtype.kind not in "fiub" or math.prod(shape) * dtype.itemsize > info.file_size:
                raise ValueError("not an array of numbers")
            with archive.open(info) as member:
                found[name] = np.asarray(np.lib.format.read_array(member, allow_pickle=False), dtype=np.float64)
    return found
