"""What a series did: trend, plateau, collapse, oscillation, spikes, change points, phases, and when it moved.

Everything works on a `Signal` of at most 256 points, so that a compact record and the full log of a run get the same
answer. Nothing assumes an even cadence or normal noise; a series that is too short to say anything says nothing.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rlclinic.diagnosis.signals.resampling import Column, Signal, median, resample, thin

__all__ = [
    "Signal",
    "change_point",
    "collapse",
    "first_to_move",
    "late_part",
    "mann_kendall",
    "median",
    "noise",
    "onset",
    "oscillation",
    "phases",
    "plateau",
    "resample",
    "smoothed",
    "spikes",
    "spread",
    "swings",
    "theil_sen",
    "thin",
    "trend",
]

SHORTEST: Final = 8
"""Fewer points than this have no trend worth speaking of."""
_MAD_TO_STD: Final = 1.4826
_TINY: Final = 1e-12


def noise(values: ArrayLike) -> float:
    """The deviation of point-to-point noise, untouched by a trend or a few jumps: scaled MAD of the differences."""
    y = np.asarray(values, dtype=np.float64)
    if len(y) < 3:
        return 0.0
    step = np.diff(y)
    return float(_MAD_TO_STD * median(np.abs(step - median(step))) / math.sqrt(2))


def spread(values: ArrayLike) -> float:
    """A robust range: the 95th minus the 5th percentile."""
    y = np.asarray(values, dtype=np.float64)
    if not len(y):
        return 0.0
    low, high = np.percentile(y, [5, 95])
    return float(high - low)


# ── trend ──


class Trend(NamedTuple):
    """How a series moved over its whole span."""

    slope: float
    """Theil and Sen: the median slope of all pairs, per env step."""
    rise: float
    """Slope times span."""
    tau: float
    """Kendall's rank correlation with time, -1 to 1."""
    p: float
    """Mann and Kendall's two-sided p-value, corrected for ties and for values that resemble their neighbours."""

    @property
    def rising(self) -> bool:
        return self.p < 0.01 and self.rise > 0

    @property
    def falling(self) -> bool:
        return self.p < 0.01 and self.rise < 0


FLAT: Final = Trend(0.0, 0.0, 0.0, 1.0)


def trend(signal: Signal) -> Trend:
    """Its trend; FLAT if there are too few points to have one."""
    short = thin(signal, 96)
    if len(short) < SHORTEST:
        return FLAT
    slope = theil_sen(short.steps, short.values)
    tau, p = mann_kendall(short.values)
    return Trend(slope, slope * float(short.steps[-1] - short.steps[0]), tau, p)


def late_part(signal: Signal) -> Signal:
    """Its second half; of a log so short that half of it could have no trend, the last rows that can."""
    half = signal.share(0.5)
    if len(half) >= SHORTEST or len(signal) < SHORTEST:
        return half
    return signal.between(float(signal.steps[-SHORTEST]), float(signal.steps[-1]))


def late_trend(signal: Signal) -> tuple[Signal, Trend]:
    """The late part of a series, and how it moved there.

    One that lay still for long and then took off is judged from where it did: most of its second half may be as still as its first, and
    what goes up row by row resembles itself so much that no test of a few rows calls it certain. That it left all before behind is.
    """
    late, away = late_part(signal), take_off(signal)
    whole = trend(late)
    if away is None:
        return late, whole
    slope = theil_sen(away.steps, away.values)
    rise = slope * float(away.steps[-1] - away.steps[0])
    if whole.rising and whole.rise > 0.5 * rise:
        return late, whole
    return away, Trend(slope, rise, mann_kendall(away.values)[0], 0.0)


TAKE_OFF: Final = 3.0
"""How far above the highest of its first half a series must end, in ranges of that half, to have taken off."""
MOSTLY_UP: Final = 0.5
"""Kendall's tau from which the rows of a rise go up."""


def take_off(signal: Signal) -> Signal | None:
    """The end of a series from where it left the range of its first half for good, if it ends far above and is at its top; else None.

    Of random walks, whose neighbours resemble each other as much as any can, one in several hundred is taken for that; of noise, none.
    """
    rows = len(signal)
    if rows < 2 * SHORTEST:
        return None
    level = smoothed(signal.values, 3)
    before = level[: rows // 2]
    top = float(before.max())
    range_before = max(top - float(before.min()), 4 * noise(signal.values[: rows // 2]))
    last = median(signal.values[-max(2, rows // 32) :])
    below = np.flatnonzero(level <= top)
    away = signal.between(float(signal.steps[min(below[-1] + 1, rows - 1)]), float(signal.steps[-1]))
    if last <= top + TAKE_OFF * range_before or len(away) < 3:
        return None
    at_its_top = last > top + 0.7 * (float(level.max()) - top)
    return away if at_its_top and mann_kendall(away.values)[0] > MOSTLY_UP else None


def theil_sen(x: ArrayLike, y: ArrayLike) -> float:
    """The median of the slopes between all pairs of points: 29 % of the points may be anything."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    left, right = np.triu_indices(len(a), 1)
    run, rise = a[right] - a[left], b[right] - b[left]
    slopes = rise[run > 0] / run[run > 0]
    return float(np.median(slopes)) if len(slopes) else 0.0


def mann_kendall(values: ArrayLike) -> tuple[float, float]:
    """(tau, p): does the series rise or fall more often than chance would?

    The variance grows with the first autocorrelation of the ranks after the trend is taken out (a running mean of returns
    resembles itself, and would otherwise be significant without any trend; Hamed and Rao 1998, first lag only).
    """
    y = np.asarray(values, dtype=np.float64)
    n = len(y)
    if n < 3:
        return 0.0, 1.0
    left, right = np.triu_indices(n, 1)
    score = float(np.sum(np.sign(y[right] - y[left])))
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    pairs = n * (n - 1) / 2
    if variance <= 0:
        return 0.0, 1.0
    variance *= _inflation(y)
    z = (score - math.copysign(1, score)) / math.sqrt(variance) if score else 0.0
    return score / pairs, math.erfc(abs(z) / math.sqrt(2))


def _inflation(y: Column) -> float:
    """How much larger the variance of Kendall's score is because neighbours resemble each other; 1 if they do not."""
    at = np.arange(len(y), dtype=np.float64)
    rest = y - theil_sen(at, y) * at
    ranks = np.argsort(np.argsort(rest, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    square = float(np.sum(ranks * ranks))
    first = float(np.sum(ranks[1:] * ranks[:-1])) / square if square > 0 else 0.0
    return 1.0 if first <= 2 / math.sqrt(len(y)) else min((1 + first) / (1 - min(first, 0.95)), 20.0)


# ── levels ──


class Plateau(NamedTuple):
    """The last part of a series, over which it went nowhere."""

    start: float
    """Env step at which it begins."""
    share: float
    """Its share of the whole span."""
    level: float


def plateau(signal: Signal, tolerance: float = 0.1) -> Plateau | None:
    """The longest last part whose local level stays within `tolerance` of the whole range (and the noise); None if under a fifth."""
    short = thin(signal, 64)
    if len(short) < SHORTEST:
        return None
    smooth = smoothed(short.values, max(3, len(short) // 10))
    level = median(short.values[-max(3, len(short) // 5) :])
    near = np.abs(smooth - level) <= max(tolerance * spread(short.values), 1.5 * noise(short.values), _TINY)
    away = np.flatnonzero(~near)
    first = int(away[-1]) + 1 if len(away) else 0
    span = float(short.steps[-1] - short.steps[0])
    if first >= len(short) - 2 or span <= 0:
        return None
    share = float(short.steps[-1] - short.steps[first]) / span
    return Plateau(float(short.steps[first]), share, level) if share >= 0.2 else None


class Collapse(NamedTuple):
    """A fall from the best level reached, which did not come back."""

    peak_at: float
    peak: float
    after: float
    """The level at the end."""
    lost: float
    """Share of what had been gained since the start that was lost again."""


def collapse(signal: Signal, least: float = 0.3) -> Collapse | None:
    """A lasting fall that lost at least `least` of the gain, and more than the noise; None otherwise."""
    short = thin(signal, 128)
    if len(short) < SHORTEST:
        return None
    smooth = smoothed(short.values, max(3, len(short) // 16))
    top = int(np.argmax(smooth))
    start = median(short.values[: max(2, len(short) // 10)])
    tail = short.values[max(top + 1, len(short) - max(3, len(short) // 6)) :]
    gain = float(smooth[top]) - start
    if not len(tail) or gain <= 0:
        return None
    after = median(tail)
    fall = float(smooth[top]) - after
    if fall < least * gain or fall < 3 * noise(short.values) / math.sqrt(len(tail)) or fall < 1.5 * noise(short.values):
        return None
    return Collapse(float(short.steps[top]), float(smooth[top]), after, fall / gain)


class Cliff(NamedTuple):
    """A fall from one moment to the next, whether or not it was made good later."""

    top_at: float
    """The last env step on the old level."""
    foot_at: float
    """The first one on the new level."""
    before: float
    after: float
    lost: float
    """Share of what had been gained since the start."""


def cliff(signal: Signal, least: float = 0.5, width: float = 0.05) -> Cliff | None:
    """The deepest fall within `width` of the span that lost at least `least` of the gain and stands out from the noise; None otherwise."""
    short = thin(signal, 128)
    if len(short) < SHORTEST:
        return None
    reach = max(1, round(width * len(short)))
    start = median(short.values[: max(2, len(short) // 10)])
    falls = [(float(short.values[i] - short.values[i + 1 : i + 1 + reach].min()), i) for i in range(len(short) - 1)]
    fall, top = max(falls)
    after = short.values[top + 1 : top + 1 + reach]
    foot = top + 1 + int(np.argmin(after))
    gain = float(short.values[: top + 1].max()) - start
    if gain <= 0 or fall < max(least * gain, 0.3 * spread(short.values), 6 * noise(short.values)):
        return None
    return Cliff(float(short.steps[top]), float(short.steps[foot]), float(short.values[top]), float(after.min()), fall / gain)


def smoothed(values: ArrayLike, width: int) -> Column:
    """Centred running median; at the ends the window is cut, not padded."""
    y = np.asarray(values, dtype=np.float64)
    half = width // 2
    if half < 1 or len(y) < 3:
        return y
    padded = np.concatenate([np.full(half, np.inf), y, np.full(half, np.inf)])
    # Every window as a row of one view: what sliding_window_view does, at a tenth of its price for short series.
    windows = np.sort(np.ndarray((len(y), 2 * half + 1), np.float64, padded, strides=2 * padded.strides), axis=1)
    # Padding sorts to the end of its window: the middle is that of what lies before it.
    place = np.arange(len(y))
    count = np.minimum(place + half, len(y) - 1) - np.maximum(place - half, 0) + 1
    below, above = windows[place, (count - 1) // 2], windows[place, count // 2]
    return np.where(count % 2 == 1, below, (below + above) / 2)


def swings(values: ArrayLike, least: float) -> int:
    """How often the series turned around after moving at least `least`: a rise and a fall are one turn."""
    y = np.asarray(values, dtype=np.float64)
    if not len(y):
        return 0
    turns, direction, extreme = 0, 0, float(y[0])
    low = high = float(y[0])
    for value in map(float, y):
        if direction == 0:
            low, high = min(low, value), max(high, value)
            if high - low >= least:
                direction = 1 if value == high else -1
                extreme = value
        elif (value - extreme) * direction > 0:
            extreme = value
        elif (extreme - value) * direction >= least:
            turns, direction, extreme = turns + 1, -direction, value
    return turns


def oscillation(signal: Signal) -> float:
    """Turns of at least a third of the robust range, per ten points: 0 for a curve that settles, above 1 for a saw."""
    short = thin(signal, 64)
    size = spread(short.values)
    if len(short) < SHORTEST or size <= max(2 * noise(short.values), _TINY):
        return 0.0
    return 10.0 * swings(short.values, size / 3) / len(short)


class Spike(NamedTuple):
    """A value far out of its neighbourhood."""

    step: float
    value: float
    times: float
    """How many deviations of the neighbourhood it lies away from the neighbourhood's median."""


def spikes(signal: Signal, least: float = 8.0, width: int = 21) -> list[Spike]:
    """Points (or extremes within bins) that stand out from the running median by `least` robust deviations of the rest."""
    if len(signal) < SHORTEST:
        return []
    centre = smoothed(signal.values, min(width, len(signal) // 2 * 2 - 1))
    above, below = signal.high - centre, centre - signal.low
    away, value = np.maximum(above, below), np.where(above >= below, signal.high, signal.low)
    # Extremes of a bin are compared with those of other bins: the more rows a bin has, the farther out they lie anyway.
    scale = max(_MAD_TO_STD * median(away), 1e-3 * median(np.abs(centre)), _TINY)
    return [Spike(float(signal.steps[i]), float(value[i]), float(away[i] / scale)) for i in np.flatnonzero(away > least * scale)]


# ── change ──


class Change(NamedTuple):
    """The most likely single change of level."""

    step: float
    """The first env step of the new level."""
    before: float
    after: float
    p: float
    """Pettitt's approximate p-value."""


def change_point(signal: Signal) -> Change | None:
    """Where the level changed, by ranks (Pettitt 1979): no outlier and no skew can fake it. None if p is above 0.01."""
    n = len(signal)
    if n < SHORTEST:
        return None
    ranks = _mid_ranks(signal.values)
    statistic = 2 * np.cumsum(ranks) - np.arange(1, n + 1) * (n + 1)
    place = int(np.argmax(np.abs(statistic[:-1])))
    size = abs(float(statistic[place]))
    p = min(1.0, 2 * math.exp(-6 * size * size / (n**3 + n**2)))
    if p > 0.01:
        return None
    before, after = signal.values[: place + 1], signal.values[place + 1 :]
    return Change(float(signal.steps[place + 1]), median(before), median(after), p)


def _mid_ranks(values: Column) -> Column:
    """Ranks from 1, ties sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


class Phase(NamedTuple):
    """A stretch of a run on one level."""

    start: float
    end: float
    level: float


def phases(signal: Signal, most: int = 5) -> list[Phase]:
    """The series cut at its change points, the clearest first, into at most `most` stretches of one level each."""
    parts = [thin(signal, 128)] if len(signal) else []
    while parts and len(parts) < most:
        changes = [(change.p, place, change) for place, part in enumerate(parts) if (change := change_point(part)) is not None]
        if not changes:
            break
        _, place, change = min(changes, key=lambda entry: entry[:2])
        part = parts[place]
        parts[place : place + 1] = [part.between(-math.inf, np.nextafter(change.step, -math.inf)), part.between(change.step, math.inf)]
    return [Phase(float(part.steps[0]), float(part.steps[-1]), part.median) for part in parts]


def onset(signal: Signal, early: float = 0.15, least: float = 4.0) -> float | None:
    """The env step at which a series left the band of its first part for good (until the end, or for a quarter of the run).

    None if it never did. The band is the median of the first `early` share, plus and minus `least` noise deviations and at
    least a tenth of the whole range, so that a drifting series does not count as moved at once.
    """
    short = thin(signal, 128)
    if len(short) < SHORTEST:
        return None
    head = short.share(0.0, early).values if len(short.share(0.0, early)) >= 3 else short.values[:3]
    centre = median(head)
    width = max(least * noise(short.values), 0.1 * spread(short.values), _TINY)
    outside = np.abs(smoothed(short.values, 3) - centre) > width
    lasting = max(2, len(short) // 4)
    for start in np.flatnonzero(outside & ~np.concatenate([[False], outside[:-1]])):
        stretch = outside[start : start + lasting]
        if np.mean(stretch) >= 0.9 and len(stretch) >= 2:
            return float(short.steps[start])
    return None


def first_to_move(signals: Iterable[Signal]) -> list[tuple[float, str]]:
    """(env step, name) of every series that moved, the earliest first."""
    moved = [(step, signal.name) for signal in signals if (step := onset(signal)) is not None]
    return sorted(moved)
