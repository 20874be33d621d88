"""When a trial may stop and what it may then say: looks, bounds, and intervals that hold after an early stop.

Every run has a *score*, lower is better, infinity for the worst (never got there, crashed). Runs come in batches, one for each
look; a batch is a stratum, so a machine that is slow one day moves both arms.

**The statistic** adds the rank sums of the strata (van Elteren's with equal weights), with midranks for ties, and is read in two ways:
against the spread that it has when runs are dealt to two equal arms at random (Wilcoxon, Mann and Whitney), and against the spread that
each arm shows by itself (Brunner and Munzel 2000), which holds where the arms differ in spread but not in which is better. The smaller of
the two counts: no verdict rests on equal spreads, and none on the few values of a handful of tied runs.

**Bounds.** The statistic is compared with a group-sequential bound at every look. Four fifths of the error go to "better", which is what
a trial is made for, one fifth to "worse"; a tenth of both is kept for extensions. An interval is the set of effects that the same test at
the same bounds does not refuse: a repeated confidence interval (Jennison and Turnbull 1989), which holds at whatever look a trial stops,
and leaves "no effect" out exactly where the verdict does.

**Arrival** is the second outcome: the share of runs that got there, or did not collapse. Ranks alone would let a fast arm fail in a
quarter of its seeds. See `speaks_of_a_drop` and `excludes_a_drop`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats

Numbers = NDArray[np.float64]
Scores = NDArray[np.float64]
Strata = Sequence[Scores] | Scores
"""One array of scores for each look."""
RuleName = Literal["wang-tsiatis", "pocock", "obrien-fleming"]
Call = Literal["better", "worse", "equivalent", "less reliable", "mixed", "futile"]

Test = Callable[[Numbers], Numbers]
"""Statistics of supposed effects; about standard normal where the supposed effect is the true one."""
Placements = Callable[[Numbers], "list[Placed]"]
"""The comparisons of all strata under supposed effects: what a test adds up."""

NORMAL_FROM: Final = 8
"""Seeds an arm per look from which on the statistic is near enough to a normal one."""
SIMULATED: Final = 40_000
"""Trials of equal arms by which bounds for fewer seeds are found."""
PERMUTATIONS: Final = 4_000
DEALS: Final = 400
"""Random deals by which the spread of a statistic is measured; a quantile takes more."""
BETTER_SHARE: Final = 0.8
"""Of the error: wrong "better"; the rest is for wrong "worse"."""
EXTENSION_SHARE: Final = 0.1
"""Of the error, kept for seeds that are added after the last look: half of it for the first extension, half of the rest for the next."""
REFERENCE_EXTENSION: Final = 0.5
"""Seeds of an extension, as a share of those before, by which its level is worked out; any other number may then be taken."""
ARRIVAL_LEVEL: Final = 1.645
"""z at which a drop in arrival is excluded: one-sided 5 %."""
FUTILE: Final = 0.05
"""Chance of a later "better" below which an arm is given up, if the effect were one that the trial sees in nine of ten cases."""
SHAPE: Final = 0.25
"""Of the bounds of "better": between O'Brien and Fleming's (0) and Pocock's (0.5)."""
SHAPE_OF_SEVERAL: Final = 0.1
"""The same for several environments: an early look has few seeds in each, and is mostly held by one that points the wrong way, so that
more of the error is kept for later looks."""
MAY_BE_WORSE: Final = -1.0
"""Below this an arm is not given up: that it is worse is worth knowing, too."""
_DROPS: Final = ((8, 16, 24, 32), (0.6, 0.8, 1.3, 1.78))
"""Seeds an arm, and the z of a drop in arrival that stands in the way; chosen by `benchmarks.proof`, see docs/statistics.md."""
_LARGEST_RATIO: Final = 64.0
_GRID: Final = 97
_HALVINGS: Final = 14
_AT_ONCE: Final = 5
"""Halvings that one call asks about: 31 effects."""
_SMALLEST: Final = 1e-9
_FEW_PAIRS: Final = 32_768
"""Pairs of runs up to which ranks are counted pair by pair; beyond, sorting is faster."""


class Interval(NamedTuple):
    """An estimate and the repeated confidence interval around it; an infinite end is not known."""

    value: float
    low: float
    high: float

    def inside(self, low: float, high: float) -> bool:
        """Whether all of it lies strictly between two numbers."""
        return low < self.low and self.high < high


class Bounds(NamedTuple):
    """What the statistic must pass: above `better`, or below minus `worse`."""

    better: float
    worse: float

    def raised(self, factor: float) -> "Bounds":
        """Both further out."""
        return Bounds(self.better * factor, self.worse * factor)


@dataclass(frozen=True)
class Rule:
    """How often a trial looks at its data, and how sure it must be."""

    looks: int = 4
    per_look: int = 8
    alpha: float = 0.05
    arrival_margin: float = 0.10
    kind: RuleName = "wang-tsiatis"
    environments: int = 1
    """Each is a stratum with `per_look` seeds an arm at every look; the runs of all its looks are ranked together."""

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """What the statistic must pass at each look, so that all looks and extensions together err in `alpha` of trials of equal arms."""
        errors = [share * self.alpha * (1.0 - EXTENSION_SHARE) for share in (BETTER_SHARE, 1.0 - BETTER_SHARE)]
        return _bounds(self.kind, self.looks, (errors[0], errors[1]), min(self.per_look, NORMAL_FROM), self.environments)

    def environment_bounds(self, arms: int = 1) -> tuple[Bounds, ...]:
        """What the statistic of one environment must pass at each look, so that all environments (and arms) together err in `alpha`.

        Half of the error for either side, and the same bound at every look: that a change hurts somewhere is as much worth knowing as that
        it helps somewhere, and as early.
        """
        error = 0.5 * self.alpha * (1.0 - EXTENSION_SHARE) / (self.environments * arms)
        return _bounds("pocock", self.looks, (error, error), min(self.per_look, NORMAL_FROM), 1, one_stratum=True)

    @property
    def equivalence_bounds(self) -> tuple[float, ...]:
        """What refuses an effect as large as the margin at each look, on either side: O'Brien and Fleming's, one-sided `alpha` over all
        looks. An arm of which nothing was shown yet is not in a hurry to be called equal."""
        return tuple(stats.obrien_fleming_bounds(self.looks, 2.0 * self.alpha * (1.0 - EXTENSION_SHARE)))

    def extension_levels(self, number: int) -> tuple[float, float]:
        """The one-sided errors ("better", "worse") that extension `number` (from 1) may add, whatever was seen before."""
        level = self.alpha * EXTENSION_SHARE * 0.5**number
        return BETTER_SHARE * level, (1.0 - BETTER_SHARE) * level

    def environment_extension_levels(self, number: int, arms: int = 1) -> tuple[float, float]:
        """The same for the statistic of one environment, beside `environment_bounds`."""
        level = 0.5 * self.alpha * EXTENSION_SHARE * 0.5**number / (self.environments * arms)
        return level, level


@lru_cache(maxsize=64)
def _bounds(
    kind: RuleName, looks: int, errors: tuple[float, float], per_look: int, environments: int = 1, *, one_stratum: bool = False
) -> tuple[Bounds, ...]:
    # Harm is to be seen early rather than late: the same bound at every look.
    shape = SHAPE if environments == 1 else SHAPE_OF_SEVERAL
    better, worse = _one_sided(kind, looks, errors[0], shape), _one_sided("pocock", looks, errors[1])
    if per_look >= NORMAL_FROM:
        return tuple(map(Bounds, better, worse))
    # Ranks of a few seeds take a few values only, and those at the end are likelier than a normal's: three against three differ
    # completely in one of ten trials of equal arms. The bounds are raised until that is rare enough, or cannot happen.
    rng = np.random.default_rng(20_240_229)
    if environments > 1 or one_stratum:
        # The runs of an environment are one stratum, however many looks they come from.
        drawn = [[rng.random((SIMULATED, looks * per_look)) for _ in range(2)] for _ in range(environments)]
        ends = [look * per_look for look in range(1, looks + 1)]
        seen = [statistics([pair[0][:, :end] for pair in drawn], [pair[1][:, :end] for pair in drawn]) for end in ends]
    else:
        control, treatment = (rng.random((looks, SIMULATED, per_look)) for _ in range(2))
        seen = [statistics(control[:look], treatment[:look]) for look in range(1, looks + 1)]
    sides = []
    for sign, limits, error in zip((1.0, -1.0), (better, worse), errors, strict=True):
        largest = np.max([sign * z / limit for z, limit in zip(seen, limits, strict=True)], axis=0)
        raised = max(1.0, float(np.quantile(largest, 1.0 - error, method="higher")) * (1.0 + 1e-9))
        sides.append([limit * raised for limit in limits])
    return tuple(map(Bounds, *sides))


def _one_sided(kind: RuleName, looks: int, error: float, shape: float = SHAPE) -> list[float]:
    """Bounds of a rule that errs on one side with this chance; crossing both sides is too rare to count."""
    if kind == "pocock":
        return [stats.pocock_bound(looks, 2 * error)] * looks
    if kind == "obrien-fleming":
        return stats.obrien_fleming_bounds(looks, 2 * error)
    return stats.wang_tsiatis_bounds(looks, 2 * error, shape)


# ── the statistic ──


class Placed(NamedTuple):
    """A stratum as comparisons: how many runs of the other arm each run beats (treatment), or is beaten by (control), ties half.

    With any number of leading axes: hypotheses, permutations, simulated trials.
    """

    control: Numbers
    treatment: Numbers
    control_ranks: Numbers
    """Midranks within the arm, the best first."""
    treatment_ranks: Numbers


def statistic(control: Strata, treatment: Strata) -> float:
    """The stratified rank statistic: about standard normal when neither arm is better, positive when the treatment is."""
    return float(statistics(control, treatment))


def statistics(control: Strata, treatment: Strata) -> Numbers:
    """The statistic with any number of leading axes (hypotheses, permutations, simulated trials)."""
    return _combine([compare_runs(theirs, ours) for theirs, ours in zip(control, treatment, strict=False)])


def _combine(strata: Sequence[Placed]) -> Numbers:
    """The smaller of the two readings of the summed rank sums."""
    balance: Numbers = np.zeros(())
    dealt: Numbers = np.zeros(())
    own: Numbers = np.zeros(())
    freedom = 0
    for placed in strata:
        n, m = placed.control.shape[-1], placed.treatment.shape[-1]
        balance = balance + placed.treatment.sum(-1) - n * m / 2.0
        # Ranks in the pool; the variance of the treatment's sum when they are dealt out at random, which ties shrink.
        ranks = np.concatenate([placed.control_ranks + placed.control, placed.treatment_ranks + n - placed.treatment], axis=-1)
        dealt = dealt + n * m * ranks.var(-1) / max(n + m - 1, 1)
        if min(n, m) > 1:
            own = own + m * placed.treatment.var(-1, ddof=1) + n * placed.control.var(-1, ddof=1)
            freedom += min(n, m) - 1
    # All runs tied (nobody got there): nothing speaks for either arm.
    pooled = balance / np.sqrt(np.where(dealt > 1e-12, dealt, np.inf))
    separate = as_normal(balance / np.sqrt(np.where(own > 1e-12, own, 1e-12)), freedom)
    result: Numbers = np.where(np.abs(separate) < np.abs(pooled), separate, pooled) if freedom else pooled
    return result


def as_normal(t: Numbers, freedom: int) -> Numbers:
    """The standard normal number that is as far out as a Student's t of so many degrees of freedom (Wallace 1959)."""
    if freedom < 1:
        return t
    size: Numbers = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * np.sqrt(freedom * np.log1p(t * t / freedom))
    return np.copysign(size, t)


def compare_runs(control: Scores, treatment: Scores) -> Placed:
    """Every run of a stratum against those of the other arm; with any number of leading axes."""
    shape = np.broadcast_shapes(control.shape[:-1], treatment.shape[:-1])
    control, treatment = (np.broadcast_to(side, (*shape, side.shape[-1])) for side in (control, treatment))
    n = control.shape[-1]
    ranks = _mid_ranks(np.concatenate([control, treatment], axis=-1))
    theirs, ours = _mid_ranks(control), _mid_ranks(treatment)
    return Placed(ranks[..., :n] - theirs, n - (ranks[..., n:] - ours), theirs, ours)


def _mid_ranks(values: Numbers) -> Numbers:
    """Rank from 1 along the last axis; ties share the middle of theirs."""
    if values.size * values.shape[-1] <= _FEW_PAIRS:
        one, other = values[..., :, None], values[..., None, :]
        return 0.5 * ((one > other).sum(-1, dtype=np.int32) + (one >= other).sum(-1, dtype=np.int32) + 1.0)
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    first = _positions(ordered)
    last = values.shape[-1] - 1 - _positions(ordered[..., ::-1])[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, 0.5 * (first + last) + 1.0, axis=-1)
    return ranks


def _positions(ordered: Scores) -> NDArray[np.int64]:
    """For sorted values, where the first of each value's equals stands."""
    starts = np.ones(ordered.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    places = np.where(starts, np.arange(ordered.shape[-1]), 0)
    result: NDArray[np.int64] = np.maximum.accumulate(places, axis=-1)
    return result


# ── the bound of one look ──

Scoring = Callable[[Numbers], Numbers]
"""From what runs of one arm came to, their scores: itself, unless scores depend on the other runs of the arm."""


def unchanged(values: Numbers) -> Numbers:
    """Scores that are what runs came to."""
    return values


def deviations(values: Numbers) -> Numbers:
    """Scores of a spread: how far each run lies from the middle of its arm; infinite where a run came to nothing."""
    known = np.isfinite(values)
    ordered = np.sort(np.where(known, values, np.inf), axis=-1)
    count = known.sum(-1, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum((count - 1 + place) // 2, 0), axis=-1) for place in (0, 1))
    middle = np.where(count > 0, 0.5 * (low + high), 0.0)
    return np.where(known, np.abs(np.where(known, values, 0.0) - middle), np.inf)


def bound(control: Strata, treatments: Mapping[str, Strata], rule: Rule, look: int, scoring: Scoring = unchanged) -> Bounds:
    """What the statistic must pass at a look (from 1).

    Several arms have several chances to be lucky: the bounds are then quantiles of the largest and the smallest statistic over arms when
    the runs of each look are dealt to the arms at random (max-T), at the levels that one arm would have at this look. Scores that are
    measured from the middle of their own arm depend on each other: the statistic then spreads further than a normal number, and the bounds
    move out by as much.
    """
    alone = rule.bounds[look - 1]
    if rule.per_look < NORMAL_FROM:
        alone = alone.raised(max((float(stretch_by_ties(control, strata)) for strata in treatments.values()), default=1.0))
    if scoring is not unchanged:
        return alone.raised(measure_stretch(control, treatments, scoring))
    if len(treatments) < 2:
        return alone
    dealt = _deal(control, treatments, scoring, PERMUTATIONS)
    smallest, largest = dealt.min(axis=0), dealt.max(axis=0)
    better = float(np.quantile(largest, 1.0 - stats.normal_tail(alone.better), method="higher"))
    worse = -float(np.quantile(smallest, stats.normal_tail(alone.worse), method="lower"))
    return Bounds(max(alone.better, better), max(alone.worse, worse))


def measure_stretch(control: Strata, treatments: Mapping[str, Strata], scoring: Scoring) -> float:
    """By how much bounds move out for scores that depend on their arm: at least 1, and further with the number of arms (Bonferroni)."""
    spreads = [1.0]
    for own in treatments.values():
        # Arms that lie at different heights may still be equal in spread: dealt out as they are, and moved to their own middles first.
        for moved in (False, True):
            sides = [[_to_middle(side) if moved else side for side in strata] for strata in (control[: len(own)], own)]
            sizes = tuple((len(theirs), len(ours)) for theirs, ours in zip(*sides, strict=True))
            # The looks of before are asked about again at every look.
            dealt = [
                _deal_look(np.concatenate(pair).tobytes(), sizes[: look + 1], scoring) for look, pair in enumerate(zip(*sides, strict=True))
            ]
            spreads.append(float(np.std(_combine(dealt))))
    arms = max(len(treatments), 1)
    several = stats.normal_quantile(1 - 0.02 / arms) / stats.normal_quantile(1 - 0.02)
    # The spread of four hundred deals is itself known to a few percent.
    return 1.03 * several * max(spreads)


def _to_middle(values: Scores) -> Scores:
    known = values[np.isfinite(values)]
    return values - np.median(known) if len(known) else values


def stretch_by_ties(control: Strata, treatment: Strata) -> Numbers:
    """By how much ties stretch the statistic: they lower its variance, while a few seeds are as likely to differ completely as before."""
    whole = 0.0
    left: Numbers = np.zeros(())
    for theirs, ours in zip(control, treatment, strict=False):
        n, m = theirs.shape[-1], ours.shape[-1]
        whole += n * m * (n + m + 1) / 12
        left = left + n * m * _mid_ranks(np.concatenate([theirs, ours], axis=-1)).var(-1) / max(n + m - 1, 1)
    return np.where(left > 1e-12, np.sqrt(whole / np.where(left > 1e-12, left, 1.0)), 1.0)


@lru_cache(maxsize=128)
def _deal_look(pooled: bytes, sizes: tuple[tuple[int, int], ...], scoring: Scoring) -> Placed:
    """Random deals of the runs of the last of some looks to two arms, scored and compared; the same ones for the same data."""
    rng = np.random.default_rng(20_230_517)
    for before in sizes[:-1]:
        rng.permuted(np.broadcast_to(np.arange(sum(before), dtype=np.float64), (DEALS, sum(before))), axis=1)
    shuffled = rng.permuted(np.broadcast_to(np.frombuffer(pooled), (DEALS, sum(sizes[-1]))), axis=1)
    return compare_runs(scoring(shuffled[:, : sizes[-1][0]]), scoring(shuffled[:, sizes[-1][0] :]))


def _deal(control: Strata, treatments: Mapping[str, Strata], scoring: Scoring, deals: int) -> Numbers:
    """The statistic of each arm in each of many random deals [arms, deals], always the same ones for the same data."""
    rng = np.random.default_rng(20_230_517)
    dealt: list[tuple[Scores, list[Scores]]] = []
    for look, theirs in enumerate(control):
        sides = [theirs, *(strata[look] for strata in treatments.values() if look < len(strata))]
        pooled = np.concatenate(sides)
        if scoring is unchanged:
            # Small whole numbers in the same order: the statistic is about ranks, and these are compared much faster.
            pooled = np.unique(pooled, return_inverse=True)[1].astype(np.int16)
        shuffled = rng.permuted(np.broadcast_to(pooled, (deals, len(pooled))), axis=1)
        parts = np.split(shuffled, np.cumsum([len(side) for side in sides])[:-1], axis=1)
        dealt.append((scoring(parts[0]), [scoring(part) for part in parts[1:]]))
    # Arms that a trial has dropped are not in later looks, and are not asked about any more.
    return np.stack(
        [
            statistics([parts[0] for parts in dealt[: len(strata)]], [parts[1][place] for parts in dealt[: len(strata)]])
            for place, strata in enumerate(treatments.values())
        ]
    )


def extension_bound(before: float, levels: tuple[float, float]) -> Bounds:
    """What the statistic of an extension's seeds alone must pass, given that of all seeds before.

    Under equal arms, half as many seeds again would lift the statistic of all seeds over a bound with the chance `levels`; what is left of
    that chance, once the first seeds are known, is the level of the new seeds (the conditional error: Proschan and Hunsberger 1995, Müller
    and Schäfer 2001). It is settled before they are drawn, so however many they are, and whatever made somebody add them, the error is
    at most `levels` on average.
    """
    sides = []
    for sign, level in zip((1.0, -1.0), levels, strict=True):
        whole = stats.normal_quantile(1.0 - level) * math.sqrt(1.0 + REFERENCE_EXTENSION)
        sides.append((whole - sign * before) / math.sqrt(REFERENCE_EXTENSION))
    return Bounds(*sides)


def pooled_bound(levels: tuple[float, float]) -> Bounds:
    """What all seeds together would have to pass at an extension: the bounds of its intervals."""
    return Bounds(*(stats.normal_quantile(1.0 - level) for level in levels))


# ── arrival: the second outcome ──


class Arrivals(NamedTuple):
    """How many runs of each arm got there (or did not collapse), of how many; numbers or arrays of them."""

    control: Numbers
    n: int
    treatment: Numbers
    m: int


def drop_z(arrivals: Arrivals) -> Numbers:
    """How far the runs speak of fewer arrivals under the treatment: a score test, about standard normal where shares are equal."""
    theirs, ours = np.asarray(arrivals.control) / arrivals.n, np.asarray(arrivals.treatment) / arrivals.m
    share = (np.asarray(arrivals.control) + np.asarray(arrivals.treatment)) / (arrivals.n + arrivals.m)
    spread = np.sqrt(share * (1.0 - share) * (1.0 / arrivals.n + 1.0 / arrivals.m))
    result: Numbers = (theirs - ours) / np.where(spread > 0, spread, np.inf)
    return result


def excludes_a_drop(arrivals: Arrivals, margin: float) -> NDArray[np.bool_]:
    """Whether a drop in arrival by the margin or more is excluded, one-sided at 5 %, by Newcombe's interval of two shares."""
    (ours, low), (theirs, high) = (
        _wilson(np.asarray(hits, dtype=np.float64), of, sign)
        for hits, of, sign in ((arrivals.treatment, arrivals.m, -1.0), (arrivals.control, arrivals.n, 1.0))
    )
    result: NDArray[np.bool_] = ours - theirs - np.hypot(ours - low, high - theirs) > -margin
    return result


def _wilson(hits: Numbers, of: int, sign: float) -> tuple[Numbers, Numbers]:
    """A share, and the lower (sign -1) or upper end of its one-sided score interval."""
    share, wide = hits / of, ARRIVAL_LEVEL**2 / of
    half = np.sqrt(wide * (share * (1.0 - share) + wide / 4.0))
    return share, np.clip((share + wide / 2.0 + sign * half) / (1.0 + wide), 0.0, 1.0)


def speaks_of_a_drop(arrivals: Arrivals, margin: float, limit: float | None = None) -> NDArray[np.bool_]:
    """Whether fewer arrivals stand in the way of adopting: the runs speak of a drop, and do not exclude one by the margin.

    With 8 or 16 seeds one run that fails where none of the control's did is enough: a treatment that fails in a quarter of its seeds
    shows none in a tenth of all cases with 8 seeds, in a hundredth with 16. With more seeds chance gets more room, since arms of equal
    arrival would else be held up.
    """
    limit = drop_limit(min(arrivals.n, arrivals.m)) if limit is None else limit
    result: NDArray[np.bool_] = (drop_z(arrivals) > limit) & ~excludes_a_drop(arrivals, margin)
    return result


def drop_limit(seeds: int) -> float:
    """The z of a drop in arrival that stands in the way of adopting, by the seeds of an arm."""
    return float(np.interp(seeds, *_DROPS))


# ── deciding ──

BETTER, WORSE, LESS_RELIABLE, OPEN = 1, -1, 2, 0
_CALLS: Final[dict[int, Call]] = {BETTER: "better", WORSE: "worse", LESS_RELIABLE: "less reliable"}


def decide(z: Numbers, bounds: Bounds, arrivals: Arrivals | None, margin: float, *, last: bool) -> NDArray[np.int64]:
    """What a look says about an arm: BETTER, WORSE, LESS_RELIABLE or OPEN; with any number of leading axes.

    Better ranks with fewer arrivals are no reason to adopt: it goes on, and is called LESS_RELIABLE at the last look, or as soon as
    the drop itself is beyond doubt.
    """
    crossed = np.where(z > bounds.better, BETTER, np.where(z < -bounds.worse, WORSE, OPEN))
    if arrivals is None:
        return crossed
    held = (crossed == BETTER) & speaks_of_a_drop(arrivals, margin)
    certain = drop_z(arrivals) > bounds.worse
    return np.where(held, np.where(certain | last, LESS_RELIABLE, OPEN), crossed)


def call(z: float, bounds: Bounds, arrivals: Arrivals | None = None, margin: float = 0.10, *, last: bool = False) -> Call | None:
    """What a look says about one arm, in a word."""
    return _CALLS.get(int(decide(np.asarray(z), bounds, arrivals, margin, last=last)))


def chance_of_better(z: Numbers, fraction: float, last: Bounds) -> Numbers:
    """Chance that an arm is still called better at the last look, if its effect is one that the trial sees in nine of ten cases.

    `fraction` of the seeds are in. Such a drift is generous to an arm that has shown less so far.
    """
    left = math.sqrt(1.0 - fraction)
    drift = last.better + stats.normal_quantile(0.9)
    away = (last.better - np.asarray(z) * math.sqrt(fraction) - drift * (1.0 - fraction)) / left
    return stats.normal_tails(away)


def is_futile(
    z: Numbers, fraction: float, last: Bounds, apart: Numbers | None = None, equivalence_bound: float = math.inf
) -> NDArray[np.bool_]:
    """Whether an arm may be given up with `fraction` of the seeds in: "better" is very unlikely, and equivalence out of reach.

    `apart` is how far effects of plus and minus the margin are told from none so far; None where there is no margin. An arm that may be
    worse is not given up.
    """
    hopeless = (z >= MAY_BE_WORSE) & (chance_of_better(z, fraction, last) < FUTILE)
    if apart is not None:
        hopeless = hopeless & (apart / math.sqrt(fraction) < equivalence_bound)
    return hopeless


def is_too_coarse(scores: Scores, spacing: float) -> NDArray[np.bool_]:
    """Whether the middle half of the runs that arrived lies within the spacing of evaluations: then equal steps show nothing."""
    ordered, count = np.sort(scores, axis=-1), np.isfinite(scores).sum(-1, keepdims=True)
    ordered, most = np.where(np.isfinite(ordered), ordered, 0.0), np.maximum(count - 1, 0)
    ends = []
    for quantile in (0.25, 0.75):
        below = np.floor(quantile * most).astype(np.int64)
        low, high = (np.take_along_axis(ordered, np.minimum(below + more, most), axis=-1) for more in (0, 1))
        ends.append((low + (high - low) * (quantile * most - below))[..., 0])
    middle_half = ends[1] - ends[0]
    result: NDArray[np.bool_] = (middle_half <= 0) | (middle_half < spacing * (1.0 - _SMALLEST))
    return result


# ── intervals ──


def ratio_test(control: Strata, treatment: Strata, horizon: float = math.inf, spacing: float = 0.0) -> Test:
    """The statistic of "the treatment takes r times what the control takes", by the log of r; it rises with r.

    Runs that did not get there before `horizon` score infinity. For every ratio r the control's scores are stretched by r, and both
    arms are cut at what both could still see, min(horizon, r x horizon). `spacing` of evaluations: a run that is seen to be there got
    there at any moment since the evaluation before, each as likely. So a tie stays a tie at r = 1, and is broken by degrees, not at
    once, when r moves away from it.
    """
    placements = ratio_placements(control, treatment, horizon, spacing)
    return lambda logs: _combine(placements(logs))


def ratio_placements(control: Strata, treatment: Strata, horizon: float = math.inf, spacing: float = 0.0) -> Placements:
    """The comparisons that `ratio_test` adds up."""
    end = max(horizon - spacing / 2.0, _SMALLEST)

    def place(logs: Numbers) -> list[Placed]:
        ratios = np.exp(np.asarray(logs, dtype=np.float64))[..., None]
        # A hair: the same number reached by two ways of rounding must count as the same.
        cut = np.minimum(end, end * ratios) * (1.0 + 1e-9)
        return [_place_cells(theirs, ours, ratios, cut, spacing) for theirs, ours in zip(control, treatment, strict=False)]

    return place


def _place_cells(control: Scores, treatment: Scores, ratios: Numbers, cut: Numbers, spacing: float) -> Placed:
    """A stratum's comparisons when times lie anywhere between two evaluations, and the control's are stretched."""
    theirs, ours = (np.maximum(side - spacing / 2.0, _SMALLEST) for side in (control, treatment))
    theirs, ours = _cut(theirs * ratios, cut), _cut(ours + 0.0 * ratios, cut)
    if spacing <= 0:
        return compare_runs(theirs, ours)
    wide = 0.5 * spacing * ratios[..., None]
    earlier = _chance_earlier(ours[..., :, None], 0.5 * spacing, theirs[..., None, :], wide)
    return Placed(earlier.sum(-2), earlier.sum(-1), _mid_ranks(theirs), _mid_ranks(ours))


def _chance_earlier(ours: Numbers, half: float, theirs: Numbers, other_half: Numbers) -> Numbers:
    """P(U < V) for U within `half` of ours and V within `other_half` of theirs, uniform; half where neither got there."""
    finite = np.isfinite(ours) & np.isfinite(theirs)
    mine, other = np.where(finite, ours, 0.0), np.where(finite, theirs, 0.0)
    low, high = (_integral(other + sign * other_half - mine, half) for sign in (-1.0, 1.0))
    inside = (high - low) / (2.0 * other_half)
    never = np.where(np.isfinite(ours), 1.0, np.where(np.isfinite(theirs), 0.0, 0.5))
    return np.where(finite, inside, never)


def _integral(x: Numbers, half: float) -> Numbers:
    """The integral up to x of the distribution function of a uniform number within `half` of 0."""
    return np.where(x <= -half, 0.0, np.where(x >= half, x, (x + half) ** 2 / (4.0 * half)))


def ratio(control: Strata, treatment: Strata, limits: Bounds, horizon: float = math.inf, spacing: float = 0.0) -> Interval:
    """Treatment's scores over control's (steps, seconds): below 1 the treatment needs less; see `ratio_test`.

    Where the control never got there, the low end is 0 and there is no value: "at least so much fewer". Where all runs were seen at the
    same evaluation, they may have got there at any moment since the one before.
    """
    scores = np.concatenate([*control, *treatment])
    if np.isfinite(scores[0]) and np.all(scores == scores[0]):
        low = max(float(scores[0]) - spacing, 0.0) / max(float(scores[0]), _SMALLEST)
        return Interval(1.0, low, 1.0 / low if low > 0 else math.inf)
    return invert_ratio(ratio_test(control, treatment, horizon, spacing), limits)


def invert_ratio(test: Test, limits: Bounds) -> Interval:
    """The ratios that a test of log ratios does not refuse."""
    edge = math.log(_LARGEST_RATIO)
    return Interval(*(math.exp(end) for end in _invert(test, -edge, edge, limits)))


def _cut(scores: Scores, end: Numbers) -> Scores:
    return np.where(scores > end, np.inf, scores)


def shift_test(control: Strata, treatment: Strata) -> Test:
    """The statistic of "the treatment's scores are lower by a gain", by the gain; it rises with it."""

    placements = shift_placements(control, treatment)
    return lambda gains: -_combine(placements(gains))


def shift_placements(control: Strata, treatment: Strata) -> Placements:
    """The comparisons that `shift_test` adds up, with the other sign."""

    def place(gains: Numbers) -> list[Placed]:
        moved = np.asarray(gains, dtype=np.float64)[..., None]
        return [compare_runs(theirs + 0.0 * moved, ours + moved) for theirs, ours in zip(control, treatment, strict=False)]

    return place


def add_up(placements: Sequence[Placements], units: Sequence[float], sign: float) -> Test:
    """One test over several environments: the same effect is supposed in each, counted in its own unit."""

    def z(effects: Numbers) -> Numbers:
        supposed = np.asarray(effects, dtype=np.float64)
        return sign * _combine([placed for place, unit in zip(placements, units, strict=True) for placed in place(supposed * unit)])

    return z


def shift(control: Strata, treatment: Strata, limits: Bounds) -> Interval:
    """How much lower the treatment's scores are than the control's: the gain, where a score is minus a return."""
    finite = [np.subtract.outer(c[np.isfinite(c)], t[np.isfinite(t)]).ravel() for c, t in zip(control, treatment, strict=False)]
    gaps = np.concatenate(finite) if finite else np.empty(0)
    if not len(gaps):
        return Interval(math.nan, -math.inf, math.inf)
    width = max(float(gaps.max() - gaps.min()), 0.01 * abs(float(gaps.max())), _SMALLEST)
    low, high = float(gaps.min()) - 0.05 * width, float(gaps.max()) + 0.05 * width
    return invert_shift(shift_test(control, treatment), low, high, limits)


def invert_shift(test: Test, low: float, high: float, limits: Bounds) -> Interval:
    """The gains between two numbers that a test does not refuse."""
    # A gain of g is refused from below where the treatment is better than that: the sides change places.
    return _invert(test, low, high, Bounds(limits.worse, limits.better))


def refuses_both(test: Test, margin: float, limit: float) -> NDArray[np.bool_]:
    """Whether effects of -margin and of margin are both refused, each from its own side: what is left is smaller."""
    result: NDArray[np.bool_] = (test(np.array(-margin)) < -limit) & (test(np.array(margin)) > limit)
    return result


def tell_apart(test: Test, margin: float) -> Numbers:
    """How far effects of plus and minus the margin are told from none: half of what lies between their statistics."""
    return 0.5 * (test(np.array(margin)) - test(np.array(-margin)))


def _invert(z: Test, low: float, high: float, limits: Bounds) -> Interval:
    """The effects that the test does not refuse, and the one that it refuses least; z falls to the left of it, and rises to the right.

    An effect at the edge of what was tried that is not refused has no end on that side.
    """
    grid = np.linspace(low, high, _GRID)
    values = z(grid)
    kept = np.flatnonzero(_keeps(values, limits))
    middle = _crossing(z, grid, values)
    if not len(kept):
        if math.isnan(middle):
            # Every effect that was tried is refused from the same side: the true one lies beyond.
            return Interval(math.nan, high, math.inf) if values[-1] < 0 else Interval(math.nan, -math.inf, low)
        # So many seeds that all of it lies between two points of the grid.
        place = int(np.searchsorted(grid, middle))
        return Interval(middle, _edge(z, grid[max(place - 1, 0)], middle, limits), _edge(z, grid[min(place, _GRID - 1)], middle, limits))
    first, last = int(kept[0]), int(kept[-1])
    left = -math.inf if first == 0 else _edge(z, grid[first - 1], grid[first], limits)
    right = math.inf if last == _GRID - 1 else _edge(z, grid[last + 1], grid[last], limits)
    return Interval(middle, left, right)


def _keeps(values: Numbers, limits: Bounds) -> NDArray[np.bool_]:
    return (values <= limits.better) & (values >= -limits.worse)


def _edge(z: Test, refused: float, kept: float, limits: Bounds) -> float:
    return _bisect(lambda effects: ~_keeps(z(effects), limits), refused, kept)[0]


def _bisect(is_first: Callable[[Numbers], NDArray[np.bool_]], first: float, last: float) -> tuple[float, float]:
    """Two neighbours where the answer changes, after halving what lies between `first` and `last` again and again.

    Every middle that the next halvings could come to is asked about in one call: a call costs more than its numbers.
    """
    for done in range(0, _HALVINGS, _AT_ONCE):
        depth = min(_AT_ONCE, _HALVINGS - done)
        points = np.array([first, last])
        for _ in range(depth):
            points = np.insert(points, np.arange(1, len(points)), 0.5 * (points[:-1] + points[1:]))
        answers = is_first(points[1:-1])
        low, high = 0, len(points) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if answers[middle - 1] else (low, middle)
        first, last = float(points[low]), float(points[high])
    return first, last


def _crossing(z: Test, grid: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Where the statistic passes 0, the middle of it where it is 0 for a while; NaN if it never does (one arm never got there)."""
    below, above = np.flatnonzero(values < 0), np.flatnonzero(values > 0)
    if not len(below) or not len(above):
        return math.nan
    ends = []
    for sign in (1.0, -1.0):
        low, high = grid[below[-1]], grid[above[above > below[-1]][0]] if (above > below[-1]).any() else grid[above[-1]]
        low, high = _bisect((lambda effects: z(effects) <= 0) if sign > 0 else (lambda effects: z(effects) < 0), low, high)
        ends.append(0.5 * (low + high))
    return 0.5 * (ends[0] + ends[1])


def improvement(control: Strata, treatment: Strata, limits: Bounds) -> Interval:
    """P(a treated run beats an untreated one), a tie counting half, with Newcombe's (2006) score interval, which is not empty at 1."""
    placed = [compare_runs(theirs, ours) for theirs, ours in zip(control, treatment, strict=False)]
    weights = [each.control.shape[-1] * each.treatment.shape[-1] for each in placed]
    seen = float(sum(each.treatment.sum() for each in placed)) / sum(weights)
    n, m = (sum(side.shape[-1] for side in sides) for sides in zip(*((each.control, each.treatment) for each in placed), strict=True))
    thetas = np.linspace(0.0, 1.0, 2_001)
    half = (n + m) / 2.0 - 1.0
    spread = np.sqrt(thetas * (1 - thetas) * (1 + half * ((1 - thetas) / (2 - thetas) + thetas / (1 + thetas))) / (n * m))
    kept = thetas[(seen - thetas <= limits.better * spread + 1e-12) & (thetas - seen <= limits.worse * spread + 1e-12)]
    return Interval(seen, float(kept.min(initial=seen)), float(kept.max(initial=seen)))


def proportions(control: tuple[int, int], treatment: tuple[int, int], limit: float) -> Interval:
    """Difference of two shares, each (count, of), at the level of `limit`."""
    found = stats.share_difference(treatment, control, level=1.0 - 2.0 * stats.normal_tail(limit))
    low, high = (-1.0 if found.low is None else found.low), (1.0 if found.high is None else found.high)
    return Interval(found.value, max(-1.0, low), min(1.0, high))


def means_within(control: Numbers, treatment: Numbers, margin: float, level: float = ARRIVAL_LEVEL) -> NDArray[np.bool_]:
    """Whether the means of two arms surely differ by less than the margin; where ranks see only the middle, means see the runs that fell.

    Two one-sided t-tests with separate spreads; arms without any spread are compared as they are.
    """
    return shared_mean_within([control], [treatment], margin, level)


def shared_mean_within(control: Strata, treatment: Strata, margin: float, level: float = ARRIVAL_LEVEL) -> NDArray[np.bool_]:
    """The same of the difference of means that several environments have on average."""
    difference: Numbers = np.zeros(())
    variance: Numbers = np.zeros(())
    freedom = 0
    for theirs, ours in zip(control, treatment, strict=True):
        difference = difference + ours.mean(-1) - theirs.mean(-1)
        variance = variance + ours.var(-1, ddof=1) / ours.shape[-1] + theirs.var(-1, ddof=1) / theirs.shape[-1]
        freedom += min(ours.shape[-1], theirs.shape[-1]) - 1
    difference, error = difference / len(control), np.sqrt(variance) / len(control)
    gaps = [(margin + sign * difference) / np.maximum(error, _SMALLEST) for sign in (1.0, -1.0)]
    result: NDArray[np.bool_] = np.logical_and(*(as_normal(gap, freedom) > level for gap in gaps))
    return result


def log_times(scores: Scores, horizon: float) -> Numbers:
    """Logs of times; a run that never got there counts as one that did at the very end."""
    return np.log(np.maximum(np.minimum(scores, horizon), _SMALLEST))


def seeds_needed(effect: Interval, seeds: int, margin: float, limits: Bounds, later: Bounds) -> int | None:
    """Seeds an arm by which the effect is probably told from 0, or shown to be within the margin; None if nothing can be said.

    `effect` is on a scale on which 0 is no effect and `margin` a small one (log ratio, or a shift). The true effect is not the one that
    was seen: of those that are as likely as not (within 0.84 standard errors), the one that takes most seeds counts, and it is to be
    shown in four of five cases. `limits` made the interval; `later` is what all seeds together must pass.
    """
    half = 0.5 * (effect.high - effect.low)
    if not (math.isfinite(half) and math.isfinite(effect.value)) or margin <= 0 or half <= 0:
        return None
    error = 2.0 * half / (limits.better + limits.worse)
    near = np.abs(np.linspace(effect.value - 0.84 * error, effect.value + 0.84 * error, 41))
    # Far from 0 it is told from 0; near 0, from the margin. In between, both are equally far.
    distance = float(np.maximum(near, margin - near).min())
    return math.ceil(seeds * max(1.0, ((later.better + 0.84) * error / distance) ** 2))
