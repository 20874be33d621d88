"""What a gate would do with candidates of a known loss: simulated from the baseline's own seeds."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats
from rlclinic.comparison.models import Interval
from rlclinic.comparison.regression import LOSSES, Baseline, Gate, Look, Power, binary, decided_by, scale, scores, values, worsened
from rlclinic.runs.history import Column

CASES: Final = 2_000
Flags = NDArray[np.bool_]
MOST: Final = 1_000
"""More seeds than this are not worth a suggestion."""


def simulate(kept: Baseline, rule: Gate, losses: Sequence[float] = LOSSES, *, cases: int = CASES, seed: int = 0) -> list[Power]:
    """How often the gate alarms and passes, for each true loss; baseline and candidate are drawn anew from the baseline's runs."""
    data = values(kept, rule.outcome, kept.env_steps)
    if len(data) < 2:
        return []
    size = scale(data, rule.outcome)
    return [_simulated(data, worsened(data, rule.outcome, loss, size, kept.env_steps), rule, loss, kept, cases, seed) for loss in losses]


def _simulated(data: Column, worse: Column, rule: Gate, loss: float, kept: Baseline, cases: int, seed: int) -> Power:
    rng = np.random.default_rng(seed)
    before = data[rng.integers(len(data), size=(cases, len(data)))]
    if binary(rule.outcome, data):
        # A loss of success is fewer runs that make it, not runs that make it less.
        share = min(max(float(-data.mean()) - loss, 0.0), 1.0)
        after = -(rng.random((cases, rule.looks * rule.per_look)) < share).astype(np.float64)
    else:
        after = worse[rng.integers(len(worse), size=(cases, rule.looks * rule.per_look))]
    alarmed, passed, seeds = np.zeros(cases, dtype=bool), np.zeros(cases, dtype=bool), np.zeros(cases)
    for look in range(1, rule.looks + 1):
        open_cases = ~(alarmed | passed)
        so_far = look * rule.per_look
        seeds[open_cases] = so_far
        alarms, passes = _decisions(before, after[:, :so_far], rule, rule.bounds[look - 1], kept.env_steps)
        passed |= open_cases & passes
        alarmed |= open_cases & alarms & ~passes
    return Power(loss=loss, alarm=float(alarmed.mean()), passed=float(passed.mean()), seeds=float(seeds.mean()))


def _decisions(before: Column, after: Column, rule: Gate, bound: float, horizon: float) -> tuple[Flags, Flags]:
    if not binary(rule.outcome, before):
        alarm, passing = scores(before, after, rule, horizon)
        return alarm > bound, passing > bound
    level = 1 - 2 * stats.normal_tail(bound)
    known: dict[tuple[int, int], str] = {}
    made = []
    for ours, theirs in zip((-after).sum(axis=1).astype(int).tolist(), (-before).sum(axis=1).astype(int).tolist(), strict=True):
        if (ours, theirs) not in known:
            effect = stats.share_difference((ours, after.shape[1]), (theirs, before.shape[1]), level=level)
            known[ours, theirs] = decided_by(Interval.of(effect), rule.margin)
        made.append(known[ours, theirs])
    return np.array([each == "regression" for each in made]), np.array([each == "passed" for each in made])


def seeds_needed(kept: Baseline, rule: Gate, last: Look) -> tuple[int, int] | None:
    """Seeds of the candidate and of the baseline that would settle it, if what was seen holds; None if that is out of reach."""
    nearer = max((z for z in (last.alarm, last.passing) if z is not None), default=0.0)
    if nearer <= 0.05:
        return None
    n, m = len(kept.seeds), last.seeds
    wanted = (rule.bounds[-1] / nearer) ** 2 / (1 / n + 1 / m)
    if wanted < 0.8 * n:
        return min(math.ceil(1 / (1 / wanted - 1 / n)), MOST), n
    both = math.ceil(2 * wanted)
    return (both, both) if both <= MOST else None
