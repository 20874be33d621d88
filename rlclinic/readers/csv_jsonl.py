"""Any CSV or JSON-lines file: columns by `--map`, by a framework's names, or by guessing."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import column_names, hyperparameters, metric_aliases, tables, text_files
from rlclinic.readers.column_names import Columns
from rlclinic.readers.metric_aliases import Framework, Tag
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.tables import Block, LeftOut
from rlclinic.readers.thinning import Column
from rlclinic.runs.history import History, Series

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
NAMES: Final = ("progress.txt",)
"""Tables that are called text: Spinning Up's."""
_AXES: Final = {
    "lengths": "env steps are the sum of episode lengths",
    "rows": "no column counts env steps: the axis counts iterations or episodes; a map of step=COLUMN*FACTOR makes env steps of them",
    "order": "no column counts steps: the axis counts rows; a map of step=COLUMN says which does",
}
_USUAL: Final = ("progress", "result")
_EXPORTED: Final = " - "
_MAX_RUNS: Final = 64
_FEW: Final = 10
_FALLING: Final = 0.2
"""Share of rows that go back; a counter does so at restarts only."""


def matches(path: Path) -> bool:
    """A text file that is called a table."""
    name = path.name.lower().removesuffix(".gz")
    named = name in NAMES or name.endswith(SUFFIXES)
    return named and path.is_file() and not text_files.is_binary(text_files.read_head(path))


def read(path: Path, options: Options) -> list[History]:
    """One history from one file; one for each run of a W&B export, whose columns are called `run - metric`."""
    with text_files.open_text(path) as file:
        runs = find_exported_runs(next(read_table_blocks(file, LeftOut()), None))
        if not runs:
            file.seek(0)
            return [read_table(file, options, path=path)]
        found = []
        for run in runs:
            file.seek(0)
            count = LeftOut()
            found.append(read_blocks(_select_run(read_table_blocks(file, count), run), count, options, path=path, name=run))
        return found


def find_exported_runs(first: Block | None) -> list[str]:
    """The runs in a table that W&B's page exported: it writes a least and a greatest value beside every column."""
    names = set(first.names) if first is not None else set()
    plain = [name for name in names if f"{name}__MIN" in names and f"{name}__MAX" in names]
    return sorted({name.split(_EXPORTED, 1)[0] for name in plain if _EXPORTED in name})[:_MAX_RUNS]


def _select_run(blocks: Iterator[Block], run: str) -> Iterator[Block]:
    """The columns of one run by their own names, and those that all runs share."""
    for block in blocks:
        kept = [
            (place, name.removeprefix(run + _EXPORTED))
            for place, name in enumerate(block.names)
            if not name.endswith(("__MIN", "__MAX")) and (name.startswith(run + _EXPORTED) or _EXPORTED not in name)
        ]
        places = [place for place, _ in kept]
        logged = ~block.blank[:, [place for place in places if _EXPORTED in block.names[place]]].all(axis=1)
        yield Block([name for _, name in kept], block.values[logged][:, places], block.blank[logged][:, places])


def read_table(file: BinaryIO, options: Options, *, path: Path | None = None) -> History:
    """The history in an open CSV or JSONL file."""
    count = LeftOut()
    return read_blocks(read_table_blocks(file, count), count, options, path=path, name=_name_run(path) if path is not None else "text")


def _name_run(path: Path) -> str:
    """What a run is called: its file, or its folder where every run's file has this name."""
    stem = path.name.lower().removesuffix(".gz").rsplit(".", 1)[0]
    return path.resolve().parent.name or path.stem if stem in _USUAL else path.name.removesuffix(".gz").rsplit(".", 1)[0]


def read_blocks(blocks: Iterator[Block], count: LeftOut, options: Options, *, path: Path | None, name: str) -> History:
    """The history in rows of numbers."""
    label = str(path) if path is not None else name
    first = next(blocks, None)
    if first is None:
        raise UsageError(
            f"{label} has no rows of numbers.\n  Nothing can be said about it.\n  Give a log with a header and at least one row"
        )
    options.mapping.check(first.names)
    guessed, framework = column_names.guess_columns(first.names), metric_aliases.recognize(first.names)
    guessed = _use_lengths(guessed, first, options)
    raw_log, axis = _fill_log(itertools.chain([first], blocks), guessed, options)
    raw_log.step_factor = options.mapping.step_factor
    algo = hyperparameters.infer_algorithm_from_tags(first.names) if framework else None
    series = raw_log.series(options.table(_make_tags(guessed, framework, algo)), {})
    algo = algo or hyperparameters.infer_algorithm_from_series(series, first.names)
    if not series:
        raise _make_error(label, raw_log)
    signed = [] if framework else _sign_entropy(series)
    return History(
        id=name,
        source=framework.source if framework and framework.source in ("sb3", "cleanrl", "rllib", "imitation") else "csv",
        path=path,
        algo=algo,
        env_steps=raw_log.env_steps if axis in ("", "lengths") else None,
        series=series,
        segments=raw_log.segments,
        notes=(*_make_notes(series, axis, framework.name if framework else None), *signed, *raw_log.notes, *describe_left_out(count)),
    )


def _make_tags(guessed: Columns, framework: Framework | None, algo: str | None) -> list[Tag]:
    """A framework's own table, and guesses for the columns that it has no line for."""
    known = {tag.tag for tag in framework.tags} if framework else set()
    named = framework.table(algo) if framework else []
    return [*named, *(tag for tag in guessed.tags if tag.tag not in known), *metric_aliases.OWN]


def _sign_entropy(series: dict[str, Series]) -> list[str]:
    """An "entropy loss" is the entropy with either sign: the one that makes entropy positive is taken, and a note says so."""
    found = series.get("train/loss/entropy")
    if found is None or "train/metrics/entropy" in series or not len(found):
        return []
    sign = 1.0 if np.median(found.values) > 0 else -1.0
    series["train/metrics/entropy"] = replace(found, values=sign * found.values)
    series["train/loss/entropy"] = replace(found, values=-sign * found.values)
    return [f"{found.name} was read as {'' if sign > 0 else 'minus '}the entropy, so that entropy is positive"]


def _has_objects(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """An object per line, or one object over all lines."""
    line = file.readline(tables.ARRAY_BYTES)
    more = file.read(1)
    file.seek(0)
    alone = not more or not line.rstrip().endswith(b"}")
    return (tables.read_json_object if alone else tables.read_json_lines)(file, count)


def read_table_blocks(file: BinaryIO, count: LeftOut) -> Iterator[Block]:
    """The blocks of a table: JSON lines, a JSON object or array, or CSV, told by the first character. The file must be able to go back."""
    first = file.read(256).lstrip()[:1]
    file.seek(0)
    return {b"{": _has_objects, b"[": tables.read_json_array}.get(first, tables.read_csv)(file, count)


def _fill_log(blocks: Iterable[Block], guessed: Columns, options: Options) -> tuple[RawLog, str]:
    """Every block on one axis, and what had to be done for it: "" for env steps as they were logged."""
    raw_log = RawLog(guessed.episodic | options.episodic | metric_aliases.EPISODIC)
    step = options.mapping.step or guessed.step
    column, axis = next(
        (name, kind) for name, kind in ((step, ""), (guessed.lengths, "lengths"), (guessed.rows, "rows"), ("", "order")) if name is not None
    )
    passed, row = 0.0, 0
    for block in blocks:
        count = len(block.values)
        steps = np.arange(row, row + count, dtype=np.float64) if axis == "order" else _get_column(block, column)
        if axis == "lengths":
            steps = passed + np.cumsum(np.nan_to_num(steps))
            passed = float(steps[-1])
        row += count
        raw_log.add_rows(block.names, steps, block.values, block.blank)
    return raw_log, axis


def _use_lengths(guessed: Columns, first: Block, options: Options) -> Columns:
    """A log by episodes whose "steps" keep falling counts each episode's own."""
    if guessed.step is None or guessed.rows is None or options.mapping.step is not None:
        return guessed
    steps = _get_column(first, guessed.step)
    falls = np.diff(steps[np.isfinite(steps)]) < 0
    often = len(falls) >= _FEW and falls.mean() > _FALLING
    return replace(guessed, step=None, lengths=guessed.step) if often else guessed


def _get_column(block: Block, name: str) -> Column:
    if name not in block.names:
        return np.full(len(block.values), np.nan)
    return block.values[:, block.names.index(name)]


def _make_error(label: str, raw_log: RawLog) -> UsageError:
    names = raw_log.names
    if not len(raw_log):
        return UsageError(
            f"{label}: no row says at which step it is.\n  It has no axis.\n  Say which column counts env steps: ",
            Argument("map", "step=COLUMN"),
        )
    return UsageError(
        f"{label}: no column is known as a metric ({', '.join(names[:8])}).\n  Nothing can be said about the run.\n"
        "  Say which column is which: ",
        Argument("map", f"return={names[0] if names else 'COLUMN'}"),
    )


def _make_notes(series: Mapping[str, Series], axis: str, framework: str | None) -> list[str]:
    renamed = ", ".join(f"{name} = {found.name}" for name, found in series.items() if found.name != name)
    notes = [f"read as a log of {framework}"] if framework else []
    if renamed and not framework:
        notes.append(f"columns by their names: {renamed}; a map of METRIC=COLUMN corrects them")
    return notes + ([_AXES[axis]] if axis else [])


def describe_left_out(count: LeftOut) -> list[str]:
    """What was left out while reading, for the notes of a history."""
    left = [f"{count.skipped:,} lines that are no rows were left out"] if count.skipped else []
    return [*count.notes, *left]
