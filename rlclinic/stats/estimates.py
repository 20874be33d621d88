"""Middles and their intervals: IQM, bootstrap, probability of improvement."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlclinic.errors import UsageError
from rlclinic.stats.distributions import Numbers, incomplete_beta, normal_quantile

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95


class Estimate(NamedTuple):
    """A number with its interval; low and high are None where one value leaves nothing to resample."""

    value: float
    low: float | None
    high: float | None


def iqm(values: ArrayLike, axis: int = -1) -> Any:
    """Interquartile mean: the mean of what is left after dropping a quarter (rounded down) at each end.

    With fewer than four values nothing is dropped. A float for a list of numbers, an array for an axis of one.
    """
    ordered = np.sort(floats(values), axis=axis)
    count = ordered.shape[axis]
    drop = count // 4
    result = np.mean(np.take(ordered, np.arange(drop, count - drop), axis=axis), axis=axis)
    return float(result) if np.ndim(result) == 0 else result


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[..., Any] = iqm,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic over independent values (seeds). `statistic` must take axis=-1.

    Needs two values or more: one value says nothing about the next.
    """
    sample = floats(values)
    if sample.ndim != 1 or len(sample) < 2:
        raise UsageError(f"an interval needs two values or more; here is {sample.size}.\n  Train more seeds: --seeds 8")
    return percentiles(statistic(sample[draws(len(sample), resamples, seed)], axis=-1), level)


def bootstrap_band(curves: ArrayLike, *, level: float = LEVEL, resamples: int = 1_000, seed: int = 0) -> tuple[Numbers, Numbers]:
    """Pointwise interval of the IQM of curves [seeds, points]. Whole seeds are drawn, so a band moves as its seeds do."""
    table = floats(curves)
    drawn = draws(len(table), resamples, seed)
    tail = 50.0 * (1.0 - level)
    # One point at a time: [resamples, seeds, points] at once would not fit for long curves of many seeds.
    bounds = np.array([np.percentile(iqm(point[drawn], axis=-1), [tail, 100.0 - tail]) for point in table.T])
    return bounds[:, 0], bounds[:, 1]


def bootstrap_difference(
    a: ArrayLike,
    b: ArrayLike,
    statistic: Callable[..., Any] = iqm,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A's statistic minus B's, with a stratified bootstrap interval: each side draws among its own seeds only."""
    sides = [floats(a), floats(b)]
    centre = [float(statistic(side, axis=-1)) for side in sides]
    value = centre[0] - centre[1]
    if min(map(len, sides)) < 2:
        return Estimate(value, None, None)
    drawn = [statistic(side[draws(len(side), resamples, seed + place)], axis=-1) for place, side in enumerate(sides)]
    return Estimate(value, *percentiles(drawn[0] - drawn[1], level))


def estimate(values: Sequence[float]) -> Estimate:
    """IQM with its 95 % bootstrap interval; without one if there is only one value."""
    if len(values) < 2:
        return Estimate(iqm(values), None, None)
    return Estimate(iqm(values), *bootstrap_interval(values))


def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> float:
    """P(a run of A beats a run of B), a tie counting half: Mann and Whitney's U over the number of pairs."""
    above = np.subtract.outer(floats(a), floats(b))
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def improvement(a: ArrayLike, b: ArrayLike, *, level: float = LEVEL) -> Estimate:
    """P(a run of A beats a run of B) with a score interval (Newcombe 2006, Statistics in Medicine 25, method 5).

    A bootstrap would call eight seeds that all win "certain", [1, 1]; the score interval says [0.76, 1].
    """
    ours, theirs = ranked(a), ranked(b)
    found = probability_of_improvement(ours, theirs)
    if min(len(ours), len(theirs)) < 2:
        return Estimate(found, None, None)
    wide = normal_quantile(0.5 + level / 2)
    return Estimate(found, _score_limit(found, 0.0, len(ours), len(theirs), wide), _score_limit(found, 1.0, len(ours), len(theirs), wide))


def _score_limit(found: float, towards: float, m: int, n: int, wide: float) -> float:
    """The probability furthest towards 0 or 1 that would still give `found` within `wide` of its own standard errors."""
    near, far = found, towards
    for _ in range(60):
        middle = (near + far) / 2
        shape = 1 + ((m + n) / 2 - 1) * ((1 - middle) / (2 - middle) + middle / (1 + middle))
        error = math.sqrt(middle * (1 - middle) / (m * n) * shape)
        near, far = (middle, far) if abs(middle - found) < wide * error else (near, middle)
    return (near + far) / 2


def share_interval(hits: int, of: int, *, level: float = LEVEL) -> Estimate:
    """A share of seeds with Wilson's score interval, which holds for few seeds and for 0 and all of them."""
    if not 0 <= hits <= of or of == 0:
        raise UsageError(f"{hits} of {of} is no share: it takes one seed or more")
    wide = normal_quantile(0.5 + level / 2)
    share = hits / of
    centre = (share + wide**2 / (2 * of)) / (1 + wide**2 / of)
    half = wide * math.sqrt(share * (1 - share) / of + wide**2 / (4 * of**2)) / (1 + wide**2 / of)
    return Estimate(share, 0.0 if hits == 0 else centre - half, 1.0 if hits == of else centre + half)


def share_upper_bound(hits: int, of: int, *, level: float = LEVEL) -> float:
    """The largest share that so few hits do not exclude: Clopper and Pearson's one-sided bound, exact for any number of seeds."""
    if not 0 <= hits <= of or of == 0:
        raise UsageError(f"{hits} of {of} is no share: it takes one seed or more")
    low, high = hits / of, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        # P(at most `hits` of `of`) at this share.
        likely = 1.0 - incomplete_beta(hits + 1, of - hits, middle) if hits < of else 1.0
        low, high = (middle, high) if likely > 1 - level else (low, middle)
    return high


def share_difference(a: tuple[int, int], b: tuple[int, int], *, level: float = LEVEL) -> Estimate:
    """A's share minus B's, each as (hits, of), with Newcombe's interval from the two Wilson intervals (1998, method 10)."""
    ours, theirs = share_interval(*a, level=level), share_interval(*b, level=level)
    difference = ours.value - theirs.value
    low = math.hypot(ours.value - _known(ours.low), _known(theirs.high) - theirs.value)
    high = math.hypot(_known(ours.high) - ours.value, theirs.value - _known(theirs.low))
    return Estimate(difference, difference - low, difference + high)


def _known(value: float | None) -> float:
    return float(value if value is not None else "nan")


def draws(count: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """Rows to draw, with replacement: [resamples, count]."""
    return np.random.default_rng(seed).integers(count, size=(resamples, count))


def percentiles(resampled: Numbers, level: float) -> tuple[float, float]:
    """The middle `level` of resampled numbers."""
    tail = 50.0 * (1.0 - level)
    # A ratio to nothing is infinite, and between two infinities there is no line to interpolate on.
    low, high = np.percentile(resampled, [tail, 100.0 - tail], method="linear" if np.isfinite(resampled).all() else "nearest")
    return float(low), float(high)


def ranked(values: ArrayLike) -> Numbers:
    """Values that have an order, infinite ones included; UsageError for NaN, which every comparison would count as a loss."""
    array = floats(values)
    if np.isnan(array).any():
        raise UsageError("a value is not a number (NaN): it has no place in an order.\n  Leave it out, or say what it counts as")
    return array


def finite(values: ArrayLike) -> Numbers:
    """Values that have a mean; UsageError for NaN and infinity."""
    array = ranked(values)
    if np.isinf(array).any():
        raise UsageError("a value is infinite: there is no mean to test.\n  Say what it counts as")
    return array


def floats(values: ArrayLike) -> Numbers:
    """Values as an array; UsageError if there is none."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise UsageError("no values: there is nothing to summarize")
    return array
