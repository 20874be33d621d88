"""A series as rules see it: at most 256 points on env steps, gaps left as gaps, extremes kept."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Column = NDArray[np.float64]

POINTS: Final = 256


@dataclass(frozen=True, eq=False)
class Signal:
    """A series after resampling: `values` are means of bins of env steps, `low` and `high` the extremes within them."""

    steps: Column
    values: Column
    low: Column
    high: Column
    name: str = ""

    def __len__(self) -> int:
        return len(self.values)

    def between(self, start: float, end: float) -> "Signal":
        """The part from env step `start` to `end`, both included."""
        keep = (self.steps >= start) & (self.steps <= end)
        return Signal(self.steps[keep], self.values[keep], self.low[keep], self.high[keep], self.name)

    def share(self, start: float, end: float = 1.0) -> "Signal":
        """The part between two shares of its own span: share(0.8) is the last fifth. Empty only if the signal is."""
        if not len(self):
            return self
        first, span = self.steps[0], self.steps[-1] - self.steps[0]
        part = self.between(first + start * span, first + end * span)
        return part if len(part) else self.between(self.steps[-1], self.steps[-1]) if end >= 1 else self.between(first, first)

    def at(self, step: float) -> float:
        """The value at an env step, between its neighbours; NaN if the signal is empty."""
        return float(np.interp(step, self.steps, self.values)) if len(self) else math.nan

    def along(self, steps: Column) -> Column:
        """The values at many env steps, as `at` has them."""
        return np.interp(steps, self.steps, self.values) if len(self) else np.full(len(steps), math.nan)

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def first(self) -> float:
        return float(self.values[0]) if len(self) else math.nan

    @property
    def last(self) -> float:
        return float(self.values[-1]) if len(self) else math.nan

    @property
    def top(self) -> float:
        """The largest value, spikes within bins included."""
        return float(np.max(self.high)) if len(self) else math.nan

    @property
    def bottom(self) -> float:
        """The smallest value, spikes within bins included."""
        return float(np.min(self.low)) if len(self) else math.nan


def median(values: ArrayLike) -> float:
    """np.median of numbers in a row, without what it does for axes: a diagnosis asks for thousands. NaN of none, or if one is."""
    ordered = np.array(values, dtype=np.float64)
    ordered.sort()
    half = len(ordered) // 2
    if not len(ordered) or ordered[-1] != ordered[-1]:
        return math.nan
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def resample(steps: ArrayLike, values: ArrayLike, name: str = "", points: int = POINTS) -> Signal:
    """At most `points` bins of equal width in env steps; empty bins are left out, so gaps stay gaps.

    Pairs with a NaN or infinity are dropped; steps are sorted. A series that is short enough is kept as it is.
    """
    x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    good = np.isfinite(x) & np.isfinite(y)
    if not good.all():
        x, y = x[good], y[good]
    if (x[1:] < x[:-1]).any():
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    if len(x) <= points or x[-1] == x[0]:
        x, y = x[:points], y[:points]
        return Signal(x, y, y, y, name)
    place = np.minimum((points * (x - x[0]) / (x[-1] - x[0])).astype(np.int64), points - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    counts = np.diff(starts, append=len(x))
    mean_x, mean_y = np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts
    return Signal(mean_x, mean_y, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts), name)


def thin(signal: Signal, points: int) -> Signal:
    """The same signal with fewer points."""
    return signal if len(signal) <= points else resample(signal.steps, signal.values, signal.name, points)
