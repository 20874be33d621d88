"""Recorded groups in a compact form: every row that is kept is a row of the log, most rows are left out.

A file holds, for each run, tables of series that share their env steps: `<run>.<table>.steps` and `<run>.<table>.values`
(float32, 12 bits of mantissa). What is not a number is in `about`, a JSON text.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlclinic.runs.history import History, Series, make_series

CASES: Final = Path(__file__).parent / "cases"
ROWS: Final = 44
_FIELDS: Final = (
    "id",
    "source",
    "env_id",
    "algo",
    "seed",
    "threshold",
    "max_env_steps",
    "env_steps",
    "state",
    "reason",
    "segments",
    "notes",
)


def names() -> list[str]:
    """Every recorded case."""
    return sorted(path.stem for path in CASES.glob("*.npz"))


@cache
def load(name: str) -> tuple[dict[str, Any], tuple[History, ...]]:
    """What a case is about (its recipe), and its runs."""
    with np.load(CASES / f"{name}.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        runs = tuple(_run(entry, place, file) for place, entry in enumerate(about["runs"]))
    return about["recipe"], runs


def histories(name: str) -> list[History]:
    """The runs of a case."""
    return list(load(name)[1])


def _run(entry: dict[str, Any], place: int, file: Any) -> History:
    series: dict[str, Series] = {}
    for number, columns in enumerate(entry["tables"]):
        steps, values = file[f"{place}.{number}.steps"], file[f"{place}.{number}.values"]
        for column, name in enumerate(columns):
            made = make_series(steps, values[:, column], name)
            assert made is not None
            series[name] = made
    fields = {name: entry[name] for name in _FIELDS}
    return History(
        **{**fields, "segments": tuple(fields["segments"]), "notes": tuple(fields["notes"])}, settings=entry["settings"], series=series
    )


def save(name: str, recipe: dict[str, Any], runs: Sequence[History]) -> int:
    """Write a case; its size in bytes. Columns about the clock are left out: they differ from machine to machine."""
    arrays: dict[str, Any] = {}
    entries = []
    for place, run in enumerate(runs):
        tables: dict[bytes, list[str]] = {}
        for column, series in run.series.items():
            if not column.startswith("time"):
                tables.setdefault(series.steps.tobytes(), []).append(column)
        entries.append(
            {**{field: getattr(run, field) for field in _FIELDS}, "settings": dict(run.settings), "tables": list(tables.values())}
        )
        for number, columns in enumerate(tables.values()):
            steps = run.series[columns[0]].steps
            keep = np.unique(np.linspace(0, len(steps) - 1, ROWS).round().astype(int)) if len(steps) > ROWS else np.arange(len(steps))
            arrays[f"{place}.{number}.steps"] = steps[keep].astype(np.int32)
            arrays[f"{place}.{number}.values"] = _rounded(np.stack([run.series[column].values[keep] for column in columns], 1))
    about = json.dumps({"recipe": recipe, "runs": entries}, sort_keys=True)
    path = CASES / f"{name}.npz"
    np.savez_compressed(path, about=np.array(about), **arrays)
    return path.stat().st_size


def _rounded(values: Any) -> Any:
    """float32 with the last 11 of 23 bits of the mantissa cleared: a quarter of a per mille, and half the bytes when packed."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 10)) & np.uint32(0xFFFFF800)).view(np.float32)
