"""The text of a metrics.csv that may be growing: its header, and its whole rows from any place of the file on.

No numpy: `runs list` and live views need no more than this. `table` makes columns of numbers out of the same rows.
"""

import os
from pathlib import Path
from typing import Final

from rlclinic import plain_files

FROM_END_BYTES: Final = 65_536
"""How much of a file's end is looked at for the newest numbers."""
MOST_BYTES: Final = 4_000_000
"""Read at a time: a follower that was away for long catches up in pieces."""


def split_header(line: bytes) -> tuple[str, ...]:
    """The names of the columns, from the first line with its end; none while it is being written, or where the file is empty."""
    names = line.rstrip(b"\r\n")
    return tuple(names.decode("utf-8", errors="replace").split(",")) if names and line.endswith(b"\n") else ()


def end_rows(block: bytes) -> bytes:
    """The whole lines at the beginning of a block: half a line at its end is still being written, or was cut by a kill."""
    return block[: block.rfind(b"\n") + 1]


def split_rows(block: bytes, width: int) -> list[bytes]:
    """The rows of a block of whole lines. Lines with another number of cells are left out.

    Every line is counted by itself: two damaged ones could otherwise make up for each other, shifted.
    """
    lines = (block.replace(b"\r", b"") if b"\r" in block else block).split(b"\n")[:-1]
    return [line for line in lines if line.count(b",") == width - 1]


def read_number(cell: bytes) -> float | None:
    """The number in a cell; None if it is blank, or no number."""
    try:
        return float(cell)
    except ValueError:
        return None


def latest(path: Path, block_bytes: int = FROM_END_BYTES) -> dict[str, float]:
    """The last number written in each column, looked for in the file's end only; {} if there is none.

    A live view asks for this several times a second: the cost must not grow with the length of the run.
    """
    try:
        with plain_files.open_plain(path) as file:
            names = split_header(file.readline())
            start, size = file.tell(), os.fstat(file.fileno()).st_size
            begin = max(start, size - block_bytes)
            block = os.pread(file.fileno(), size - begin, begin)
    except FileNotFoundError:
        return {}
    if begin > start:
        block = block[block.find(b"\n") + 1 :]  # it begins somewhere inside a line
    numbers: dict[str, float] = {}
    for row in reversed(split_rows(end_rows(block), len(names)) if names else []):
        for name, cell in zip(names, row.split(b","), strict=True):
            if cell and name not in numbers and (number := read_number(cell)) is not None:
                numbers[name] = number
        if len(numbers) == len(names):
            break
    return numbers


class Follower:
    """Where a reader of a growing metrics.csv stands: only what was appended is read, and half a row is left for the next look."""

    def __init__(self, path: Path, *, offset: int | None = None) -> None:
        """From byte `offset` on (0: all rows); None: only what comes from now on."""
        self.path = path
        self.header: tuple[str, ...] = ()
        self._offset = offset if offset is not None else path.stat().st_size if path.exists() else 0

    @property
    def offset(self) -> int:
        """The byte that the next look begins at: give it to a new follower to go on."""
        return self._offset

    def rows(self) -> list[list[str]]:
        """The whole rows that were written since the last look. A file that was cut back is read on from its new end."""
        try:
            with plain_files.open_plain(self.path) as file:
                header = split_header(file.readline())
                if not header:
                    return []
                # A resume cuts the file back to its last checkpoint: what comes then replaces what was there.
                self._offset = max(min(self._offset, os.fstat(file.fileno()).st_size), file.tell())
                block = end_rows(os.pread(file.fileno(), MOST_BYTES, self._offset))
        except FileNotFoundError:
            return []
        self.header = header
        self._offset += len(block)
        return [row.decode("utf-8", errors="replace").split(",") for row in split_rows(block, len(header))]
