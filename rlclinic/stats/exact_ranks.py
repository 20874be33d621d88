"""Rank sums with exact tails, ties included: for bounds so far out that a normal approximation gives most of the evidence away.

Eight runs that all beat eight others have a rank statistic of 3.36 by the normal approximation. By counting, this happens in one of 12,870
deals, which is as far out as 3.78. With thirty arms the bound lies between the two.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from rlclinic.stats.distributions import Numbers, normal_quantile

MOST_EXACT: Final = 100
"""Runs of both sides up to which deals are counted; beyond, the normal approximation is close, and errs towards caution."""
WORTH_COUNTING: Final = 2.0
"""Normal statistics below this are taken as they are: counting would hardly change them, and bounds lie further out."""
_SMALLEST_TAIL: Final = 1e-15


def exact_rank_z(ours: Numbers, theirs: Numbers) -> float:
    """The normal number that is as far out as the rank sum of `ours`: positive where ours are lower.

    It counts in how many of all deals of the runs to two sides the rank sum, with midranks for ties, is as far out or further.
    """
    n, m = len(ours), len(theirs)
    pooled = np.concatenate([ours, theirs])
    order, counts = np.unique(pooled, return_inverse=True, return_counts=True)[1:]
    ends = np.cumsum(counts)
    doubled = 2 * ends - counts + 1  # twice the midrank of each distinct value: a whole number
    ranks = doubled[order]
    total = int(ranks[:n].sum())
    variance = n * m * float(ranks.var()) / max(n + m - 1, 1)
    if variance <= 1e-12:
        return 0.0
    z = (n * (n + m + 1) - total) / math.sqrt(variance)
    if abs(z) < WORTH_COUNTING or n + m > MOST_EXACT:
        return z
    low, high = _tails(tuple(map(int, counts)), n)
    tail = low[total] if z > 0 else high[total]
    return math.copysign(max(-normal_quantile(max(float(tail), _SMALLEST_TAIL)), 0.0), z)


@lru_cache(maxsize=2_048)
def _tails(counts: tuple[int, ...], n: int) -> tuple[Numbers, Numbers]:
    """P(sum <= s) and P(sum >= s) of twice the midranks of n runs, drawn from values that occur so often (the lowest first)."""
    size = sum(counts)
    largest = n * (2 * size)
    ways = np.zeros((n + 1, largest + 1))
    ways[0, 0] = 1.0
    before = 0
    for count in counts:
        rank = 2 * before + count + 1
        for _ in range(count):
            # One more run: it is drawn, or not.
            ways[1:, rank:] += ways[:-1, : largest + 1 - rank].copy()
        before += count
    shares = ways[n] / ways[n].sum()
    return np.cumsum(shares), np.cumsum(shares[::-1])[::-1]


def as_normal_bound(bound: float, n: int, m: int) -> float:
    """The normal statistic of untied ranks at which `exact_rank_z` passes a bound; the bound itself where no deal passes it."""
    if n + m > MOST_EXACT:
        return bound
    low = _tails((1,) * (n + m), n)[0]
    passed = np.flatnonzero(low <= 0.5 * math.erfc(bound / math.sqrt(2.0)))
    passed = passed[passed >= n * (n + 1)]
    if not len(passed):
        return bound
    z = (n * (n + m + 1) - int(passed[-1])) / math.sqrt(n * m * (n + m + 1) / 3.0)
    return min(bound, z)
