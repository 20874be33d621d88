"""When a trial may stop and what it may then say: looks, bounds, and intervals that hold after an early stop.

Every run has a *score*, lower is better, infinity for the worst (never got there, crashed). Runs come in batches, one for each
look; a batch is a stratum, so a machine that is slow one day moves both arms. The statistic adds the rank sums of the strata
(van Elteren's with equal weights) with midranks for ties, and is compared with a group-sequential bound at every look. An
interval is the set of effects that the same test at the same bound does not refuse: a repeated confidence interval
(Jennison and Turnbull 1989), which holds at whatever look a trial stops.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats

Scores = NDArray[np.float64]
Strata = Sequence[Scores] | Scores
"""One array of scores for each look."""
RuleName = Literal["pocock", "obrien-fleming"]
Call = Literal["better", "worse", "equivalent"]

Test = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Statistics of supposed effects; about standard normal where the supposed effect is the true one."""

NORMAL_FROM: Final = 8
"""Seeds an arm per look from which on the statistic is near enough to a normal one."""
SIMULATED: Final = 40_000
"""Trials of equal arms by which bounds for fewer seeds are found."""
PERMUTATIONS: Final = 4_000
_LARGEST_RATIO: Final = 64.0
_GRID: Final = 97
_HALVINGS: Final = 14
_SMALLEST: Final = 1e-9


class Interval(NamedTuple):
    """An estimate and the repeated confidence interval around it; an infinite end is not known."""

    value: float
    low: float
    high: float

    def inside(self, low: float, high: float) -> bool:
        """Whether all of it lies strictly between two numbers."""
        return low < self.low and self.high < high


@dataclass(frozen=True)
class Rule:
    """How often a trial looks at its data, and how sure it must be."""

    looks: int = 4
    per_look: int = 8
    alpha: float = 0.05
    margin: float = 0.10
    kind: RuleName = "pocock"

    @property
    def bounds(self) -> tuple[float, ...]:
        """What the statistic must pass at each look, so that all looks together err in `alpha` of the trials of equal arms."""
        return _bounds(self.kind, self.looks, self.alpha, min(self.per_look, NORMAL_FROM))


@lru_cache(maxsize=64)
def _bounds(kind: RuleName, looks: int, alpha: float, per_look: int) -> tuple[float, ...]:
    one = stats.pocock_bound(looks, alpha) if kind == "pocock" else 0.0
    bounds = (one,) * looks if kind == "pocock" else tuple(stats.obrien_fleming_bounds(looks, alpha))
    if per_look >= NORMAL_FROM:
        return bounds
    # Ranks of a few seeds take a few values only, and those at the end are likelier than a normal's: three against three differ
    # completely in one of ten trials of equal arms. The bounds are raised until that is rare enough, or cannot happen.
    rng = np.random.default_rng(20_240_229)
    control, treatment = (rng.random((looks, SIMULATED, per_look)) for _ in range(2))
    sizes = [np.abs(statistics(control[:look], treatment[:look])) / limit for look, limit in enumerate(bounds, 1)]
    raised = float(np.quantile(np.max(sizes, axis=0), 1.0 - alpha, method="higher"))
    return tuple(limit * max(1.0, raised * (1.0 + 1e-9)) for limit in bounds)


# ── the statistic ──


def statistic(control: Strata, treatment: Strata) -> float:
    """The stratified rank statistic: about standard normal when the arms are equal, positive when the treatment is better."""
    return float(statistics(control, treatment))


def statistics(control: Strata, treatment: Strata) -> NDArray[np.float64]:
    """The statistic with any number of leading axes (hypotheses, permutations, simulated trials)."""
    sums: NDArray[np.float64] = np.zeros(())
    variances: NDArray[np.float64] = np.zeros(())
    for ours, theirs in zip(treatment, control, strict=False):
        balance, variance = _rank_sum(theirs, ours)
        sums, variances = sums + balance, variances + variance
    # All runs tied (nobody got there): nothing speaks for either arm.
    result: NDArray[np.float64] = sums / np.sqrt(np.where(variances > 0, variances, np.inf))
    return result


def _rank_sum(control: Scores, treatment: Scores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far the treatment's rank sum lies below what equal arms would have, and its variance if they were; ties share their rank."""
    shape = np.broadcast_shapes(control.shape[:-1], treatment.shape[:-1])
    pooled = np.concatenate([np.broadcast_to(side, (*shape, side.shape[-1])) for side in (control, treatment)], axis=-1)
    n, m, total = control.shape[-1], treatment.shape[-1], pooled.shape[-1]
    order = np.argsort(pooled, axis=-1)
    ordered = np.take_along_axis(pooled, order, axis=-1)
    first = _positions(ordered)
    last = total - 1 - _positions(ordered[..., ::-1])[..., ::-1]
    ranks = 0.5 * (first + last) + 1.0
    found = m * (total + 1) / 2.0 - np.where(order >= n, ranks, 0.0).sum(-1)
    # Sum over groups of t^3 - t, from each value's number of equals.
    ties = ((last - first + 1.0) ** 2 - 1.0).sum(-1)
    return found, n * m / 12.0 * (total + 1.0 - ties / max(total * (total - 1.0), 1.0))


def _positions(ordered: Scores) -> NDArray[np.int64]:
    """For sorted values, where the first of each value's equals stands."""
    starts = np.ones(ordered.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    places = np.where(starts, np.arange(ordered.shape[-1]), 0)
    result: NDArray[np.int64] = np.maximum.accumulate(places, axis=-1)
    return result


# ── deciding ──


def bound(control: Strata, treatments: Mapping[str, Strata], rule: Rule, look: int) -> float:
    """What the statistic must pass at a look (from 1).

    Several arms have several chances to be lucky: the bound is then the quantile of the largest statistic over arms when the
    runs of each look are dealt to the arms at random (max-T), at the level that one arm would have at this look.
    """
    alone = rule.bounds[look - 1]
    if rule.per_look < NORMAL_FROM:
        alone *= max((_tied(control, strata) for strata in treatments.values()), default=1.0)
    if len(treatments) < 2:
        return alone
    return max(alone, float(np.quantile(_largest(control, treatments), 1.0 - _two_sided(alone), method="higher")))


def _tied(control: Strata, treatment: Strata) -> float:
    """By how much ties stretch the statistic: they lower its variance, while a few seeds are as likely to differ completely as before."""
    whole, left = 0.0, 0.0
    for theirs, ours in zip(control, treatment, strict=False):
        n, m = len(theirs), len(ours)
        counts = np.unique(np.concatenate([theirs, ours]), return_counts=True)[1]
        whole += n * m * (n + m + 1) / 12
        left += n * m / 12 * (n + m + 1 - float((counts**3 - counts).sum()) / max((n + m) * (n + m - 1), 1))
    return math.sqrt(whole / left) if left > 0 else 1.0


def _two_sided(z: float) -> float:
    """Chance that a standard normal number is further from 0 than z."""
    return 2.0 * stats.normal_tail(z)


def _largest(control: Strata, treatments: Mapping[str, Strata]) -> NDArray[np.float64]:
    """Largest statistic over arms in each of many random deals, always the same ones for the same data."""
    rng = np.random.default_rng(20_230_517)
    dealt: list[tuple[Scores, list[Scores]]] = []
    for look, theirs in enumerate(control):
        arms = [strata[look] for strata in treatments.values() if look < len(strata)]
        # Small whole numbers in the same order: the statistic is about ranks, and these are compared much faster.
        pooled = np.unique(np.concatenate([theirs, *arms]), return_inverse=True)[1].astype(np.int16)
        shuffled = rng.permuted(np.broadcast_to(pooled, (PERMUTATIONS, len(pooled))), axis=1)
        parts = np.split(shuffled, np.cumsum([len(theirs), *(len(arm) for arm in arms)])[:-1], axis=1)
        dealt.append((parts[0], parts[1:]))
    largest = np.zeros(PERMUTATIONS)
    for place, strata in enumerate(treatments.values()):
        # Arms that a trial has dropped are not in later looks, and are not asked about any more.
        own = [parts[1][place] for parts in dealt[: len(strata)]]
        largest = np.maximum(largest, np.abs(statistics([parts[0] for parts in dealt[: len(strata)]], own)))
    return largest


def call(z: float, limit: float) -> Call | None:
    """What a look says about one arm."""
    return "better" if z > limit else "worse" if z < -limit else None


# ── intervals ──


def ratio_test(control: Strata, treatment: Strata, horizon: float = math.inf, offset: float = 0.0) -> Test:
    """The statistic of "the treatment takes r times what the control takes", by the log of r; it rises with r.

    Runs that did not get there before `horizon` score infinity. For every ratio r the control's scores are stretched by r, and both
    arms are cut at what both could still see, min(horizon, r x horizon). `offset`: half of the spacing of evaluations, by which
    a crossing is seen late on average.
    """
    ours = [np.maximum(side - offset, _SMALLEST) for side in treatment]
    theirs = [np.maximum(side - offset, _SMALLEST) for side in control]
    end = max(horizon - offset, _SMALLEST)

    def z(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        ratios = np.exp(logs)[:, None]
        # A hair: the same number reached by two ways of rounding must count as the same.
        cut = np.minimum(end, end * ratios) * (1.0 + 1e-9)
        return statistics([_cut(side * ratios, cut) for side in theirs], [_cut(side + 0.0 * ratios, cut) for side in ours])

    return z


def ratio(control: Strata, treatment: Strata, limit: float, horizon: float = math.inf, offset: float = 0.0) -> Interval:
    """Treatment's scores over control's (steps, seconds): below 1 the treatment needs less; see `ratio_test`.

    Where the control never got there, the low end is 0 and there is no value: "at least so much fewer".
    """
    edge = math.log(_LARGEST_RATIO)
    found = _inverted(ratio_test(control, treatment, horizon, offset), -edge, edge, limit)
    return Interval(*(math.exp(end) for end in found))


def _cut(scores: Scores, end: NDArray[np.float64]) -> Scores:
    return np.where(scores > end, np.inf, scores)


def shift_test(control: Strata, treatment: Strata) -> Test:
    """The statistic of "the treatment's scores are lower by a gain", by the gain; it rises with it."""

    def z(gains: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = gains[:, None]
        return -statistics([side + 0.0 * moved for side in control], [side + moved for side in treatment])

    return z


def shift(control: Strata, treatment: Strata, limit: float) -> Interval:
    """How much lower the treatment's scores are than the control's: the gain, where a score is minus a return."""
    finite = [np.subtract.outer(c[np.isfinite(c)], t[np.isfinite(t)]).ravel() for c, t in zip(control, treatment, strict=False)]
    gaps = np.concatenate(finite) if finite else np.empty(0)
    if not len(gaps):
        return Interval(math.nan, -math.inf, math.inf)
    width = max(float(gaps.max() - gaps.min()), 0.01 * abs(float(gaps.max())), _SMALLEST)
    low, high = float(gaps.min()) - 0.05 * width, float(gaps.max()) + 0.05 * width
    return _inverted(shift_test(control, treatment), low, high, limit)


def refuses_both(test: Test, margin: float, limit: float) -> bool:
    """Whether effects of -margin and of margin are both refused, each from its own side: what is left is smaller."""
    low, high = test(np.array([-margin, margin]))
    return bool(low < -limit and high > limit)


def _inverted(z: Test, low: float, high: float, limit: float) -> Interval:
    """The effects that the test does not refuse, and the one that it refuses least; z falls to the left of it, and rises to the right.

    An effect at the edge of what was tried that is not refused has no end on that side.
    """
    grid = np.linspace(low, high, _GRID)
    values = z(grid)
    kept = np.flatnonzero(np.abs(values) <= limit)
    middle = _crossing(z, grid, values)
    if not len(kept):
        if math.isnan(middle):
            # Every effect that was tried is refused from the same side: the true one lies beyond.
            return Interval(math.nan, high, math.inf) if values[-1] < 0 else Interval(math.nan, -math.inf, low)
        # So many seeds that all of it lies between two points of the grid.
        place = int(np.searchsorted(grid, middle))
        return Interval(middle, _edge(z, grid[max(place - 1, 0)], middle, limit), _edge(z, grid[min(place, _GRID - 1)], middle, limit))
    first, last = int(kept[0]), int(kept[-1])
    left = -math.inf if first == 0 else _edge(z, grid[first - 1], grid[first], limit)
    right = math.inf if last == _GRID - 1 else _edge(z, grid[last + 1], grid[last], limit)
    return Interval(middle, left, right)


def _edge(z: Test, refused: float, kept: float, limit: float) -> float:
    for _ in range(_HALVINGS):
        middle = 0.5 * (refused + kept)
        if abs(float(z(np.array([middle]))[0])) <= limit:
            kept = middle
        else:
            refused = middle
    return refused


def _crossing(z: Test, grid: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Where the statistic passes 0, the middle of it where it is 0 for a while; NaN if it never does (one arm never got there)."""
    below, above = np.flatnonzero(values < 0), np.flatnonzero(values > 0)
    if not len(below) or not len(above):
        return math.nan
    ends = []
    for sign in (1.0, -1.0):
        low, high = grid[below[-1]], grid[above[above > below[-1]][0]] if (above > below[-1]).any() else grid[above[-1]]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            value = float(z(np.array([middle]))[0])
            low, high = (middle, high) if (value < 0 or (value == 0 and sign > 0)) else (low, middle)
        ends.append(0.5 * (low + high))
    return 0.5 * (ends[0] + ends[1])


def improvement(control: Strata, treatment: Strata, limit: float) -> Interval:
    """P(a treated run beats an untreated one), a tie counting half, with Newcombe's (2006) score interval, which is not empty at 1."""
    pairs = [(ours, theirs) for theirs, ours in zip(control, treatment, strict=False)]
    weights = np.array([len(ours) * len(theirs) for ours, theirs in pairs], dtype=np.float64)
    shares = [0.5 + float(_rank_sum(theirs, ours)[0]) / (len(ours) * len(theirs)) for ours, theirs in pairs]
    found = float(np.average(shares, weights=weights))
    n, m = (sum(len(side[place]) for side in pairs) for place in (0, 1))
    thetas = np.linspace(0.0, 1.0, 2_001)
    half = (n + m) / 2.0 - 1.0
    spread = thetas * (1 - thetas) * (1 + half * ((1 - thetas) / (2 - thetas) + thetas / (1 + thetas))) / (n * m)
    kept = thetas[np.abs(found - thetas) <= limit * np.sqrt(spread) + 1e-12]
    return Interval(found, float(kept.min(initial=found)), float(kept.max(initial=found)))


def proportions(control: tuple[int, int], treatment: tuple[int, int], limit: float) -> Interval:
    """Difference of two shares, each (count, of), at the level of `limit`."""
    found = stats.share_difference(treatment, control, level=1.0 - _two_sided(limit))
    low, high = (-1.0 if found.low is None else found.low), (1.0 if found.high is None else found.high)
    return Interval(found.value, max(-1.0, low), min(1.0, high))


def seeds_needed(effect: Interval, seeds: int, margin: float) -> int | None:
    """Seeds an arm at which the interval would tell the effect from 0, or from the margin; None if there is no interval to go by.

    `effect` is on a scale on which 0 is no effect and `margin` a small one (log ratio, or a shift). Its width falls with the root
    of the number of seeds, and at best has to be no wider than half of the margin each way.
    """
    half = 0.5 * (effect.high - effect.low)
    size = abs(effect.value)
    if not (math.isfinite(half) and math.isfinite(size)) or margin <= 0 or half <= 0:
        return None
    wanted = max(size, margin - size)
    return math.ceil(seeds * max(1.0, (half / wanted) ** 2))
