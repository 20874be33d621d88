"""New rows of a metrics.csv while it grows: only what was appended is read, and half a row is left for the next look."""

import os
from pathlib import Path
from typing import Final

from rlclinic.runs.record import METRICS

MOST_BYTES: Final = 4_000_000
"""Read at a time: a reader that was away for long catches up in pieces."""


class Follower:
    """Where a reader of one run's metrics.csv stands."""

    def __init__(self, folder: Path, *, offset: int | None = None) -> None:
        """From byte `offset` on (0: all rows); None: only what comes from now on."""
        self.path = folder / METRICS
        self.header: list[str] = []
        self._offset = offset if offset is not None else self._end()

    @property
    def offset(self) -> int:
        """The byte that the next look begins at: give it to a new follower to go on."""
        return self._offset

    def rows(self) -> list[list[str]]:
        """The whole rows that were written since the last look. A file that was cut back is read on from its new end."""
        try:
            with self.path.open("rb") as file:
                start = self._read_header(file.readline())
                size = file.seek(0, os.SEEK_END)
                if not start:
                    return []
                if size < self._offset:
                    # A resume cut the file back to its last checkpoint: what comes now replaces what was there.
                    self._offset = size
                self._offset = max(self._offset, start)
                file.seek(self._offset)
                block = file.read(MOST_BYTES)
        except FileNotFoundError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = [line.split(",") for line in whole.decode("utf-8", errors="replace").splitlines()]
        return [line for line in lines if len(line) == len(self.header)]

    def _read_header(self, line: bytes) -> int:
        if not line.endswith(b"\n"):
            return 0
        self.header = line.decode("utf-8", errors="replace").rstrip("\r\n").split(",")
        return len(line)

    def _end(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0
