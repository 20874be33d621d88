"""MLflow's database (`mlflow.db`, or whatever its SQLite file is called), read without MLflow: a run for each row of its table of runs.

The database is somebody else's: it is opened read-only and as it lies there, may only be selected from, and every question to it has
a limit of work. Its older store, a folder of files, is in `rlclinic.readers.file_per_metric`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from rlclinic import plain_files
from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.readers import hyperparameters, metric_aliases
from rlclinic.readers.options import Options
from rlclinic.readers.raw_log import RawLog
from rlclinic.readers.trackers import tagged_logs
from rlclinic.runs.history import History

_MAGIC: Final = b"SQLite format 3\x00"
_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
_TABLES: Final = ("runs", "metrics", "params")
_MAX_FILES: Final = 16
_MAX_RUNS: Final = 256
_MAX_PARAMS: Final = 2_000
_MAX_TAGS: Final = 4_096
_MAX_TEXT: Final = 10_000
_CHUNK: Final = 4_096
_WORK: Final = 10_000
"""Steps of SQLite's machine between two looks at how much it has done."""
_MOST_WORK: Final = 200_000
"""Looks until a question is given up: some seconds, or tens of millions of rows."""
STATES: Final = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped", "RUNNING": "running", "SCHEDULED": "running"}


def matches(path: Path) -> bool:
    """A database of MLflow's, or a folder with one."""
    return _is_store(path) if path.is_file() else _find_store(path) is not None


def _find_store(folder: Path) -> Path | None:
    try:
        files = sorted(entry for entry in folder.iterdir() if entry.suffix in _SUFFIXES and entry.is_file())[:_MAX_FILES]
    except OSError:
        return None
    return next((file for file in files if _is_store(file)), None)


def _is_store(path: Path) -> bool:
    try:
        with plain_files.open_plain(path) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        with closing(_open(path)) as database:
            return _has_tables(database)
    except (OSError, sqlite3.Error):
        return False


def _open(path: Path) -> sqlite3.Connection:
    """The database as its file is now. Immutable: SQLite makes no file beside it, not even a lock."""
    database = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
    database.text_factory = lambda data: data.decode("utf-8", errors="replace")
    looks = iter(range(_MOST_WORK))
    database.set_progress_handler(lambda: int(next(looks, None) is None), _WORK)
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY)
    return database


def _has_tables(database: sqlite3.Connection) -> bool:
    """Whether the tables are there as tables: a view would run whatever its author wrote."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' LIMIT 1000")
    plain = {name for name, sql in rows if isinstance(sql, str) and sql.lstrip().upper().startswith("CREATE TABLE")}
    return plain.issuperset(_TABLES)


def read(path: Path, options: Options) -> list[History]:
    """A history for each run that has a metric that is known."""
    file = path if path.is_file() else _find_store(path)
    histories: list[History] = []
    about = ""
    try:
        with closing(_open(file or path)) as database:
            runs = database.execute(
                "SELECT run_uuid, name, status FROM runs WHERE lifecycle_stage = 'active' ORDER BY start_time LIMIT ?", (_MAX_RUNS,)
            )
            for run, name, status in list(runs):
                made = _read_run(database, file or path, str(run), str(name or ""), str(status), options)
                histories += [made] if made.series else []
    except sqlite3.Error as error:
        # A file that is being written to, or damaged, is read up to where it can be.
        about = str(error)[:200]
    if not histories:
        what = f"it cannot be read: {about}" if about else "no run in it has a metric that is known"
        raise UsageError(
            f"{path}: a database of MLflow's, but {what}.\n  Nothing can be said about its runs.\n  Say which metric is which: ",
            Argument("map", "return=METRIC"),
            "; or export them: mlflow runs describe --run-id ID",
        )
    return (
        [replace(history, notes=(*history.notes, f"the database was read in part: {about}")) for history in histories]
        if about
        else histories
    )


def _read_run(database: sqlite3.Connection, file: Path, run: str, name: str, status: str, options: Options) -> History:
    raw_log = RawLog(metric_aliases.EPISODIC | options.episodic)
    for tag, steps, values in _read_points(database, run):
        raw_log.add_column(tag, steps, values)
    params = database.execute("SELECT key, value FROM params WHERE run_uuid = ? LIMIT ?", (run, _MAX_PARAMS))
    raw = {str(key): hyperparameters.parse_value(value) for key, value in params if isinstance(value, str) and len(value) <= _MAX_TEXT}
    raw_log.step_factor = options.mapping.step_factor
    settings = tagged_logs.translate_settings(raw, name)
    made = tagged_logs.make_history(name or run, "mlflow", file.parent, raw_log, settings, options, notes=[f"run {run} of {file.name}"])
    return replace(made, path=file, state=STATES.get(status, "unknown") if made.state == "unknown" else made.state)


def _read_points(database: sqlite3.Connection, run: str) -> Iterator[tuple[str, Any, Any]]:
    """(metric, steps, values) in pieces, each metric in the order in which it was logged."""
    rows = database.execute("SELECT key, step, value, is_nan FROM metrics WHERE run_uuid = ? ORDER BY key, timestamp, step", (run,))
    current, names = None, 0
    steps: list[float] = []
    values: list[float] = []
    for key, step, value, is_nan in rows:
        if key != current or len(steps) >= _CHUNK:
            if steps:
                yield str(current), np.array(steps), np.array(values)
            names += key != current
            current, steps, values = key, [], []
            if names > _MAX_TAGS:
                return
        if isinstance(step, int | float) and isinstance(value, int | float):
            steps.append(float(step))
            # MLflow writes infinity as the largest number, and NaN as 0 with a flag.
            values.append(float("nan") if is_nan else float(value) if abs(value) < 1e308 else float("inf"))
    if steps:
        yield str(current), np.array(steps), np.array(values)
