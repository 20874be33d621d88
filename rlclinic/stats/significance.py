"""Whether two groups differ by more than luck: means, ranks, and Holm's correction for several questions."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rlclinic.stats.distributions import Numbers, student_tail
from rlclinic.stats.estimates import finite, ranked

MANY_SEEDS: Final = 20
"""From this many seeds on each side, the log-rank statistic is normal enough."""
EVERY_WAY: Final = 20_000
"""Up to this many ways to deal the seeds out, all of them are counted; beyond, as many are drawn."""
_CELLS: Final = 2_000_000
"""Permuted statistics that are held in memory at once."""
_NO_SPREAD: Final = 1e-7
"""A standard error below this share of the largest distance from the mean is rounding."""


MEANS_METHOD: Final = "permutation of Welch's t, and Welch's test"


class TestResult(NamedTuple):
    """What a test found."""

    statistic: float
    p: float
    method: str
    """Which test, in words."""


def compare_means(a: ArrayLike, b: ArrayLike) -> TestResult | None:
    """Whether the means of two groups differ, two-sided: `compare_means_by_row` of one case.

    The statistic is Welch's t, positive where A is larger. None where a side has one seed: there is nothing to judge luck by.
    """
    ours, theirs = finite(a), finite(b)
    if min(len(ours), len(theirs)) < 2:
        return None
    p = float(compare_means_by_row(ours, theirs)[1][0])
    return TestResult(welch(ours, theirs).statistic, p, MEANS_METHOD)


def compare_means_by_row(a: ArrayLike, b: ArrayLike) -> tuple[Numbers, Numbers]:
    """Welch's t of the means of A and B, and a two-sided p; rows are separate cases of two seeds or more a side.

    p is the larger of two. The first counts the ways to deal the seeds out whose t is at least as extreme (a permutation of the
    studentized difference: Janssen 1997; Chung and Romano 2013), each direction on its own, so that a wrong direction is as rare as
    half of the level. It holds for any returns where the groups are alike, also where part of the seeds collapse and most are tied. With
    unequal spreads it holds for many seeds only: four seeds of five times the spread against sixteen would be called different in
    20 % of all cases. Welch's own p holds there, and is wrong with few seeds of skewed returns, where the first holds.
    """
    ours, theirs = np.atleast_2d(finite(a)), np.atleast_2d(finite(b))
    m, n = ours.shape[1], theirs.shape[1]
    pooled = np.concatenate([ours, theirs], axis=1)
    # Centred and scaled: sums of returns of a million would lose the digits that ties depend on.
    pooled = pooled - pooled.mean(axis=1, keepdims=True)
    largest = np.abs(pooled).max(axis=1, keepdims=True)
    pooled = np.divide(pooled, largest, out=np.zeros_like(pooled), where=largest > 1e-12 * np.maximum(np.abs(ours).max(), 1e-300))
    dealt, exact = splits(m, n)
    ways = np.ascontiguousarray(dealt.T)
    t, p = np.empty(len(pooled)), np.empty(len(pooled))
    chunk = max(1, _CELLS // ways.shape[1])
    for start in range(0, len(pooled), chunk):
        part = slice(start, start + chunk)
        values = pooled[part]
        sums = values[:, :m].sum(axis=1, keepdims=True)
        squares = values**2
        total = squares.sum(axis=1, keepdims=True)
        found = _welch_t(sums, squares[:, :m].sum(axis=1, keepdims=True), total, m, n)[:, 0]
        t[part] = found
        if m == n:
            # Sides of one size have a t that rises with the difference: the same order, in a third of the time.
            found, permuted = sums[:, 0], values @ ways
        else:
            permuted = _welch_t(values @ ways, squares @ ways, total, m, n)
        # Rounding must not turn a tie with the found statistic into a miss.
        slack = 1e-7 * np.maximum(1.0, np.abs(found))
        above = (permuted >= (found - slack)[:, None]).sum(axis=1)
        below = (permuted <= (found + slack)[:, None]).sum(axis=1)
        fewer = np.minimum(above, below)
        p[part] = np.minimum(1.0, 2 * (fewer / len(dealt) if exact else (fewer + 1) / (len(dealt) + 1)))
    return t, np.maximum(p, [welch(*sides).p for sides in zip(ours, theirs, strict=True)])


def _welch_t(sums: Numbers, squares: Numbers, total: Numbers, m: int, n: int) -> Numbers:
    """Welch's t from the first group's sum and sum of squares, where all seeds together have mean 0 and this sum of squares.

    A group's variance is that of its own seeds. Without any spread in both, t is as large as a number gets here, or 0.
    """
    ours = np.maximum(squares - sums**2 / m, 0.0) / ((m - 1) * m)
    theirs = np.maximum(total - squares - sums**2 / n, 0.0) / ((n - 1) * n)
    error, difference = np.sqrt(ours + theirs), sums * (1 / m + 1 / n)
    without = np.where(np.abs(difference) > _NO_SPREAD, np.sign(difference) / _NO_SPREAD**2, 0.0)
    t: Numbers = np.divide(difference, error, out=without, where=error > _NO_SPREAD)
    return t


def permutation(a: ArrayLike, b: ArrayLike) -> TestResult:
    """Difference of means against all ways to deal the seeds out to the two groups: holds for any return and any number."""
    ours, theirs = finite(a), finite(b)
    pooled = np.concatenate([ours, theirs])
    difference = float(ours.mean() - theirs.mean())
    dealt, exact = splits(len(ours), len(theirs))
    # Centred: sums of returns of a million would lose the digits that ties depend on.
    sums = dealt @ (pooled - pooled.mean())
    means = sums / len(ours) + sums / len(theirs)
    p = permuted_p(np.abs(means), abs(difference), exact)
    return TestResult(difference, p, "permutation test, exact" if exact else "permutation test, drawn")


def welch(a: ArrayLike, b: ArrayLike) -> TestResult:
    """Welch's t-test: means of two groups whose spreads may differ. Both without spread: p is 1 if equal, 0 if not."""
    ours, theirs = finite(a), finite(b)
    difference = float(ours.mean() - theirs.mean())
    errors, freedom = _welch_parts(ours, theirs)
    if errors == 0:
        return TestResult(math.copysign(math.inf, difference) if difference else 0.0, 0.0 if difference else 1.0, "Welch's t-test")
    t = difference / errors
    return TestResult(t, student_tail(t, freedom), "Welch's t-test")


def _welch_parts(a: Numbers, b: Numbers) -> tuple[float, float]:
    """Standard error of the difference of means, and Welch and Satterthwaite's degrees of freedom."""
    parts = [float(side.var(ddof=1)) / len(side) for side in (a, b)]
    error = math.sqrt(sum(parts))
    if error <= 1e-12 * max(float(np.abs(a).max()), float(np.abs(b).max()), 1e-300):
        return 0.0, 1.0
    return error, sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))


def rank_z(a: ArrayLike, b: ArrayLike, *, wide_steps: bool = False) -> Numbers:
    """Mann and Whitney's rank statistic as a normal number, positive where A is larger; rows are separate cases.

    Ties share their rank and shrink the variance; half a step of the statistic is taken off (continuity correction), without
    which four seeds a side would alarm too often. All equal: 0. A step is 1, and with `wide_steps` as wide as ties make it: where runs
    only fail or do not, it is half of all runs, and the correction is Yates'.
    """
    ours, theirs = np.atleast_2d(ranked(a)), np.atleast_2d(ranked(b))
    m, n = ours.shape[1], theirs.shape[1]
    ranks, ties = _mid_ranks(np.concatenate([ours, theirs], axis=1))
    u = ranks[:, :m].sum(axis=1) - m * (m + 1) / 2 - m * n / 2
    # Each value in a tie of t contributes t^2 - 1 to the sum of t^3 - t.
    total = m + n
    variance = m * n / 12 * ((total + 1) - (ties**2 - 1).sum(axis=1) / (total * max(total - 1, 1)))
    half_step = (1 + ties.mean(axis=1)) / 4 if wide_steps else 0.5
    shrunk = np.sign(u) * np.maximum(np.abs(u) - half_step, 0.0)
    z: Numbers = np.divide(shrunk, np.sqrt(variance), out=np.zeros_like(shrunk), where=variance > 1e-12)
    return z


def _mid_ranks(values: Numbers) -> tuple[Numbers, Numbers]:
    """Rank from 1 of each value among its row, ties sharing the middle of theirs; and how many are in each value's tie."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    edge = np.ones((len(values), 1), dtype=bool)
    steps = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(np.concatenate([edge, steps], axis=1), places, 0), axis=1)
    ends = np.where(np.concatenate([steps, edge], axis=1), places, values.shape[1])
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    ranks, ties = np.empty_like(values), np.empty_like(values)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    np.put_along_axis(ties, order, (last - first + 1).astype(np.float64), axis=1)
    return ranks, ties


@lru_cache(maxsize=10_000)
def more_hits(ours: int, of_ours: int, theirs: int, of_theirs: int) -> float:
    """P(at least so many of all hits are ours, if both groups have the same chance): Fisher's exact test, one-sided."""
    hits = ours + theirs
    ways = math.comb(of_ours + of_theirs, hits)
    return sum(math.comb(of_ours, k) * math.comb(of_theirs, hits - k) for k in range(ours, min(hits, of_ours) + 1)) / ways


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several questions, corrected so that one wrong answer among all stays as rare as promised (Holm 1979)."""
    count = len(p_values)
    order = sorted(range(count), key=lambda place: p_values[place])
    corrected, worst = [0.0] * count, 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (count - rank) * p_values[place]))
        corrected[place] = worst
    return corrected


@lru_cache(maxsize=8)
def splits(m: int, n: int) -> tuple[Numbers, bool]:
    """Ways to deal m + n seeds out to the first group as rows of 0 and 1, and whether these are all ways.

    Where there are too many to count, up to EVERY_WAY of them are drawn by a fixed seed.
    """
    total = m + n
    if math.comb(total, m) <= EVERY_WAY:
        rows = np.zeros((math.comb(total, m), total))
        chosen = np.array(list(combinations(range(total), m)), dtype=np.int64)
        np.put_along_axis(rows, chosen, 1.0, axis=1)
        return rows, True
    # Rows of many seeds are long: as many of them as 32 MB hold.
    ways = max(2_000, min(EVERY_WAY, 4_000_000 // total))
    keys = np.random.default_rng(0).random((ways, total))
    rows = (np.argsort(np.argsort(keys, axis=1), axis=1) < m).astype(np.float64)
    return rows, False


def permuted_p(scores: Numbers, found: float, exact: bool) -> float:
    """Share of the ways to deal seeds out that are at least as extreme as what was found."""
    # Rounding must not turn a tie with the found score into a miss.
    extreme = int((scores >= found - 1e-9 * max(1.0, abs(found))).sum())
    return extreme / len(scores) if exact else (extreme + 1) / (len(scores) + 1)
