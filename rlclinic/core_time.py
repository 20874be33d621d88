"""Time in which a core was to be had: on a busy machine a process waits for one, and that is nobody's fault but the machine's.

Linux says how long a thread was ready to run and did not (`schedstat`). Elsewhere nothing is known, and the wall clock is what there is.
"""

import time
from pathlib import Path
from typing import Final

READ_EVERY: Final = 0.02
"""Seconds between looks at the file."""


def waited(task: int | None = None) -> float:
    """Seconds for which a thread (None: this one; a process's id is that of its first) has waited for a core; 0 where nobody knows."""
    try:
        text = Path("/proc/thread-self/schedstat" if task is None else f"/proc/{task}/schedstat").read_text(encoding="ascii")
        return int(text.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class Stopwatch:
    """Seconds since it was made, without those in which this thread waited for a core; of them `most` at most are left out."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._began = self._read_at = time.perf_counter()
        self._before, self._waited = waited(), 0.0

    @property
    def seconds(self) -> float:
        now = time.perf_counter()
        if now - self._read_at >= READ_EVERY:
            self._read_at, self._waited = now, min(self._most, max(self._waited, waited() - self._before))
        return now - self._began - self._waited
