"""Steps to the threshold as censored data: a run that never got there says "more than this", and is not dropped.

A time of None is a run that did not get there within the horizon. Where runs were followed for different numbers of steps,
`Times` says how far each was followed, and Kaplan and Meier's curve uses each for as long as it was seen.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic.errors import UsageError
from rlclinic.stats.distributions import Numbers, normal_tail
from rlclinic.stats.estimates import LEVEL, RESAMPLES, Estimate, draws, estimate_difference, median_interval, percentiles
from rlclinic.stats.significance import MANY_SEEDS, TestResult, compare_means, permuted_p, splits


class Times(NamedTuple):
    """When each run reached the threshold, or how far it was followed without."""

    steps: Numbers
    """Of the event, or of the last look."""
    reached: NDArray[np.bool_]

    @classmethod
    def of(cls, times: Sequence[float | None], followed: Sequence[float] | float) -> "Times":
        """From times of which None means censored at `followed` (one number for all, or each run's own)."""
        ends = np.broadcast_to(np.asarray(followed, dtype=np.float64), (len(times),))
        reached = np.array([time is not None for time in times], dtype=bool)
        steps = np.array([end if time is None else float(time) for time, end in zip(times, ends, strict=True)], dtype=np.float64)
        if len(steps) == 0 or not np.all(np.isfinite(steps)) or np.any(steps < 0):
            raise UsageError(f"times to a threshold of {len(steps)} runs: each needs a finite number of steps, 0 or more")
        return cls(steps, reached)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def horizon(self) -> float:
        """How far the curve is known: to the last look at a run, or for ever once all have reached the threshold."""
        last = self.steps == self.steps.max()
        return float("inf") if np.all(self.reached[last]) else float(self.steps.max())


class Survival(NamedTuple):
    """Kaplan and Meier's curve: the share of runs still below the threshold after `steps`, constant until the next."""

    steps: Numbers
    below: Numbers


def shared_horizon(*groups: Times) -> float:
    """The step up to which the curves of all groups are known; the last event where they are known for ever."""
    known = min(group.horizon for group in groups)
    return known if np.isfinite(known) else max(float(group.steps.max()) for group in groups)


def kaplan_meier(times: Times) -> Survival:
    """The share of runs that have not reached the threshold, from 1 at step 0."""
    events = np.unique(times.steps[times.reached])
    return Survival(np.concatenate([[0.0], events]), np.concatenate([[1.0], _below(times, events, np.ones((1, len(times))))[0]]))


def median_time(times: Times) -> float | None:
    """The step at which half of the runs have reached the threshold; None if fewer did."""
    curve = kaplan_meier(times)
    passed = np.flatnonzero(curve.below <= 0.5)
    return float(curve.steps[passed[0]]) if len(passed) else None


def restricted_times(times: Times, horizon: float) -> float:
    """Mean steps to the threshold within a horizon: the area under Kaplan and Meier's curve."""
    return float(_areas(times, horizon, np.ones((1, len(times))))[0])


def compare_times(a: Times, b: Times, horizon: float) -> TestResult | None:
    """Whether two groups need as many steps within a horizon, two-sided; the statistic is positive where A needs fewer.

    Where each run was followed to the threshold or to the horizon, the means of log steps are compared (`compare_means`): a run that never
    got there counts the horizon, and the ratio of geometric means is what was tested. That test keeps its error where medians are equal
    and spreads are not (5 % to 7 %; log-rank 10 % to 19 %), and costs no power beside it. Where a run was followed for less, the log-rank
    test is taken, which needs no end. None where a side has one seed.
    """
    if min(len(a), len(b)) < 2:
        return None
    if not (_followed(a, horizon) and _followed(b, horizon)):
        return log_rank(a, b)
    test = compare_means(_log_steps(b, horizon), _log_steps(a, horizon))
    return None if test is None else test._replace(method=f"{test.method}, of log steps")


def geometric_ratio(a: Times, b: Times, horizon: float) -> float:
    """A's geometric mean of steps over B's, never counting as the horizon; of restricted means where a run was followed for less."""
    if _followed(a, horizon) and _followed(b, horizon):
        return float(np.exp(_log_steps(a, horizon).mean() - _log_steps(b, horizon).mean()))
    ours, theirs = restricted_times(a, horizon), restricted_times(b, horizon)
    return ours / theirs if theirs > 0 else 1.0 if ours == 0 else math.inf


def middle_ratio(a: Times, b: Times, horizon: float, *, level: float = LEVEL) -> Estimate | None:
    """A's interquartile geometric mean of steps over B's with its interval; None where a run was followed for less than the horizon."""
    if not (_followed(a, horizon) and _followed(b, horizon)):
        return None
    logs = estimate_difference(_log_steps(a, horizon), _log_steps(b, horizon), level=level)
    low, high = (None if end is None else math.exp(end) for end in logs[1:])
    return Estimate(math.exp(logs.value), low, high)


def median_time_interval(times: Times) -> tuple[float, float | None] | None:
    """An interval of the median steps; its end is None where it lies beyond what was followed. None below five runs.

    A run that was followed for less counts as arriving at once for the lower end and as never arriving for the upper one.
    """
    ends = [median_interval(np.where(times.reached, times.steps, never)) for never in (times.steps, np.inf)]
    if ends[0] is None or ends[1] is None:
        return None
    return ends[0][0], None if math.isinf(ends[1][1]) else ends[1][1]


def _followed(times: Times, horizon: float) -> bool:
    """Whether each run was followed to the threshold or to the horizon."""
    return bool(np.all(times.reached | (times.steps >= horizon)))


def _log_steps(times: Times, horizon: float) -> Numbers:
    # A run that starts above the threshold needs 0 steps, which have no logarithm: it counts a ten-thousandth of the horizon.
    return np.log(np.clip(times.steps, 1e-4 * horizon, horizon))


def log_rank(a: Times, b: Times) -> TestResult:
    """Whether two groups reach the threshold at the same rate: the log-rank test, two-sided.

    The statistic is positive where A gets there earlier. With few runs, p comes from all ways to deal the runs out, which
    holds for any number of seeds; with many, from the normal distribution. All censored: p = 1, there is nothing to tell apart.
    """
    pooled = Times(np.concatenate([a.steps, b.steps]), np.concatenate([a.reached, b.reached]))
    first = np.zeros((1, len(pooled)), dtype=np.float64)
    first[0, : len(a)] = 1.0
    score = float(_log_rank_scores(pooled, first)[0])
    if min(len(a), len(b)) >= MANY_SEEDS:
        return TestResult(score, 2 * normal_tail(abs(score)), "log-rank test, normal approximation")
    dealt, exact = splits(len(a), len(b))
    scores = _log_rank_scores(pooled, dealt)
    return TestResult(score, permuted_p(np.abs(scores), abs(score), exact), "log-rank test, permutation")


def _log_rank_scores(pooled: Times, first: Numbers) -> Numbers:
    """Standardized observed minus expected events of the first group, for each way to deal the runs out [ways, runs]."""
    events = np.unique(pooled.steps[pooled.reached])
    at_risk = (pooled.steps[:, None] >= events).astype(np.float64)  # [runs, events]
    hit = ((pooled.steps[:, None] == events) & pooled.reached[:, None]).astype(np.float64)
    n, d = at_risk.sum(axis=0), hit.sum(axis=0)
    ours = first @ at_risk
    excess = (first @ hit - ours * d / n).sum(axis=1)
    # The hypergeometric variance; where one run is left, its time is certain.
    spread = (ours * (n - ours) * d * (n - d) / (n**2 * np.maximum(n - 1, 1))).sum(axis=1)
    score: Numbers = np.divide(excess, np.sqrt(spread), out=np.zeros_like(excess), where=spread > 1e-12)
    return score


def _below(times: Times, events: Numbers, weights: Numbers) -> Numbers:
    """Share still below the threshold after each event, for rows of weights [rows, runs]: [rows, events]."""
    at_risk = weights @ (times.steps[:, None] >= events)
    hit = weights @ ((times.steps[:, None] == events) & times.reached[:, None])
    return np.asarray(np.cumprod(1 - hit / np.maximum(at_risk, 1e-12), axis=1), dtype=np.float64)


def _areas(times: Times, horizon: float, weights: Numbers) -> Numbers:
    """Area under Kaplan and Meier's curve up to the horizon, for rows of weights."""
    if not horizon > 0:
        raise UsageError(f"a restricted mean within {horizon} steps: the horizon must be more than 0")
    events = np.unique(times.steps[times.reached & (times.steps < horizon)])
    edges = np.concatenate([[0.0], events, [horizon]])
    below = np.concatenate([np.ones((len(weights), 1)), _below(times, events, weights)], axis=1)
    return np.asarray(below @ np.diff(edges), dtype=np.float64)


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
    resampled = [side[draws(len(side), resamples, seed + offset)].mean(axis=-1) for offset, side in enumerate((ours, theirs))]
    return Estimate(ratio, *percentiles(resampled[0] / resampled[1], level))


def _restricted(times: Sequence[float | None], horizon: float) -> Numbers:
    if len(times) == 0 or not horizon > 0:
        raise UsageError(f"restricted mean of {len(times)} runs within {horizon} steps: both must be more than 0")
    steps = np.array([np.nan if time is None else time for time in times], dtype=np.float64)
    return np.fmin(steps, horizon)  # fmin: NaN gives way to the horizon
