"""One side against another: effects with intervals, tests, and a verdict in a word."""

import bisect
import math
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.comparison.models import Contrast, Interval, Pair, Verdict
from rlclinic.comparison.outcomes import Reading, arrived, fill, times, wall_times

ALPHA: Final = 0.05
LEAST_FOR_SPREAD: Final = 8
"""With four seeds a side, of which a fifth collapses, spreads that are equal would be called different in 14 % of all cases."""
MOST_SEEDS: Final = 1_000
"""More are not worth a suggestion."""
RETURN, STEPS, WALL, SPREAD = "return", "env steps to the threshold", "seconds to the threshold", "spread over seeds"
NOBODY: Final = "no run of either side reached it: there is nothing to compare"
_ONE = "n = 1, not assessable: one seed has no spread to judge luck by"


def compare_pair(
    first: tuple[str, Sequence[Reading]],
    second: tuple[str, Sequence[Reading]],
    lowest: float,
    horizon: float | None,
    questions: int = 1,
) -> Pair:
    """The second side against the first; horizon: the env step up to which arrivals at the threshold are counted (None: no threshold).

    p-values are not corrected yet: `decide` does that for the whole comparison, which asks so many `questions`.
    """
    (one, ours), (other, theirs) = first, second
    before, after = (fill([run.common for run in runs], lowest) for runs in (ours, theirs))
    contrasts = [_contrast_returns(before, after)]
    reached = None
    if horizon is not None:
        contrasts += _contrast_times(ours, theirs, horizon)
        hits = [(sum(arrived(run, horizon) for run in runs), len(runs)) for runs in (theirs, ours)]
        reached = Interval.of(stats.share_difference(*hits)) if min(len(ours), len(theirs)) > 1 else None
    few = min(len(before), len(after)) < 2
    return Pair(
        first=one,
        second=other,
        verdict="not assessable",
        reason="",
        contrasts=contrasts,
        improvement=None if few else Interval.of(stats.improvement(after, before)),
        reached=reached,
        detectable=None if few else find_detectable(before, after, questions),
        seeds_needed=None if few else find_seeds_needed(before, after, questions),
        smallest_p=None if few else _smallest_p(len(before), len(after)),
        spread=None if few else _contrast_spread(before, after),
        collapsed=None if few else count_collapsed(before, after),
        sizes=(len(before), len(after)),
    )


def decide(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with p-values corrected over all their verdicts (Holm), and the verdicts."""
    deciding = [contrast for pair in pairs for contrast in pair.contrasts if contrast.outcome in (RETURN, STEPS) and contrast.p is not None]
    corrected = dict(zip(map(id, deciding), stats.holm([contrast.p or 0.0 for contrast in deciding]), strict=True))
    decided = []
    for pair in pairs:
        contrasts = [contrast.model_copy(update={"p_holm": corrected.get(id(contrast))}) for contrast in pair.contrasts]
        verdict, reason = _decide_verdict(contrasts, pair, len(deciding))
        reason = "; ".join([reason, *_describe_seeds(pair)])
        decided.append(pair.model_copy(update={"contrasts": contrasts, "verdict": verdict, "reason": reason}))
    return decided


def count_collapsed(before: Sequence[float], after: Sequence[float]) -> tuple[int, int] | None:
    """Runs of each side far below those of the side with the higher median; None where the other side is lower as a whole."""
    higher = max(before, after, key=lambda side: float(np.median(side)))
    bound = float(stats.find_collapse_bound(higher))
    if min(float(np.median(before)), float(np.median(after))) < bound:
        return None
    return sum(value < bound for value in before), sum(value < bound for value in after)


def _contrast_returns(before: Sequence[float], after: Sequence[float]) -> Contrast:
    difference = float(np.mean(after) - np.mean(before))
    test = stats.compare_means(after, before)
    made = _contrast(RETURN, difference, None, test, "means; spreads may differ" if test else _ONE, difference)
    return made.model_copy(update={"middle": Interval.of(stats.estimate_difference(after, before))})


def _contrast_times(ours: Sequence[Reading], theirs: Sequence[Reading], end: float) -> list[Contrast]:
    contrasts = []
    sides: list[tuple[str, stats.Times | None, stats.Times | None]] = [
        (STEPS, times(ours, end), times(theirs, end)),
        (WALL, wall_times(ours), wall_times(theirs)),
    ]
    for name, before, after in sides:
        if before is None or after is None:
            continue
        horizon = end if name == STEPS else stats.shared_horizon(before, after)
        if horizon <= 0:
            continue
        if not (before.reached.any() or after.reached.any()):
            contrasts.append(_contrast(name, None, None, None, NOBODY, 0.0))
            continue
        difference = stats.restricted_times(after, horizon) - stats.restricted_times(before, horizon)
        ratio, middle = stats.geometric_ratio(after, before, horizon), stats.middle_ratio(after, before, horizon)
        test = stats.compare_times(after, before, horizon)
        why = _ONE if test is None else f"{int((~before.reached).sum() + (~after.reached).sum())} runs censored"
        # By the statistic: where a run was followed for less than the others, the ratio is not what was tested.
        made = _contrast(name, difference, ratio, test, why, 0.0 if test is None else test.statistic)
        contrasts.append(made.model_copy(update={"middle": None if middle is None else Interval.of(middle)}))
    return contrasts


def _contrast(
    name: str, difference: float | None, ratio: float | None, test: stats.TestResult | None, why: str, direction: float
) -> Contrast:
    return Contrast(
        outcome=name,
        difference=Interval(value=difference),
        ratio=None if ratio is None else Interval(value=ratio),
        p=None if test is None else test.p,
        p_holm=None,
        statistic=None if test is None or not math.isfinite(test.statistic) else test.statistic,
        method="not assessable" if test is None else test.method,
        why=why,
        better=None if test is None or direction == 0 else direction > 0,
    )


def find_detectable(before: Sequence[float], after: Sequence[float], questions: int) -> float:
    """The true difference of means that would be shown in 80 of 100 cases, with this spread and these seeds.

    (t(1 - alpha/2) + t(0.8)) standard errors, for the level that Holm's correction leaves to the first of so many questions. The error
    comes from the same few seeds: 1 + 1/n makes up for the half of the cases in which it is too small. In seeds that scatter as these do.
    """
    few = min(len(before), len(after))
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    return (1 + 1 / few) * _errors_needed(few, questions) * math.sqrt(sum(parts))


def find_seeds_needed(before: Sequence[float], after: Sequence[float], questions: int) -> int | None:
    """Seeds a side for which the difference that was seen would be the detectable one; None where that takes more than are worth it."""
    difference = abs(float(np.mean(after) - np.mean(before)))
    spread = (1 + 1 / min(len(before), len(after))) ** 2 * float(np.var(before, ddof=1) + np.var(after, ddof=1))
    if difference == 0 or spread == 0:
        return None
    seeds = range(2, MOST_SEEDS + 1)
    # Fewer seeds have larger errors and fewer degrees of freedom: the first number that is enough is found by halving.
    place = bisect.bisect_left(seeds, True, key=lambda n: _errors_needed(n, questions) ** 2 * spread / n <= difference**2)
    return seeds[place] if place < len(seeds) else None


@cache
def _errors_needed(seeds: int, questions: int) -> float:
    """Standard errors that a true difference must have to be shown in 80 of 100 cases with so many seeds a side."""
    freedom = 1.5 * (seeds - 1)  # between those of equal spreads, 2 (n - 1), and of a side without any, n - 1
    return stats.student_quantile(1 - ALPHA / (2 * questions), freedom) + stats.student_quantile(0.8, freedom)


def _smallest_p(m: int, n: int) -> float:
    """Of a permutation test: one of all ways to deal the seeds out, in either direction."""
    return 2 / math.comb(m + n, m)


def _enough_seeds(questions: int) -> int:
    """Seeds a side from which on a permutation test can show anything at all, corrected for so many questions."""
    return next(n for n in range(2, 100) if questions * _smallest_p(n, n) < ALPHA)


def _contrast_spread(before: Sequence[float], after: Sequence[float]) -> Contrast | None:
    """Brown and Forsythe's idea: do the distances from the side's own median differ?"""
    if min(len(before), len(after)) < LEAST_FOR_SPREAD:
        return None
    theirs, ours = (np.abs(np.asarray(side) - np.median(side)) for side in (after, before))
    test = stats.compare_means(theirs, ours)
    difference = float(theirs.mean() - ours.mean())
    return _contrast(SPREAD, difference, None, test, "distances from the side's own median", -difference)


def _decide_verdict(contrasts: Sequence[Contrast], pair: Pair, questions: int) -> tuple[Verdict, str]:
    deciding = [contrast for contrast in contrasts if contrast.p_holm is not None]
    if not deciding:
        return "not assessable", contrasts[0].why
    # Higher returns and fewer steps are better.
    shown = {contrast.outcome: contrast.better for contrast in deciding if contrast.p_holm is not None and contrast.p_holm < ALPHA}
    if not shown:
        return "no difference shown", _undetected(pair, questions)
    better = [name for name, up in shown.items() if up]
    if len(better) in (0, len(shown)):
        return ("better" if better else "worse"), f"shown in {' and '.join(shown)}"
    return "mixed", "; ".join(f"{'better' if up else 'worse'} in {name}" for name, up in shown.items())


def _describe_seeds(pair: Pair) -> list[str]:
    """What a difference of means does not say: seeds that collapsed, and spreads that differ."""
    remarks = []
    if pair.collapsed is not None and pair.collapsed[0] != pair.collapsed[1]:
        sides = zip(pair.collapsed, pair.sizes, (pair.first, pair.second), strict=True)
        remarks.append("collapsed: " + ", ".join(f"{count} of {size} seeds of {label}" for count, size, label in sides))
    elif pair.spread is not None and pair.spread.p is not None and pair.spread.p < ALPHA:
        wider = pair.first if pair.spread.better else pair.second
        remarks.append(f"the seeds of {wider} scatter more")
    return remarks


def _undetected(pair: Pair, questions: int) -> str:
    if pair.smallest_p is not None and pair.smallest_p * questions >= ALPHA:
        asked = f" for each of {questions} questions" if questions > 1 else ""
        best = f"p is {pair.smallest_p:.2g} at best{asked}"
        return f"so few seeds cannot show any difference ({best}): {_enough_seeds(questions)} a side or more"
    if pair.detectable is None or pair.detectable == 0:
        return "the seeds do not differ by more than luck"
    said = f"with seeds that scatter as these do, a difference in return of {pair.detectable:.3g} would be seen in 8 of 10 cases"
    if pair.seeds_needed is None or pair.seeds_needed > MOST_SEEDS:
        return f"{said}; smaller ones may be there"
    return f"{said}; the one that was seen would take about {pair.seeds_needed} seeds a side"
