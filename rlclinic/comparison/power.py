"""What a gate would do with candidates of a known loss: simulated from the baseline's own seeds."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.comparison.models import Interval
from rlclinic.comparison.regression import (
    LOSSES,
    Baseline,
    Flags,
    Gate,
    Look,
    Power,
    binary,
    count_failures,
    decide,
    decide_by_shares,
    scale,
    scores,
    values,
    worsen,
)
from rlclinic.runs.history import Column

CASES: Final = 2_000
SETTLED: Final = 0.85
MOST: Final = 1_000
"""More seeds than this are not worth a suggestion."""


def simulate(kept: Baseline, rule: Gate, losses: Sequence[float] = LOSSES, *, cases: int = CASES, seed: int = 0) -> list[Power]:
    """How often the gate alarms and passes, for each true loss; baseline and candidate are drawn anew from the baseline's runs."""
    data = values(kept, rule.outcome, kept.env_steps)
    if len(data) < 2:
        return []
    size = scale(data, rule.outcome)
    return [_simulated(data, worsen(data, rule.outcome, loss, size, kept.env_steps), rule, loss, kept, cases, seed) for loss in losses]


def _simulated(data: Column, worse: Column, rule: Gate, loss: float, kept: Baseline, cases: int, seed: int) -> Power:
    rng = np.random.default_rng(seed)
    before = data[rng.integers(len(data), size=(cases, len(data)))]
    if binary(rule.outcome, data):
        # A loss of success is fewer runs that make it, not runs that make it less.
        share = min(max(float(-data.mean()) - loss, 0.0), 1.0)
        after = -(rng.random((cases, rule.looks * rule.per_look)) < share).astype(np.float64)
    else:
        after = worse[rng.integers(len(worse), size=(cases, rule.looks * rule.per_look))]
    alarmed, passed, seeds = run_gate(before, after, rule, kept.env_steps)
    return Power(loss=loss, alarm=float(alarmed.mean()), passed=float(passed.mean()), seeds=float(seeds.mean()))


def run_gate(before: Column, after: Column, rule: Gate, horizon: float) -> tuple[Flags, Flags, Column]:
    """Which cases end in an alarm, which pass, and after how many seeds of the candidate; rows of `values` are separate cases."""
    cases = len(before)
    alarmed, passed, seeds = np.zeros(cases, dtype=bool), np.zeros(cases, dtype=bool), np.zeros(cases)
    for look in range(1, rule.looks + 1):
        open_cases = ~(alarmed | passed)
        so_far = look * rule.per_look
        seeds[open_cases] = so_far
        alarms, passes = _decide_look(before, after[:, :so_far], rule, rule.bounds[look - 1], horizon)
        passed |= open_cases & passes
        alarmed |= open_cases & alarms & ~passes
    return alarmed, passed, seeds


def _decide_look(before: Column, after: Column, rule: Gate, bound: float, horizon: float) -> tuple[Flags, Flags]:
    if not binary(rule.outcome, before):
        failed = count_failures(before, after, rule.outcome)
        return decide(*scores(before, after, rule, horizon), failed, (before.shape[1], after.shape[1]), bound, rule)
    level = 1 - 2 * stats.normal_tail(bound)
    known: dict[tuple[int, int], str] = {}
    made = []
    for ours, theirs in zip((-after).sum(axis=1).astype(int).tolist(), (-before).sum(axis=1).astype(int).tolist(), strict=True):
        if (ours, theirs) not in known:
            effect = stats.share_difference((ours, after.shape[1]), (theirs, before.shape[1]), level=level)
            known[ours, theirs] = decide_by_shares(Interval.of(effect), rule.margin)
        made.append(known[ours, theirs])
    return np.array([each == "regression" for each in made]), np.array([each == "passed" for each in made])


def seeds_needed(kept: Baseline, rule: Gate, last: Look) -> tuple[int, int] | None:
    """Seeds of the candidate and of the baseline that would settle it in `SETTLED` of all cases; None if that is out of reach.

    The loss is known up to an error: in units of information I = 1 / (1/n + 1/m), z of the alarm is normal about θ√I, and z of the pass is
    (δ - θ)√I with the margin δ. After more seeds, given these, z of the alarm is normal about its present estimate of θ times √I, with
    variance I / I_now - 1: what the estimate does not know, and what the new seeds add. It is settled once either exceeds its bound.
    """
    if last.alarm is None or last.passing is None or last.passing > last.bound:
        return None
    n, m, bound = len(kept.seeds), last.seeds, rule.bounds[-1]
    now = 1 / (1 / n + 1 / m)
    margin = (last.alarm + last.passing) / math.sqrt(now)
    if margin <= 0:
        return None
    for wanted in np.geomspace(1.05 * now, (2 * bound / margin) ** 2 + 1.1 * now, 200).tolist():
        root, spread = math.sqrt(wanted), math.sqrt(wanted / now - 1)
        centre = last.alarm * math.sqrt(wanted / now)
        ends = [stats.normal_tail((end - centre) / spread) for end in (margin * root - bound, bound)]
        if ends[0] - ends[1] <= 1 - SETTLED:
            break
    if wanted < 0.8 * n:
        more = math.ceil(1 / (1 / wanted - 1 / n))
        return (max(more, m + 1), n) if more <= MOST else None
    both = math.ceil(2 * wanted)
    return (both, both) if both <= MOST else None
