"""What training writes through: one RunWriter per run, the only one at a time.

A kill at any moment leaves a folder that reads well: JSON files are replaced as a whole, metrics.csv grows by whole rows
(at most the last line is cut short, and readers ignore it), and a resume cuts back to the offset in its checkpoint.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from rlclinic.actions import Action
from rlclinic.errors import CheckpointCorrupt, RunError, nearest
from rlclinic.runs import control, disk, record, status_file
from rlclinic.runs.lock import HOST, Lock, started

FLUSH_SECONDS: Final = 1.0
"""Rows wait in memory at most this long, counted from the next row: a live view lags by a second, not by a checkpoint."""
STATUS_SECONDS: Final = 0.5
"""A run that goes on running replaces its status.json at most this often; a change of state is written at once."""
RELAXED_SECONDS: Final = 10.0
"""Both, at least, for one of very many runs that one process writes."""
RELAXED_SHARE: Final = 32
"""A process writes so many runs' files in a second, on average: a thousand every half minute, or it would do little else."""

_WORDS: Final = ((b"null", b""), (b"NaN", b"nan"), (b"Infinity", b"inf"), (b"true", b"1"), (b"false", b"0"))


class RunWriter:
    """Writes one run's folder. Raises RunBusy if another process does, and DiskFailed when the disk refuses.

    `columns` is the header of metrics.csv, fixed for the life of the run: a run that an earlier version started, with some of them,
    keeps its own. `offset` is the byte position to go on from:
    None for a run that has no rows yet, a checkpoint's offset for a resume, 0 to start the table again from nothing.
    """

    def __init__(self, path: Path | str, columns: Sequence[str], offset: int | None = None) -> None:
        self.path = Path(path)
        self.columns = tuple(columns)
        self._known = frozenset(columns)
        _check_columns(self.columns)
        self._lock = Lock(self.path)
        try:
            self._offset = self._open_metrics(offset)
            self._status = self._take_over(resumed=offset is not None)
        except BaseException:
            self._lock.release()
            raise
        self._rows: list[bytes] = []
        self._flushed = time.monotonic()
        self._status_written = -math.inf
        self._status_waits = False
        self._flush_seconds, self._status_seconds, self._relaxed = FLUSH_SECONDS, STATUS_SECONDS, False
        self._pending: dict[str, Any] = {}

    def relax(self, runs: int) -> None:
        """Write rows and heartbeat less often: one of so many that a process writes."""
        self._flush_seconds = self._status_seconds = max(RELAXED_SECONDS, runs / RELAXED_SHARE)
        self._relaxed = True

    # ── rows ──

    def row(self, values: Mapping[str, Any]) -> None:
        """Add a row: numbers by column name, blank where a column has none. A float reads back with every bit."""
        (line,) = self.lines({name: [value] for name, value in values.items()}, 1)
        self.add(line)

    def lines(self, table: Mapping[str, Sequence[Any]], count: int) -> list[bytes]:
        """Rows of `count` runs with these columns, as their files hold them: `table` has a list of cells by column name.

        For runs that train together: a thousand rows are formatted in the time of fifty.
        """
        if not table.keys() <= self._known:
            raise RunError(_unknown_column(self.path, sorted(table.keys() - self._known), self.columns))
        blank = [None] * count
        return _lines(list(zip(*(table.get(column, blank) for column in self.columns), strict=True)), len(self.columns))

    def add(self, line: bytes) -> None:
        """Add a row that `lines` has made."""
        self._rows.append(line)
        if time.monotonic() - self._flushed > self._flush_seconds:
            self.flush()

    def flush(self, *, sync: bool = False) -> int:
        """Write the waiting rows with one call and return the table's length in bytes: the offset a checkpoint keeps.

        `sync` waits for the disk: for a checkpoint that must survive a power cut.
        """
        file = self.path / record.METRICS
        if self._rows or sync:
            with disk.guarded(file):
                # Opened anew each time: a cohort of a thousand runs must not hold a thousand files open.
                fd = os.open(file, os.O_WRONLY)
                try:
                    self._offset = _append(fd, self._offset, b"".join(self._rows))
                    if sync:
                        os.fsync(fd)
                finally:
                    os.close(fd)
            self._rows.clear()
        self._flushed = time.monotonic()
        return self._offset

    # ── everything else ──

    def status(self, state: str, env_steps: int, **more: Any) -> None:
        """Report where the run stands; fields not named keep their value.

        Written at once when the state changes or the run ends; otherwise every half second, which is the heartbeat.
        """
        if state not in status_file.STATES:
            raise RunError(f"{state!r} is no state of a run; one of: {', '.join(sorted(status_file.STATES))}")
        if unknown := sorted(more.keys() - status_file.FIELDS):
            offered = nearest(unknown[0], status_file.FIELDS)
            raise RunError(f"status.json has no field {unknown[0]!r}; nearest: {', '.join(offered) or 'none'}")
        changed = state != self._status.state or self._status_written < 0
        if self._relaxed and not changed and time.monotonic() - self._status_written <= self._status_seconds:
            self._pending |= more  # for the next one that is written
            return
        self._status = replace(self._status, state=state, env_steps=int(env_steps), heartbeat=time.time(), **(self._pending | more))
        self._pending = {}
        self._status_waits = True
        if state in status_file.FINAL:
            self.flush()  # who reads that a run has ended finds all of its rows, also if this process is killed right after
        if changed or state in status_file.FINAL or time.monotonic() - self._status_written > self._status_seconds:
            self._write_status()

    def log(self, text: str) -> None:
        """Add lines to run.log, each with the time of day in front."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S ")
        lines = text.rstrip("\n").split("\n")
        disk.append_line(self.path / record.LOG, "\n".join(stamp + line for line in lines))

    def intervention(self, change: Mapping[str, Any]) -> None:
        """Record a change of numbers made while the run ran, before it takes effect: a resume replays it."""
        disk.append_line(self.path / record.INTERVENTIONS, record.one_line(dict(change)), sync=True)

    def annotate(self, **entries: Any) -> None:
        """Add facts that were decided at the start (engine, versions) to config.json. The settings themselves are frozen."""
        file = self.path / record.CONFIG
        current = disk.read_json(file)
        if current is None:
            raise RunError(f"{file} is missing or is not JSON: the run cannot be told from another.\n  Train it anew: ", Action("train"))
        if frozen := sorted(entries.keys() - record.META):
            raise RunError(f"{file}: {', '.join(frozen)} belongs to the settings, which do not change after the start")
        disk.write_json(file, current | entries, sync=not self._relaxed)

    def read_control(self) -> dict[str, Any] | None:
        """Take the pending request (control.json), if there is one: it is handed out once."""
        return control.take(self.path)

    def close(self) -> None:
        """Write what waits and let go of the run. Closing twice does nothing."""
        if self._lock.held:
            try:
                self.flush()
                if self._status_waits:
                    self._write_status()
            finally:
                self._lock.release()

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── inside ──

    def _open_metrics(self, offset: int | None) -> int:
        file = self.path / record.METRICS
        header = (",".join(self.columns) + "\n").encode()
        with disk.guarded(file):
            fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                size = os.fstat(fd).st_size
                found = os.pread(fd, size if size < 65_536 else 65_536, 0).partition(b"\n")
                if not offset:
                    if offset is None and found[2]:
                        raise RunError(
                            f"run {self.path.name} has rows already; starting it again would overwrite them.\n"
                            "  Go on from its last checkpoint: ",
                            Action("train", resume=self.path.name),
                        )
                    return _append(fd, 0, header)
                own = tuple(found[0].decode(errors="replace").split(","))
                if found[1] and own == tuple(column for column in self.columns if column in own):
                    self.columns, header = own, found[0] + found[1]
                _check_resume(self.path, header, found[0] + found[1], offset, size, os.pread(fd, 1, offset - 1))
                os.ftruncate(fd, offset)
                return offset
            finally:
                os.close(fd)

    def _take_over(self, *, resumed: bool) -> status_file.Status:
        before = status_file.raw(self.path)
        if before.state != "queued":
            control.drop_old(self.path)
        return replace(
            before,
            pid=os.getpid(),
            host=HOST,
            process_started=started(os.getpid()),
            started=before.started or time.time(),
            resumes=before.resumes + resumed,
            reason=None,
        )

    def _write_status(self) -> None:
        status_file.write(self.path, self._status)
        self._status_written = time.monotonic()
        self._status_waits = False


def _append(fd: int, offset: int, data: bytes) -> int:
    """Put `data` at `offset`, where the file then ends. If the disk refuses, the file is as before."""
    os.ftruncate(fd, offset)
    try:
        written = os.pwrite(fd, data, offset)
        # A full disk takes a part and refuses the rest at the next call.
        while written < len(data):
            written += os.pwrite(fd, data[written:], offset + written)
    except OSError:
        os.ftruncate(fd, offset)
        raise
    return offset + len(data)


def _lines(rows: list[tuple[Any, ...]], width: int) -> list[bytes]:
    """Rows of cells as lines: the shortest digits that read back as the same float, `nan`, `inf`, blank for None."""
    try:
        # The JSON writer finds those digits ten times as fast as repr, which matters with a hundred columns and many members.
        text = to_json(rows, inf_nan_mode="constants")
    except PydanticSerializationError:  # numpy scalars, one-element tensors
        text = to_json([[cell.item() if hasattr(cell, "item") else cell for cell in row] for row in rows], inf_nan_mode="constants")
    if text.count(b",") != len(rows) * width - 1 or text.count(b"[") != len(rows) + 1 or b'"' in text or b"{" in text:
        odd = next(cell for row in rows for cell in row if not isinstance(cell, int | float | None))
        raise RunError(f"metrics.csv holds numbers; {odd!r} is {type(odd).__name__}")
    for word, cell in _WORDS:
        if word in text:
            text = text.replace(word, cell)
    return [line + b"\n" for line in text[2:-2].split(b"],[")]


@cache  # the runs of a cohort have the same ones
def _check_columns(columns: tuple[str, ...]) -> None:
    if len(set(columns)) != len(columns) or not columns:
        raise RunError("metrics.csv needs columns, each of them once")
    for name in columns:
        if not name or any(character in ',"\r\n' for character in name):
            raise RunError(f"{name!r} cannot be a column of metrics.csv: commas, quotes and line ends have a meaning there")


def _check_resume(path: Path, header: bytes, found: bytes, offset: int, size: int, before: bytes) -> None:
    if offset <= size and found != header:
        ours, theirs = set(header.decode().strip().split(",")), set(found.decode(errors="replace").strip().split(","))
        raise RunError(
            f"run {path.name} was written with other columns (new: {sorted(ours - theirs)[:3]}, gone: {sorted(theirs - ours)[:3]}).\n"
            f"  A resume would put numbers under wrong names.\n"
            f"  Resume it with the version that started it (config.json: versions), or train it anew."
        )
    if offset > size or before != b"\n" or offset < len(header):
        raise CheckpointCorrupt(
            f"run {path.name}: the checkpoint ends at byte {offset} of metrics.csv, which has {size} bytes"
            f"{'' if offset > size else ' and no row ends there'}.\n"
            "  Going on would leave a hole in the table.\n"
            "  Use an earlier checkpoint: ",
            Action("runs checkpoints", path.name),
        )


def _unknown_column(path: Path, unknown: list[str], columns: tuple[str, ...]) -> str:
    offered = nearest(unknown[0], columns)
    return (
        f"run {path.name}: metrics.csv has no column {unknown[0]!r}"
        + (f"; nearest: {', '.join(offered)}" if offered else "")
        + ".\n  Columns are fixed at the start, so that old rows keep their meaning. Name it in RunWriter(columns=...)."
    )
