"""Other frameworks' folders, files and console output as histories.

`read` finds out what a path is and asks the reader of that format; every reader has `matches(path)` and `read(path, options)`.
What a log does not say stays unknown, and what was joined, guessed, converted or left out is in a history's notes. Files are
read as far as they go, in bounded memory; nothing is ever unpickled or executed; foreign folders are never written to.

A package adds a reader of its own by an entry point of the group `rlclinic.readers` that names a module (or any object) with
these two functions. It is loaded when a path is of none of our formats, and asked before a file is read as any CSV or any text.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from rlclinic import plugins
from rlclinic.actions import Action, Argument
from rlclinic.errors import NotFound, RlclinicError, UsageError
from rlclinic.readers import (
    console,
    csv_jsonl,
    file_per_metric,
    gymnasium_solver,
    run_folder,
    sb3,
    sb3_settings,
    sidecar,
    tensorboard,
    text_files,
    thresholds,
)
from rlclinic.readers.import_runs import import_run, import_runs
from rlclinic.readers.options import Mapping, Options, make_options
from rlclinic.readers.trackers import aim, mlflow, wandb
from rlclinic.runs.history import History

__all__ = ["FORMATS", "Format", "Mapping", "Options", "import_run", "import_runs", "load_plugins", "read"]

STDIN: Final = "-"
_SPOOL_BYTES: Final = 16 << 20
_MAX_FILES: Final = 64
_MAX_FOLDERS: Final = 256
_MAX_NAMES: Final = 6
_TEXTS: Final = (".log", ".out", ".txt")


class Format(NamedTuple):
    """One reader."""

    name: str
    matches: Callable[[Path], bool]
    read: Callable[[Path, Options], list[History]]


_ENTRY_POINTS: Final = "rlclinic.readers"

FORMATS: Final = (
    Format("rlclinic run folders", run_folder.matches, run_folder.read),
    Format("gymnasium-solver run folders", gymnasium_solver.matches, gymnasium_solver.read),
    Format("Weights & Biases' files", wandb.matches, wandb.read),
    Format("Stable-Baselines3 and rl-zoo3 folders", sb3.matches, sb3.read),
    Format("TensorBoard folders (CleanRL and others)", tensorboard.matches, tensorboard.read),
    Format("MLflow's database", mlflow.matches, mlflow.read),
    Format("Aim's store (with Aim installed)", aim.matches, aim.read),
    Format("a file for each metric (TorchRL, d3rlpy, MLflow)", file_per_metric.matches, file_per_metric.read),
    Format("CSV and JSON lines", csv_jsonl.matches, csv_jsonl.read),
    Format("console output", console.matches, console.read),
)
"""Asked in this order; the last two for files only, and after the readers of other packages."""


@cache
def load_plugins() -> list[Format]:
    """The readers that other installed packages bring, by name."""
    formats = []
    for entry in sorted(metadata.entry_points(group=_ENTRY_POINTS)):
        reader = plugins.load(entry, "reader")
        formats.append(Format(entry.name, reader.matches, reader.read))
    return formats


def read(
    path: str | Path,
    *,
    threshold: float | None = None,
    budget: float | None = None,
    mapping: Sequence[str] | Mapping | None = None,
    stdin: BinaryIO | None = None,
) -> list[History]:
    """The histories that a path holds: a run folder, a folder of runs, a log file, or "-" for text from a pipe.

    threshold and budget: the return that counts as solved and the planned env steps, where the log does not know them.
    mapping: METRIC=COLUMN texts (see rlclinic.readers.options.parse_mapping), or a Mapping.
    Raises NotFound if there is nothing, and UsageError if what is there cannot be read as a log.
    """
    options = make_options(threshold, budget, mapping)
    try:
        # A log may hold any number: what overflows is set aside as broken.
        with np.errstate(all="ignore"):
            histories = _read_stdin(stdin or sys.stdin.buffer, options) if str(path) == STDIN else _read_path(Path(path), options)
    except RlclinicError:
        raise
    except (OSError, RecursionError, MemoryError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "nested or large beyond reason"
        raise UsageError(f"{path} cannot be read: {what}.\n  Nothing can be said about it.\n  Give another folder or file") from error
    return [thresholds.add_registered_threshold(options.complete(sidecar.add_settings(history))) for history in _make_ids_unique(histories)]


def _read_path(path: Path, options: Options) -> list[History]:
    if not path.exists():
        raise NotFound(
            f"{path} does not exist.\n"
            "  There is nothing to read.\n"
            "  Give a run folder, a folder of runs, a log file, or - for text from a pipe: python train.py | ",
            Action("diagnose", "-"),
        )
    return _read_file(path, options) if path.is_file() else _read_folder(path, options)


def _read_file(path: Path, options: Options) -> list[History]:
    if sb3_settings.is_model(path):
        raise UsageError(
            f"{path} is a saved model of Stable-Baselines3: it holds settings and weights, and no log.\n"
            "  There are no curves in it.\n"
            "  Give the folder with progress.csv, monitor.csv or events: ",
            Action("diagnose", path.parent),
        )
    histories = _read_particular(path, options)
    if histories is not None:
        return histories
    for form in FORMATS[-2:]:
        if form.matches(path):
            return form.read(path, options)
    raise UsageError(
        f"{path} is a binary file and no log.\n  Nothing can be said about it.\n  Give the folder that it lies in, or a text log"
    )


def _read_particular(path: Path, options: Options) -> list[History] | None:
    """By the first reader that knows this format, ours before those of other packages; None if none does."""
    for form in FORMATS[:-2]:
        if form.matches(path):
            return form.read(path, options)
    return next((form.read(path, options) for form in load_plugins() if form.matches(path)), None)


def _read_folder(path: Path, options: Options, depth: int = 0) -> list[History]:
    histories = _read_particular(path, options)
    if histories is not None:
        return histories
    histories = _read_files(path, options)
    if not histories and depth < 2:
        folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))[:_MAX_FOLDERS]
        for folder in folders:
            try:
                histories += _read_folder(folder, options, depth + 1)
            except RlclinicError:
                continue
    if not histories and aim.lies_in(path):
        return aim.read(path, options)
    if not histories:
        raise UsageError(
            f"{path} holds no log that can be read; looked for: {', '.join(form.name for form in (*FORMATS, *load_plugins()))}.\n"
            "  Nothing can be said about it.\n  Give the log file itself, with ",
            Argument("map", "METRIC=COLUMN"),
            " if its columns have unusual names",
        )
    return histories


def _read_files(path: Path, options: Options) -> list[History]:
    """Tables in a folder, or else its text logs. What cannot be read is passed over."""
    names = sorted(entry for entry in path.iterdir() if entry.is_file())[:_MAX_FILES]
    # RLlib writes the same rows twice; in the CSV, columns that come later are lost.
    twice = "progress.csv" if path / "result.json" in names else ""
    tables = [file for file in names if csv_jsonl.matches(file) and file.name not in (twice, *sidecar.FILES)]
    return list(_read_each(tables, csv_jsonl.read, options)) or list(
        _read_each([file for file in names if file.suffix in _TEXTS and console.matches(file)], console.read, options)
    )


def _read_each(files: list[Path], reader: Callable[[Path, Options], list[History]], options: Options) -> Iterator[History]:
    for file in files:
        try:
            yield from reader(file, options)
        except RlclinicError:
            continue


def _read_stdin(stream: BinaryIO, options: Options) -> list[History]:
    """What comes through a pipe, kept on disk where it is long."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
        while chunk := stream.read(1 << 20):
            spool.write(chunk)
        spool.seek(0)
        text = text_files.decode(spool)  # type: ignore[arg-type]
        if text_files.is_binary(text.read(8_192)):
            raise UsageError(
                "what came through the pipe is no text.\n  Nothing can be said about it.\n  Pipe what the training script prints"
            )
        text.seek(0)
        return [console.read_text(text, options)]


def _make_ids_unique(histories: list[History]) -> list[History]:
    """Runs of one folder name are told apart by the folders above, as many as it takes; what is left by a number."""
    names = [history.id for history in histories]
    for depth in range(1, _MAX_NAMES):
        twice = {name for name in names if names.count(name) > 1}
        if not twice:
            break
        names = [_lengthen_id(history, name, depth) if name in twice else name for history, name in zip(histories, names, strict=True)]
    for place, name in enumerate(names):
        if names.count(name) > 1:
            names[place] = f"{name}#{place}"
    return [replace(history, id=name) if name != history.id else history for history, name in zip(histories, names, strict=True)]


def _lengthen_id(history: History, name: str, depth: int) -> str:
    """A name with one more folder before it."""
    above = list(history.path.parents)[depth - 1].name if history.path is not None and len(history.path.parents) >= depth else ""
    return f"{above}/{name}" if above else name
