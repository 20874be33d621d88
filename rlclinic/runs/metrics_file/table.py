"""metrics.csv as numpy columns: all of them, or a few of a file that may be long and may still be growing.

Fast, and undisturbed by a line that is half written or damaged. `read` reads every cell, which a page with one curve of a run with
100,000 rows and 120 columns cannot wait for: `Columns` makes numbers only of the columns that were asked for, keeps what it has read,
and growth costs what has grown.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from rlclinic import plain_files
from rlclinic.errors import NotFound, nearest
from rlclinic.runs.metrics_file.rows import end_rows, read_number, split_header, split_rows

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEPS: Final = "total_timesteps"
BLOCK_BYTES: Final = 1_000_000
MOST_FILES: Final = 96
CHUNK_BYTES: Final = 500_000
"""Small enough to stay in the cache: four times that takes a third longer."""
_TAIL: Final = 64
_WINDOW: Final = 8_192
"""Wide enough for two rows."""
_COMMA, _NEWLINE = 44, 10


class Table:
    """A metrics.csv: columns by name, one row per iteration."""

    def __init__(self, names: tuple[str, ...], values: Column, blank: Mask, skipped: int = 0) -> None:
        self.names = names
        self.values = values  # [rows, columns]; NaN where there is no number
        self.blank = blank  # [rows, columns]; "not logged" is another thing than "not a number"
        self.skipped = skipped
        """Lines that could not be read: 0 in every table that training wrote and nobody edited."""
        self._index = {name: index for index, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __getitem__(self, name: str) -> Column:
        """A whole column; NaN where a row has no number. NotFound offers the nearest names."""
        return self.values[:, self._position(name)]

    def _position(self, name: str) -> int:
        if name not in self._index:
            offered = nearest(name, self.names)
            raise NotFound(f"no column {name!r} in this run" + (f"; nearest: {', '.join(offered)}" if offered else ""))
        return self._index[name]

    def logged(self, name: str) -> Mask:
        """True for the rows in which the column was written, be it as `nan`; False where it was left blank."""
        return ~self.blank[:, self._position(name)]

    def series(self, name: str, axis: str = STEPS) -> tuple[Column, Column]:
        """(env steps, values) of the rows in which the column was written. Empty if the run has no such column."""
        if name not in self or axis not in self:
            return np.empty(0), np.empty(0)
        rows = self.logged(name)
        return self[axis][rows], self[name][rows]

    def last(self, name: str) -> float | None:
        """The last number written in a column; None if there is none."""
        values = self.series(name)[1]
        return float(values[-1]) if len(values) else None


# ── the whole file ──


def read(path: Path) -> Table:
    """Read a metrics.csv. A missing or empty file is a table without rows.

    Left out: a last line without its end (still being written, or cut by a kill) and lines with another number of cells.
    A cell that is no number reads as blank.
    """
    try:
        text = plain_files.read_bytes(path)
    except FileNotFoundError:
        text = b""
    first = text.find(b"\n") + 1
    names, block = split_header(text[:first]), end_rows(text[first:])
    rows = split_rows(block, len(names)) if names else []
    # Some lines at a time: the parser lets nobody else work while it reads, and a server has others to answer.
    many = max(1, BLOCK_BYTES * len(rows) // max(1, len(text)))
    parts = [numbers(b",".join(rows[begin : begin + many])) for begin in range(0, len(rows), many)]
    shape = (len(rows), len(names))
    values = np.concatenate([values for values, _ in parts]) if parts else np.empty(0)
    blank = np.concatenate([blank for _, blank in parts]) if parts else np.empty(0, dtype=bool)
    return Table(names, values.reshape(shape), blank.reshape(shape), skipped=block.count(b"\n") - len(rows))


def numbers(cells: bytes) -> tuple[Column, Mask]:
    """The numbers between commas, and where there is none: NaN there, which is also what `nan` reads as."""
    try:
        return _fast(cells)
    except (ValueError, OverflowError):
        values = [read_number(cell) for cell in cells.split(b",")]
        return np.array(values, dtype=np.float64), np.array([value is None for value in values])


def _fast(cells: bytes) -> tuple[Column, Mask]:
    """All cells as one JSON array, whose parser is ten times as fast as float(); ValueError if one is no number."""
    # Twice: blanks side by side share their commas.
    text = (b"," + cells + b",").replace(b",,", b",null,").replace(b",,", b",null,")
    odd = b"n" in cells
    if odd:
        text = text.replace(b"nan", b"NaN").replace(b"inf", b"Infinity")
    cells_read = from_json(b"[" + text[1:-1] + b"]", cache_strings=False)
    try:
        values = np.array(cells_read, dtype=np.float64)
    except TypeError as error:  # JSON, but not a number: a word, true, an array
        raise ValueError("a cell is no number") from error
    if values.ndim != 1:
        raise ValueError("a cell is no number")
    return values, np.array([number is None for number in cells_read]) if odd else np.isnan(values)


# ── some columns, and what has grown ──


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
            with self._lock, plain_files.open_plain(self.path) as file:
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
        first = head.find(b"\n") + 1
        self.names = split_header(head[:first])
        if not self.names:
            return  # the header is still being written
        self._start = self._end = first
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
        rows = end_rows(block)
        if not rows:
            return
        yield start, rows
        start += len(rows)


def parse(rows: bytes, width: int, places: Sequence[int]) -> list[Column]:
    """The columns at these places of whole lines. Lines with another number of cells are left out, as `read` does."""
    rows = rows.replace(b"\r", b"") if b"\r" in rows else rows
    text = np.frombuffer(rows, dtype=np.uint8)
    ends = np.flatnonzero((text == _COMMA) | (text == _NEWLINE))
    if len(ends) % width or not _regular(text[ends].reshape(-1, width)):
        whole = split_rows(rows, width)
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
    return numbers(b",".join(cells))[0]


def glance(path: Path, wanted: Sequence[str], rows: int) -> dict[str, Column]:
    """The columns in about so many rows, spread evenly over a long file: a first look while the whole of it is read."""
    try:
        with plain_files.open_plain(path) as file:
            names = split_header(file.readline())
            start, end = file.tell(), os.fstat(file.fileno()).st_size
            places = np.linspace(start, end, rows + 1)[:-1].astype(int).tolist()
            # A line that begins before the window belongs to the place before; the first window begins with one.
            lines = [_line_after(file.fileno(), place, whole=place == start) for place in places]
    except FileNotFoundError:
        return {}
    known = [name for name in wanted if name in names]
    text = b"".join(dict.fromkeys(line for line in lines if line))
    return dict(zip(known, parse(text, len(names), [names.index(name) for name in known]), strict=True)) if text and known else {}


def _line_after(file: int, place: int, *, whole: bool) -> bytes:
    """The first whole line behind a place of a file; empty if there is none in the window."""
    block = os.pread(file, _WINDOW, place)
    start = 0 if whole else block.find(b"\n") + 1
    stop = block.find(b"\n", start) + 1
    return block[start:stop] if stop and (whole or start) else b""


_open_files: OrderedDict[Path, Columns] = OrderedDict()
_guard = threading.Lock()


def open_columns(path: Path) -> Columns:
    """The reader of a file, the same one for everybody who asks; those not asked for longest are let go."""
    with _guard:
        columns = _open_files.setdefault(path, Columns(path))
        _open_files.move_to_end(path)
        while len(_open_files) > MOST_FILES:
            _open_files.popitem(last=False)
        return columns
