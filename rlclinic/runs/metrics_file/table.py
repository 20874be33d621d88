"""metrics.csv as numpy columns: fast, and undisturbed by a line that is half written or damaged."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from rlclinic.errors import NotFound, nearest

Column = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEPS: Final = "total_timesteps"
BLOCK_BYTES: Final = 1_000_000


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


def read(path: Path) -> Table:
    """Read a metrics.csv. A missing or empty file is a table without rows.

    Left out: a last line without its end (still being written, or cut by a kill) and lines with another number of cells.
    A cell that is no number reads as blank.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        text = b""
    header, *lines = text[: text.rfind(b"\n") + 1].replace(b"\r", b"").split(b"\n")[:-1] or [b""]
    names = tuple(header.decode("utf-8", errors="replace").split(",")) if header else ()
    width = len(names)
    # Every line is counted by itself: two damaged ones could otherwise make up for each other, shifted.
    whole = [line for line in lines if line.count(b",") == width - 1] if width else []
    values, blank = _in_blocks(whole, max(1, BLOCK_BYTES * len(whole) // len(text))) if whole else (np.empty(0), np.empty(0, dtype=bool))
    shape = (len(whole), width)
    return Table(names, values.reshape(shape), blank.reshape(shape), skipped=len(lines) - len(whole))


def _in_blocks(lines: list[bytes], rows: int) -> tuple[Column, Mask]:
    """All cells, some lines at a time: the parser lets nobody else work while it reads, and a server has others to answer."""
    parts = [numbers(b",".join(lines[begin : begin + rows])) for begin in range(0, len(lines), rows)]
    return np.concatenate([values for values, _ in parts]), np.concatenate([blank for _, blank in parts])


def numbers(cells: bytes) -> tuple[Column, Mask]:
    """The numbers between commas, and where there is none: NaN there, which is also what `nan` reads as."""
    try:
        return _fast(cells)
    except (ValueError, OverflowError):
        return _tolerant(cells.split(b","))


def _fast(cells: bytes) -> tuple[Column, Mask]:
    """All cells as one JSON array, whose parser is ten times as fast as float(); ValueError if one is no number."""
    # Twice: blanks side by side share their commas.
    text = (b"," + cells + b",").replace(b",,", b",null,").replace(b",,", b",null,")
    odd = b"n" in cells
    if odd:
        text = text.replace(b"nan", b"NaN").replace(b"inf", b"Infinity")
    found = from_json(b"[" + text[1:-1] + b"]", cache_strings=False)
    try:
        values = np.array(found, dtype=np.float64)
    except TypeError as error:  # JSON, but not a number: a word, true, an array
        raise ValueError("a cell is no number") from error
    if values.ndim != 1:
        raise ValueError("a cell is no number")
    return values, np.array([number is None for number in found]) if odd else np.isnan(values)


def _tolerant(cells: list[bytes]) -> tuple[Column, Mask]:
    numbers = [_number(cell) for cell in cells]
    return np.array(numbers, dtype=np.float64), np.array([number is None for number in numbers])


def _number(cell: bytes) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
