"""Histories in few bytes: rows thinned out, 12 bits of mantissa, bytes shuffled, packed with xz. The file is an .npz without pickles."""

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.runs.history import History, Series, make_series

ROWS: Final = 48
"""Rows kept of a log; every one that is kept is a row of the log."""
_FIELDS: Final = ("id", "source", "env_id", "algo", "seed", "threshold", "max_env_steps", "env_steps", "state", "reason")
_LARGEST: Final = 3e38
_LEFT_OUT: Final = ("time", "train/sentinel/fingerprint_p", "train/sentinel/fingerprint_o", "train/sentinel/fingerprint_r")
"""Clocks differ by machine, weights by step. Fingerprints of normalizers stay: what matters is whether two are equal."""


@dataclass(frozen=True)
class Entry:
    """One group of runs and what is known about it."""

    about: dict[str, Any]
    runs: tuple[History, ...]


def save(path: Path, entries: Sequence[Entry], rows: int = ROWS) -> int:
    """Write groups; the bytes that it took."""
    steps: list[NDArray[np.int32]] = []
    values: list[NDArray[np.float32]] = []
    about = []
    for entry in entries:
        runs = [_put(run, rows, steps, values) for run in entry.runs]
        about.append({"about": entry.about, "settings": dict(entry.runs[0].settings), "runs": runs})
    flat_steps = np.concatenate(steps) if steps else np.empty(0, np.int32)
    flat_values = np.concatenate(values) if values else np.empty(0, np.float32)
    np.savez(
        path,
        about=_packed(np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)),
        steps=_packed(_shuffled(flat_steps)),
        values=_packed(_shuffled(_rounded(flat_values))),
        sizes=np.array([len(flat_steps), len(flat_values)]),
    )
    return path.stat().st_size


def load(path: Path) -> list[Entry]:
    """Read groups back."""
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(_unpacked(file["about"]).tobytes())
        steps = _unshuffled(_unpacked(file["steps"]), np.dtype(np.int32))
        values = _unshuffled(_unpacked(file["values"]), np.dtype(np.float32))
    return [Entry(each["about"], tuple(_get(run, each["settings"], steps, values) for run in each["runs"])) for each in about]


def _put(run: History, rows: int, steps: list[Any], values: list[Any]) -> dict[str, Any]:
    """Append a run's tables (series that share their env steps); where they lie."""
    tables: dict[bytes, list[str]] = {}
    for column, series in run.series.items():
        if not column.startswith(_LEFT_OUT) and len(series.values):
            tables.setdefault(series.steps.tobytes(), []).append(column)
    at = [sum(map(len, steps)), sum(map(len, values))]
    sizes = []
    for columns in tables.values():
        at_steps = run.series[columns[0]].steps
        count = len(at_steps)
        keep = np.unique(np.linspace(0, count - 1, rows).round().astype(int)) if count > rows else np.arange(count)
        steps.append(np.diff(at_steps[keep], prepend=0).astype(np.int32))
        # Column after column: neighbours in time are alike, and pack well.
        joined = np.concatenate([run.series[column].values[keep] for column in columns])
        values.append(np.clip(joined, -_LARGEST, _LARGEST).astype(np.float32))
        sizes.append(len(keep))
    broken = {name: series.broken.tolist() for name, series in run.series.items() if len(series.broken)}
    fields = {name: getattr(run, name) for name in _FIELDS}
    return {
        **fields,
        "segments": list(run.segments),
        "at": at,
        "tables": list(tables.values()),
        "sizes": sizes,
        "broken": broken,
    }


def _get(entry: dict[str, Any], settings: dict[str, Any], steps: Any, values: Any) -> History:
    at_step, at_value = entry["at"]
    series: dict[str, Series] = {}
    for columns, size in zip(entry["tables"], entry["sizes"], strict=True):
        here = np.cumsum(steps[at_step : at_step + size]).astype(float)
        table = values[at_value : at_value + size * len(columns)].astype(float).reshape(len(columns), size)
        at_step, at_value = at_step + size, at_value + table.size
        # What was packed was finite and in order, and is looked through once for the whole table: there are 400,000 series.
        whole = size > 0 and bool((here[1:] >= here[:-1]).all() and np.isfinite(table).all())
        for column, numbers in zip(columns, table, strict=True):
            made = Series(here, numbers, column) if whole else make_series(here, numbers, column)
            if made is not None:
                broken = entry["broken"].get(column)
                series[column] = made if whole and not broken else replace(made, broken=np.array(broken or ()))
    return History(
        **{name: entry[name] for name in _FIELDS},
        segments=tuple(entry["segments"]),
        settings={**settings, "seed": entry["seed"]},
        series=series,
    )


def _rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The last 11 of 23 bits of the mantissa cleared: a quarter of a per mille."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)


def _shuffled(values: NDArray[Any]) -> NDArray[np.uint8]:
    """All first bytes, all second bytes, …: exponents beside exponents."""
    return np.ascontiguousarray(values.view(np.uint8).reshape(-1, values.dtype.itemsize).T).reshape(-1)


def _unshuffled(data: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(data.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)


def _packed(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.frombuffer(lzma.compress(data.tobytes(), preset=6), np.uint8)


def _unpacked(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.frombuffer(lzma.decompress(data.tobytes()), np.uint8)
