"""A few columns of a metrics.csv that may be long and may still be growing: for pictures that are drawn again and again.

`table.read` reads every cell, which a page with one curve of a run with 100,000 rows and 120 columns cannot wait for. Here
only the columns that were asked for become numbers, what was read is kept, and growth costs what has grown.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.runs.metrics_file import table
from rlclinic.runs.metrics_file.table import Column

MOST_FILES: Final = 96
CHUNK_BYTES: Final = 500_000
"""Small enough to stay in the cache: four times that takes a third longer."""
_TAIL: Final = 64
_WINDOW: Final = 8_192
"""Wide enough for two rows."""
_COMMA, _NEWLINE = 44, 10


class Columns:
    """Columns of one metrics.csv, read as far as they were asked for. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self.names: tuple[str, ...] = ()
        self._kept: dict[str, list[Column]] = {}
        self._start = self._end = 0  # bytes: the first row, and behind the last one that was read
        self._tail = b""
        self._inode = -1

    def read(self, wanted: Sequence[str]) -> dict[str, Column]:
        """The columns that exist, all equally long, as of now; NaN where a row has no number."""
        try:
            with self._lock, self.path.open("rb") as file:
                return self._read(file.fileno(), wanted)
        except FileNotFoundError:
            return {}

    def header(self) -> tuple[str, ...]:
        """The names of all columns; none while the header is being written."""
        if not self.names:
            self.read([])
        return self.names

    def unread(self, wanted: Sequence[str]) -> int:
        """Bytes that reading these columns would take: 0 if they were read before and have not grown."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return 0
        return size - self._end if self._end and all(name in self._kept for name in wanted if name in self.names) else size

    def _read(self, file: int, wanted: Sequence[str]) -> dict[str, Column]:
        if os.fstat(file).st_ino != self._inode or os.pread(file, len(self._tail), self._end - len(self._tail)) != self._tail:
            # Another file, or a resume has cut it back: nothing that was read holds any more.
            self._forget()
            self._open(file)
        known = [name for name in wanted if name in self.names]
        new = [name for name in known if name not in self._kept]
        for _, rows in _blocks(file, self._start, self._end) if new else ():
            self._keep(new, rows)
        for name in new:
            self._kept.setdefault(name, [])
        for begin, rows in _blocks(file, self._end, None) if self._kept else ():
            self._keep(list(self._kept), rows)
            self._end, self._tail = begin + len(rows), rows[-_TAIL:]
        return {name: self._whole(name) for name in known}

    def _open(self, file: int) -> None:
        head = os.pread(file, 1 << 20, 0)
        line, newline, _ = head.partition(b"\n")
        if not newline:
            return  # the header is still being written
        self.names = tuple(line.decode("utf-8", errors="replace").rstrip("\r").split(","))
        self._start = self._end = len(line) + 1
        self._tail = head[: self._end][-_TAIL:]
        self._inode = os.fstat(file).st_ino

    def _keep(self, names: Sequence[str], rows: bytes) -> None:
        if not names:
            return
        places = [self.names.index(name) for name in names]
        for name, values in zip(names, parse(rows, len(self.names), places), strict=True):
            self._kept.setdefault(name, []).append(values)

    def _whole(self, name: str) -> Column:
        parts = self._kept[name]
        if len(parts) != 1:
            self._kept[name] = parts = [np.concatenate(parts) if parts else np.empty(0)]
        return parts[0]


def _blocks(file: int, start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Whole lines between two places of a file, a few megabytes at a time; half a line at the end is left for later."""
    while end is None or start < end:
        block = os.pread(file, CHUNK_BYTES if end is None else min(CHUNK_BYTES, end - start), start)
        rows = block[: block.rfind(b"\n") + 1]
        if not rows:
            return
        yield start, rows
        start += len(rows)


def parse(rows: bytes, width: int, places: Sequence[int]) -> list[Column]:
    """The columns at these places of whole lines. Lines with another number of cells are left out, as `table.read` does."""
    rows = rows.replace(b"\r", b"") if b"\r" in rows else rows
    text = np.frombuffer(rows, dtype=np.uint8)
    ends = np.flatnonzero((text == _COMMA) | (text == _NEWLINE))
    if len(ends) % width or not _regular(text[ends].reshape(-1, width)):
        whole = [line for line in rows.split(b"\n")[:-1] if line.count(b",") == width - 1]
        return parse(b"\n".join(whole) + b"\n", width, places) if whole else [np.empty(0) for _ in places]
    grid = ends.reshape(-1, width)
    return [_cells(rows, grid, place) for place in places]


def _regular(marks: NDArray[np.uint8]) -> bool:
    """Whether every line has its newline where the others have theirs."""
    return bool((marks[:, -1] == _NEWLINE).all()) and np.count_nonzero(marks == _NEWLINE) == len(marks)


def _cells(rows: bytes, grid: NDArray[np.intp], place: int) -> Column:
    before = grid[:, place - 1] if place else np.concatenate(([-1], grid[:-1, -1]))
    # Slices, joined and read as one JSON array: four times as fast as numpy's own reading of texts.
    cells = [rows[start + 1 : stop] for start, stop in zip(before.tolist(), grid[:, place].tolist(), strict=True)]
    return table.numbers(b",".join(cells))[0]


def glance(path: Path, wanted: Sequence[str], rows: int) -> dict[str, Column]:
    """The columns in about so many rows, spread evenly over a long file: a first look while the whole of it is read."""
    try:
        with path.open("rb") as file:
            header, _, _ = file.readline().partition(b"\n")
            start, end = file.tell(), os.fstat(file.fileno()).st_size
            places = np.linspace(start, end, rows + 1)[:-1].astype(int).tolist()
            # A line that begins before the window belongs to the place before; the first window begins with one.
            lines = [_line_after(file.fileno(), place, whole=place == start) for place in places]
    except FileNotFoundError:
        return {}
    names = header.decode("utf-8", errors="replace").rstrip("\r").split(",")
    known = [name for name in wanted if name in names]
    text = b"".join(dict.fromkeys(line for line in lines if line))
    return dict(zip(known, parse(text, len(names), [names.index(name) for name in known]), strict=True)) if text else {}


def _line_after(file: int, place: int, *, whole: bool) -> bytes:
    """The first whole line behind a place of a file; empty if there is none in the window."""
    block = os.pread(file, _WINDOW, place)
    start = 0 if whole else block.find(b"\n") + 1
    stop = block.find(b"\n", start) + 1
    return block[start:stop] if stop and (whole or start) else b""


_open_files: OrderedDict[Path, Columns] = OrderedDict()
_guard = threading.Lock()


def of(path: Path) -> Columns:
    """The reader of a file, the same one for everybody who asks; those not asked for longest are let go."""
    with _guard:
        found = _open_files.setdefault(path, Columns(path))
        _open_files.move_to_end(path)
        while len(_open_files) > MOST_FILES:
            _open_files.popitem(last=False)
        return found
