"""Numbers of a log while it is being read: thinned as they grow, so that memory follows neither rows nor columns.

A tag keeps at most 2 x LIMIT points. When there are more, every second one goes and from then on only every second (fourth,
eighth, ...) is kept: single values as they were logged, never averages, and rare tags are not thinned by frequent ones.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]

LIMIT: Final = 16_384
WINDOW: Final = 100
"""Episodes in a running mean, as in the metric dictionary."""
SHARE: Final = 10
FEWEST: Final = 20
"""A run of few episodes would be judged by its beginning if a mean went back over 100 of them: it takes the last tenth, 20 at least."""
_BLOCK: Final = 4_096


class Points:
    """One tag: (order, step, value) of what was logged. `order` is the place in the log, over all tags."""

    def __init__(self) -> None:
        self.seen = 0
        self.stride = 1
        self._chunks: list[Column] = []
        self._kept = 0

    def add(self, order: Column, steps: Column, values: Column) -> None:
        """More points, in the order of the log."""
        first = -self.seen % self.stride
        self.seen += len(values)
        chosen = np.stack([order[first :: self.stride], steps[first :: self.stride], values[first :: self.stride]])
        self._chunks.append(chosen)
        self._kept += chosen.shape[1]
        if self._kept > 2 * LIMIT:
            while self._kept > 2 * LIMIT:
                self._chunks = [np.concatenate(self._chunks, axis=1)[:, ::2]]
                self._kept = self._chunks[0].shape[1]
                self.stride *= 2

    def scale_steps(self, factor: float) -> None:
        """Put what was kept on another axis."""
        for chunk in self._chunks:
            chunk[1] *= factor

    @property
    def columns(self) -> tuple[Column, Column, Column]:
        """(order, steps, values) of what was kept."""
        if not self._chunks:
            return np.empty(0), np.empty(0), np.empty(0)
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks, axis=1)]
        order, steps, values = self._chunks[0]
        return order, steps, values


@dataclass
class Episodes:
    """Returns (or lengths) of single episodes, made into what a row would say about the last of them: 100 where there are 1,000."""

    mean: Points = field(default_factory=Points)
    std: Points = field(default_factory=Points)
    best: Points = field(default_factory=Points)
    count: Points = field(default_factory=Points)
    _window: Column = field(default_factory=lambda: np.full(WINDOW - 1, np.nan))
    _top: float = -np.inf

    def add(self, order: Column, steps: Column, values: Column) -> None:
        """More episodes, in the order of the log; values must be finite."""
        for begin in range(0, len(values), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            self._add(order[part], steps[part], values[part])

    def _add(self, order: Column, steps: Column, values: Column) -> None:
        known = np.concatenate([self._window, values])
        best = np.maximum.accumulate(np.concatenate([[self._top], values]))[1:]
        first = self.count.seen + 1
        width = np.clip(np.arange(first, first + len(values)) // SHARE, FEWEST, WINDOW)
        recent = np.arange(WINDOW) >= WINDOW - width[:, None]
        windows = np.where(recent, np.lib.stride_tricks.sliding_window_view(known, WINDOW), np.nan)
        with np.errstate(all="ignore"):
            self.mean.add(order, steps, np.nanmean(windows, axis=1))
            self.std.add(order, steps, np.nanstd(windows, axis=1))
        self.best.add(order, steps, best)
        self.count.add(order, steps, np.arange(first, first + len(values), dtype=np.float64))
        self._window, self._top = known[-(WINDOW - 1) :], float(best[-1])


@dataclass(frozen=True)
class Restart:
    """A place in the log where its step count went back."""

    before: float
    """Order of the last point before it."""
    after: float
    """Order of the first point after it."""
    last: float
    """Step of the last point before it."""
    first: float
    """Step of the first point after it."""
    anew: bool
    """The count began again from its beginning; otherwise the run went on from an earlier checkpoint."""


def find_restarts(order: Column, steps: Column) -> list[Restart]:
    """Where the step count of a log goes back, told from the jitter of logs that several processes write."""
    gaps = np.diff(steps)
    backward, forward = -gaps[gaps < 0], gaps[gaps > 0]
    if not len(backward):
        return []
    usual = float(np.median(forward)) if len(forward) else 0.0
    # Restarts are rare. Where many steps go back, what is usual among them is jitter.
    jitter = 5 * float(np.median(backward)) if len(backward) > 3 + 0.05 * len(gaps) else 0.0
    beginning = max(1.5 * float(steps[0]), usual, jitter)
    reached = np.maximum.accumulate(steps)
    found: list[Restart] = []
    for place in np.flatnonzero(gaps < 0):
        last, first = float(reached[place]) if jitter else float(steps[place]), float(steps[place + 1])
        anew = first <= beginning < last
        if last - first > jitter and (anew or last - first > 3 * usual):
            found.append(Restart(float(order[place]), float(order[place + 1]), last, first, anew))
            reached[place + 1 :] = np.maximum.accumulate(steps[place + 1 :])
    return found


@dataclass(frozen=True)
class Axis:
    """One axis of env steps over all segments of a log."""

    restarts: tuple[Restart, ...] = ()

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Env steps at which a segment begins."""
        return tuple(boundary for _, boundary in self._places())

    def aligned(self, main: "Axis") -> "Axis":
        """This axis with the lengths of another log's segments, where that was restarted as often: both are of one run."""
        if [restart.anew for restart in self.restarts] != [restart.anew for restart in main.restarts]:
            return self
        return Axis(tuple(replace(mine, last=max(mine.last, other.last)) for mine, other in zip(self.restarts, main.restarts, strict=True)))

    def _places(self) -> list[tuple[float, float]]:
        """(offset of the segment, env step at which it begins) after each restart."""
        offset, places = 0.0, []
        for restart in self.restarts:
            boundary = offset + (restart.last if restart.anew else restart.first)
            offset += restart.last if restart.anew else 0.0
            places.append((offset, boundary))
        return places

    def place(self, order: Column, steps: Column, values: Column) -> tuple[Column, Column]:
        """Points as (env steps, values): counted on where the count began anew; what a resume computed again is replaced."""
        if not self.restarts:
            return steps, values
        segment = np.zeros(len(steps), dtype=np.int64)
        for restart in self.restarts:
            between = (order > restart.before) & (order < restart.after) & (steps < restart.last)
            segment += (order >= restart.after) | between
        places = self._places()
        offsets = np.array([0.0, *(offset for offset, _ in places)])
        shifted = steps + offsets[segment]
        keep = np.ones(len(steps), dtype=bool)
        for index, (restart, (_, boundary)) in enumerate(zip(self.restarts, places, strict=True)):
            if not restart.anew:
                keep &= (segment > index) | (shifted < boundary)
        return shifted[keep], values[keep]
