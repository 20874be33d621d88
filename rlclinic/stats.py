"""Statistics of a few seeds (numpy only). Every interval is a seeded bootstrap: the same numbers in, the same bytes out.

Seeds are few and returns are skewed, so the middle is an interquartile mean and spread is resampled, not assumed
(Agarwal et al. 2021, arXiv:2108.13264).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlclinic.errors import UsageError

RESAMPLES: Final = 10_000
LEVEL: Final = 0.95

Numbers = NDArray[np.float64]


class Estimate(NamedTuple):
    """A number with its interval; low and high are None where one value leaves nothing to resample."""

    value: float
    low: float | None
    high: float | None


def iqm(values: ArrayLike, axis: int = -1) -> Any:
    """Interquartile mean: the mean of what is left after dropping a quarter (rounded down) at each end.

    With fewer than four values nothing is dropped. A float for a list of numbers, an array for an axis of one.
    """
    ordered = np.sort(_floats(values), axis=axis)
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
    sample = _floats(values)
    if sample.ndim != 1 or len(sample) < 2:
        raise UsageError(f"an interval needs two values or more; here is {sample.size}.\n  Train more seeds: --seeds 8")
    return _percentiles(statistic(sample[_draws(len(sample), resamples, seed)], axis=-1), level)


def bootstrap_band(curves: ArrayLike, *, level: float = LEVEL, resamples: int = 1_000, seed: int = 0) -> tuple[Numbers, Numbers]:
    """Pointwise interval of the IQM of curves [seeds, points]. Whole seeds are drawn, so a band moves as its seeds do."""
    table = _floats(curves)
    draws = _draws(len(table), resamples, seed)
    tail = 50.0 * (1.0 - level)
    # One point at a time: [resamples, seeds, points] at once would not fit for long curves of many seeds.
    bounds = np.array([np.percentile(iqm(point[draws], axis=-1), [tail, 100.0 - tail]) for point in table.T])
    return bounds[:, 0], bounds[:, 1]


def estimate(values: Sequence[float]) -> Estimate:
    """IQM with its 95 % bootstrap interval; without one if there is only one value."""
    if len(values) < 2:
        return Estimate(iqm(values), None, None)
    return Estimate(iqm(values), *bootstrap_interval(values))


def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> float:
    """P(a run of A beats a run of B), a tie counting half: Mann and Whitney's U over the number of pairs."""
    above = np.subtract.outer(_floats(a), _floats(b))
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def restricted_mean(times: Sequence[float | None], horizon: float) -> float:
    """Mean steps to the threshold within a horizon: a run that did not get there (None) counts the whole horizon.

    That is the area under the curve of runs still below the threshold, which censored runs leave well defined; a mean
    over the runs that made it would reward a method for failing its hard seeds.
    """
    return float(np.mean(_restricted(times, horizon)))


def restricted_mean_ratio(
    a: Sequence[float | None],
    b: Sequence[float | None],
    horizon: float,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A's restricted mean over B's: below 1, A needs fewer steps. Both sides are resampled, independently."""
    ours, theirs = _restricted(a, horizon), _restricted(b, horizon)
    ratio = float(np.mean(ours) / np.mean(theirs))
    if min(len(ours), len(theirs)) < 2:
        return Estimate(ratio, None, None)
    resampled = [side[_draws(len(side), resamples, seed + offset)].mean(axis=-1) for offset, side in enumerate((ours, theirs))]
    return Estimate(ratio, *_percentiles(resampled[0] / resampled[1], level))


def _restricted(times: Sequence[float | None], horizon: float) -> Numbers:
    if len(times) == 0 or not horizon > 0:
        raise UsageError(f"restricted mean of {len(times)} runs within {horizon} steps: both must be more than 0")
    steps = np.array([np.nan if time is None else time for time in times], dtype=np.float64)
    return np.fmin(steps, horizon)  # fmin: NaN gives way to the horizon


def _draws(count: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """Rows to draw, with replacement: [resamples, count]."""
    return np.random.default_rng(seed).integers(count, size=(resamples, count))


def _percentiles(resampled: Numbers, level: float) -> tuple[float, float]:
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(resampled, [tail, 100.0 - tail])
    return float(low), float(high)


def _floats(values: ArrayLike) -> Numbers:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise UsageError("no values: there is nothing to summarize")
    return array
