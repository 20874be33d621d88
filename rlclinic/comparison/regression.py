"""A convergence gate: is a candidate worse than a baseline, with stated error rates?

Two one-sided questions are asked of the same seeds, each by a rank test that counts runs which never got there last:

    alarm   the candidate is worse than the baseline          a false alarm in at most alpha of all cases
    pass    the candidate is not worse by more than a margin  a wrong pass in at most alpha of all cases

A candidate that is trained for the occasion is looked at several times, after each batch of seeds; O'Brien and Fleming's bounds
keep both rates over all looks together.

A rank test sees seeds that collapse late: where three quarters of the seeds are as good as ever, the middle of them is, too. So failures
are counted as well (`count_failures`: runs that never arrived, lost it again, or collapsed), and

    a pass        needs that no larger share of the candidate's runs failed, up to FAILURES_ALLOWED, and that nothing alarms
    a regression  is also called where more of its runs failed by Fisher's exact test at FAILURES_ALPHA

A candidate that is shown to be worse, and also shown to be worse by less than the margin, is neither: "undecided" says so. Of steps and
seconds that holds for a margin that somebody gave; the usual one is wide, and what is shown is a regression. What so few seeds cannot
exclude stands beside a pass: the share of failures that would still give what was seen in 5 % of cases.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlclinic import stats
from rlclinic.actions import Action, Argument
from rlclinic.comparison import outcomes
from rlclinic.comparison.models import ComparisonPart, Interval
from rlclinic.comparison.sides import Side
from rlclinic.errors import UsageError
from rlclinic.runs.history import Column
from rlclinic.runs.outcome import usual_margin

KIND: Final = "rlclinic baseline"
SCHEMA_VERSION: Final = 1
GateOutcome = Literal["steps", "return", "success", "wall"]
Decision = Literal["passed", "regression", "undecided"]
Flags = NDArray[np.bool_]
FAILURES_ALLOWED: Final = 0.05
"""How much larger the candidate's share of failed runs may be in a pass. One of 16 is more than that: of candidates of which a quarter
collapses, 6 % would show one or none of 16."""
FEWEST_TO_PASS: Final = 8
"""Seeds of a candidate without which nothing passes. Of candidates of which a quarter collapses, a tenth shows none of it in 8 seeds, and a
hundredth in 16; in 4 a third does."""
FAILURES_ALPHA: Final = 0.0025
"""A false alarm about failures, at a look."""
LOSSES: Final = (0.5, 0.3, 0.1, 0.0)
"""Of which the power is printed; 0 is the false-alarm rate."""
_MACHINE: Final = (
    *("seed", "name", "spec.description", "spec.source", "run.threads", "run.device", "run.tensorboard", "env.workers"),
    *("run.film_every_env_steps", "run.histograms_every_env_steps", "run.data_parallel", "run.shard_optimizer", "run.shard_weights"),
    "run.allow_slower",
    # When a run ends is no part of how it learns.
    "run.stop_at_threshold",
)


class SeedResult(ComparisonPart):
    """What one run of a baseline came to."""

    run: str
    final: float | None
    """Return at its end; None if it has none."""
    reached: float | None
    """Env steps to the threshold; None: not within `followed`."""
    followed: float
    seconds: float | None
    """Wall seconds to the threshold."""
    success: float | None
    failed: bool
    lost: bool = False
    """It reached the threshold, and ended clearly below it."""


class Baseline(ComparisonPart):
    """What later candidates are judged by: small enough to live in a repository."""

    kind: Literal["rlclinic baseline"] = KIND
    schema_version: int = SCHEMA_VERSION
    name: str
    env: str | None
    algo: str | None
    measure: Literal["evaluation", "training"]
    threshold: float | None
    env_steps: float
    """How far the runs were followed."""
    fingerprint: str
    """Of the settings, without seed, name and machine."""
    settings: dict[str, Any]
    versions: dict[str, str]
    seeds: list[SeedResult]


class Look(ComparisonPart):
    """What was known after a batch of seeds."""

    look: int
    seeds: int
    """Of the candidate so far."""
    bound: float
    alarm: float | None
    """z of "worse than the baseline": an alarm above the bound. None where it is judged by an interval."""
    passing: float | None
    """z of "not worse by the margin": a pass above the bound."""
    effect: Interval
    """Candidate over baseline (steps, wall) or minus it; the interval holds over all looks."""
    decision: Decision
    failed: tuple[int, int] | None = None
    """Runs of the baseline and of the candidate that never arrived, or collapsed; None where successes are what is judged."""
    could_fail: float | None = None
    """The share of failures that these runs of the candidate cannot exclude (Clopper and Pearson, one-sided 95 %)."""


class Power(ComparisonPart):
    """What the gate would do, by simulation from the baseline's own seeds."""

    loss: float
    alarm: float
    passed: float
    seeds: float
    """Of the candidate, on average."""


class Gate(NamedTuple):
    """The rule, before anything is looked at."""

    outcome: GateOutcome
    margin: float
    alpha: float
    looks: int
    per_look: int
    bounds: list[float]
    tolerates: bool = True
    """A loss that is shown to be within the margin is no regression. It is one of steps and seconds, where nobody gave a margin and the
    usual one is wide."""

    @property
    def fewest(self) -> int:
        """Seeds of the candidate from which on it may pass: 16, if so many are planned, and never fewer than FEWEST_TO_PASS."""
        return max(FEWEST_TO_PASS, min(16, self.looks * self.per_look))


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Twelve letters that are the same for the same settings, whatever the seed, the name and the machine."""
    kept = {key: value for key, value in settings.items() if key not in _MACHINE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:12]


def baseline_of(side: Side, versions: Mapping[str, str], threshold: float | None = None) -> Baseline:
    """The outcomes of a side's runs."""
    measure = outcomes.measure_of([side])
    common = outcomes.common_steps([side], measure) if measure is not None else None
    if measure is None or common is None:
        raise UsageError(
            f"{side.name} has no returns yet: there is nothing to keep.\n  Train it first, with evaluations: ", Action("train")
        )
    bar = side.threshold if threshold is None else threshold
    found = outcomes.readings(side, measure, common, bar)
    return Baseline(
        name=side.name,
        env=side.env,
        algo=side.algo,
        measure=measure,
        threshold=bar,
        env_steps=common,
        fingerprint=fingerprint(side.settings),
        settings={key: value for key, value in side.settings.items() if key not in _MACHINE},
        versions=dict(versions),
        seeds=[
            SeedResult(
                run=each.run,
                final=each.common,
                reached=each.reached,
                followed=each.followed,
                seconds=each.reached_seconds,
                success=outcomes.success_rate(log),
                failed=each.failed,
                lost=each.lost,
            )
            for each, log in zip(found, side.histories, strict=True)
        ],
    )


def choose_outcome(baseline: Baseline) -> GateOutcome:
    """Steps to the threshold where the baseline mostly gets there; else the return at the end."""
    reached = sum(seed.reached is not None for seed in baseline.seeds)
    return "steps" if baseline.threshold is not None and 2 * reached >= len(baseline.seeds) else "return"


def values(kept: Baseline, outcome: GateOutcome, horizon: float) -> Column:
    """One number for each run, larger is worse: steps or seconds (infinite: never), minus the return, minus the success rate."""
    if outcome == "steps":
        return np.array([math.inf if seed.reached is None or seed.reached > horizon else seed.reached for seed in kept.seeds])
    if outcome == "wall":
        return np.array([math.inf if seed.seconds is None else seed.seconds for seed in kept.seeds])
    if outcome == "return":
        return np.array([math.inf if seed.final is None else -seed.final for seed in kept.seeds])
    return np.array([-_succeeded(seed) for seed in kept.seeds])


def _succeeded(seed: SeedResult) -> float:
    return seed.success if seed.success is not None else float(seed.reached is not None)


def gate(kept: Baseline, outcome: GateOutcome, margin: float | None, alpha: float, looks: int, per_look: int) -> Gate:
    """The rule for a candidate that comes in `looks` batches of `per_look` seeds; UsageError where the outcome cannot be judged."""
    tolerates = margin is not None or outcome in ("return", "success")
    margin = usual_margin(outcome) if margin is None else margin
    if not margin > 0 or not 0 < alpha < 0.5:
        raise UsageError(f"margin {margin:g} and alpha {alpha:g}: a margin above 0 (0.1: 10 %), an alpha between 0 and 0.5")
    if outcome in ("steps", "wall") and kept.threshold is None:
        raise UsageError(
            f"{kept.name} has no threshold, so there are no {outcome} to it.\n  Type: ",
            Argument("outcome", "return"),
            ", or ",
            Argument("threshold", "VALUE"),
        )
    never = np.isinf(values(kept, outcome, kept.env_steps))
    if outcome in ("steps", "wall") and np.all(never):
        raise UsageError(
            f"no run of the baseline {kept.name} reached {kept.threshold:g}: there are no {outcome} to lose.\n"
            "  Every candidate would pass.\n  Type: ",
            Argument("outcome", "return"),
        )
    n = len(kept.seeds)
    information = [1 / (1 / n + 1 / (per_look * (look + 1))) for look in range(looks)]
    return Gate(outcome, margin, alpha, looks, per_look, stats.obrien_fleming_bounds(looks, 2 * alpha, information), tolerates)


def worsen(data: Column, outcome: GateOutcome, loss: float, size: float, horizon: float) -> Column:
    """What the runs would have come to with a loss: that share more steps or seconds, or that share of `size` less return."""
    if outcome in ("steps", "wall"):
        longer = data * (1 + loss)
        return np.where(longer > horizon, math.inf, longer) if outcome == "steps" else longer
    return data + loss * size


def scale(data: Column, outcome: GateOutcome) -> float:
    """What a margin of 1 means: the size of the baseline's return, a whole success; returns about 0 are sized by their spread."""
    if outcome != "return":
        return 1.0
    known = data[np.isfinite(data)]
    if not len(known):
        return 1.0
    return max(abs(float(stats.iqm(known))), float(np.std(known)), 1e-9)


def judge(kept: Baseline, found: Baseline, rule: Gate, look: int) -> Look:
    """What is known at a look (from 1)."""
    horizon = min(kept.env_steps, found.env_steps)
    before, after = values(kept, rule.outcome, horizon), values(found, rule.outcome, horizon)
    bound = rule.bounds[look - 1]
    if min(len(before), len(after)) < 2:
        effect = _effect(before, after, rule.outcome, horizon, None)
        return Look(look=look, seeds=len(after), bound=bound, alarm=None, passing=None, effect=effect, decision="undecided")
    level = 1 - 2 * stats.normal_tail(bound)
    effect = _effect(before, after, rule.outcome, horizon, level)
    if binary(rule.outcome, before, after):
        decision = decide_by_shares(effect, rule.margin)
        return Look(look=look, seeds=len(after), bound=bound, alarm=None, passing=None, effect=effect, decision=decision)
    alarm, passing = scores(before, after, rule, horizon)
    failed = count_failures(before, after, rule.outcome)
    if rule.outcome in ("steps", "wall"):
        sides = ((kept, before), (found, after))
        # A run that arrived may have lost it again, or collapsed afterwards.
        fallen = [
            np.where(np.isinf(data) | [seed.lost for seed in side.seeds], math.inf, values(side, "return", horizon)) for side, data in sides
        ]
        failed = count_failures(fallen[0], fallen[1], "return") if not np.all(np.isinf(fallen[0])) else failed
    alarms, passes = decide(alarm, passing, failed, (len(before), len(after)), bound, rule)
    counts = int(failed[0][0]), int(failed[1][0])
    return Look(
        look=look,
        seeds=len(after),
        bound=bound,
        alarm=float(alarm[0]),
        passing=float(passing[0]),
        effect=effect,
        decision="passed" if passes[0] else "regression" if alarms[0] else "undecided",
        failed=counts,
        could_fail=stats.share_upper_bound(counts[1], len(after)),
    )


def decide(
    alarm: Column, passing: Column, failed: tuple[Column, Column], sizes: tuple[int, int], bound: float, rule: Gate
) -> tuple[Flags, Flags]:
    """Which cases are regressions, and which pass: z of both questions, and failures of the baseline and of the candidate, case by case."""
    before, after = failed
    more = after / sizes[1] > before / sizes[0] + FAILURES_ALLOWED
    ways = [stats.more_hits(int(ours), sizes[1], int(theirs), sizes[0]) for ours, theirs in zip(after, before, strict=True)]
    shown = np.asarray(ways) < FAILURES_ALPHA
    worse, within = alarm > bound, passing > bound
    tolerated = within & ~more & rule.tolerates
    return shown | (worse & ~tolerated), within & ~worse & ~more & ~shown & (sizes[1] >= rule.fewest)


def count_failures(before: Column, after: Column, outcome: GateOutcome) -> tuple[Column, Column]:
    """Runs of the baseline and of the candidate that failed, case by case: `values`, or rows of them, larger is worse.

    Of steps and seconds, those that never arrived. Of returns and success rates, those that collapsed, by the baseline's own quartiles
    (`stats.find_collapse_bound`), and those without any.
    """
    ours, theirs = np.atleast_2d(before), np.atleast_2d(after)
    if outcome in ("steps", "wall"):
        return np.isinf(ours).sum(axis=1), np.isinf(theirs).sum(axis=1)
    bound = -stats.find_collapse_bound(-ours, 1.0 if outcome == "success" else None)[:, None]
    return (ours > bound).sum(axis=1), (theirs > bound).sum(axis=1)


def scores(before: Column, after: Column, rule: Gate, horizon: float) -> tuple[Column, Column]:
    """z of an alarm and of a pass; rows are separate cases."""
    size = scale(np.ravel(before), rule.outcome)
    allowed = worsen(before, rule.outcome, rule.margin, size, horizon)
    return stats.rank_z(after, before, wide_steps=True), -stats.rank_z(after, allowed)


def binary(outcome: GateOutcome, *data: Column) -> bool:
    """Whether runs only succeed or fail: then shares are compared, since ranks of two values cannot be shifted by a margin."""
    return outcome == "success" and all(bool(np.all((side == 0) | (side == -1))) for side in data)


def decide_by_shares(effect: Interval, margin: float) -> Decision:
    """The decision that the interval of a difference of shares makes."""
    if effect.low is not None and effect.low > -margin:
        return "passed"
    return "regression" if effect.high is not None and effect.high < 0 else "undecided"


def _effect(before: Column, after: Column, outcome: GateOutcome, horizon: float, level: float | None) -> Interval:
    """The size of the difference: a ratio of interquartile geometric means, a difference of IQMs, or of shares."""
    level = level or stats.LEVEL
    if outcome in ("steps", "wall"):
        end = horizon if outcome == "steps" else max([1e-9, *(float(side[np.isfinite(side)].max(initial=0.0)) for side in (before, after))])
        ours, theirs = (stats.Times.of([None if math.isinf(time) else time for time in side], end) for side in (after, before))
        ratio = stats.middle_ratio(ours, theirs, end, level=level)
        return Interval(value=None) if ratio is None else Interval.of(ratio)
    if binary(outcome, before, after):
        hits = [(int(-side.sum()), len(side)) for side in (after, before)]
        return Interval.of(stats.share_difference(hits[0], hits[1], level=level))
    known = np.concatenate([before, after])
    known = known[np.isfinite(known)]
    if not len(known):
        return Interval(value=None)
    # A run without a return counts as the worst of all.
    filled = [-np.where(np.isfinite(side), side, known.max()) for side in (after, before)]
    return Interval.of(stats.estimate_difference(filled[0], filled[1], level=level))
