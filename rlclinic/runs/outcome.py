"""How runs came out: the returns and success rates they are judged by, when each reached its goal, whether it kept it, and the verdict.

This is the only place that compares returns with a threshold to say that a run reached it, and the only one that gives a verdict.
Summaries, reports, lists, diagnosis, comparisons and trials ask here. What must be reached is a return, a success rate or both:
`rlclinic.runs.goal`. "The threshold" below stands for all of it.

**Steps to the threshold** are the env step of the first evaluation that passes: its mean return is at or above the threshold and, where
success is required, its success rate is too. Returns are taken in the order of their env steps; two at one step in the order in which
they were written. NaN and infinity pass nothing. A run that never got there is censored: `reached_at` is None, and nothing is made up
for it.

**Lost.** A run that reached the threshold has lost it again if it ended clearly below. Its last evaluation does not pass, and the mean
of its last three evaluations (of its last tenth, where training returns count; in both cases only those since it got there) falls short
of the threshold by more than

- twice the standard error of that mean, from the spread over the episodes of each evaluation, where that was written down: chance in
  the episodes explains less than this in 39 of 40 cases; and
- a tenth of the way that it had come, from its lowest return before it got there up to the threshold (from its lowest at all and at
  least a tenth of the threshold, if its first evaluation passed): policies that have stopped improving wander by about so much from one
  evaluation to the next, whatever the number of episodes. A run that ends a little below keeps its word and shows its gap.

A success rate is lost by the same rule: twice the standard error of a share of that many episodes, and a tenth of the required share.
Simulated (tests/runs/test_outcome.py, 20 evaluations of 20 episodes of a task with returns from 20 to 500 and a threshold of 475, whose
episodes deviate by 80): a run whose true return stays at the threshold is called lost in 0 % of the cases; one that also wanders by 25
between evaluations in 0.7 %, by 50 (a tenth of the range) in 6 %. One that falls to half is called so in 100 %, if the last two
evaluations saw it, and in 94 %, if only the last one did.

**What counts.** A group is judged by evaluations as soon as one of its runs has made any; a run without is then one that did not get
there. Training returns are those of a policy that explores and changes. Our trainer can evaluate, so runs of ours without an
evaluation are NOT EVALUATED, whatever their training returns say. The log of another framework may have nothing else: it is judged by
its training returns, and `source` says so. Comparisons and trials do the same for all their runs alike, where no evaluation was made.

The verdict, the first line that fits:

    RUNNING               a run is training or waits to
    FAILED                every run failed or crashed, and none had reached the threshold before
    NO RETURN             no run has written any return
    NO THRESHOLD          neither a return nor a success rate is required: there is nothing to pass
    NOT EVALUATED         there is one, but no evaluation was made
    SOLVED                every run reached it and kept it
    REACHED, THEN LOST    every run reached it, and some lost it; or at least half did, and fewer than half kept it
    PARTLY SOLVED         at least half of the runs reached it and kept it, but not all reached it
    NOT SOLVED            fewer than half reached it

A run that failed, crashed or was stopped early counts as it stands.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from rlclinic import stats
from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.runs.goal import Goal, SuccessRate
from rlclinic.runs.metrics_file.table import Column, Table

if TYPE_CHECKING:
    from rlclinic.runs.history import History

SMALLEST_SAVING: Final = 0.30
"""Of steps or seconds to a threshold, the saving that trials are planned to see; less counts as none where no margin is given."""


def usual_margin(outcome: str) -> float:
    """The effect that counts as none where no margin is given: a tenth of a return or of all successes; of steps, seconds and spreads,
    a ratio of 1.43 either way, which is 30 % fewer. Seeds scatter by a factor of 1.5 as a rule: 32 of them resolve no less."""
    return 0.10 if outcome in ("return", "success") else 1 / (1 - SMALLEST_SAVING) - 1


OURS: Final = "rlclinic"
"""The source of runs that rlclinic trained."""

ReturnSource = Literal["evaluation", "training"]
Verdict = Literal[
    "RUNNING",
    "FAILED",
    "NO RETURN",
    "NO THRESHOLD",
    "NOT EVALUATED",
    "SOLVED",
    "REACHED, THEN LOST",
    "PARTLY SOLVED",
    "NOT SOLVED",
]
RETURNS: Final[dict[ReturnSource, str]] = {"evaluation": EVAL_RETURN, "training": TRAIN_RETURN}
SPREADS: Final[dict[ReturnSource, str]] = {"evaluation": "val/roll/ep_rew_std", "training": "train/roll/ep_rew_std"}
SUCCESS_RATES: Final[dict[ReturnSource, str]] = {"evaluation": "val/roll/success_rate", "training": "train/roll/success_rate"}
LIVE: Final = frozenset({"queued", "running"})
BROKEN: Final = frozenset({"failed", "crashed"})
RECENT: Final = 3
"""Evaluations at the end that say where a run ended. One alone is too noisy, and many would hide a late collapse."""
RECENT_SHARE: Final = 0.1
"""The same for training returns, of which there are as many as rows: neighbours are means over nearly the same episodes."""
STANDARD_ERRORS: Final = 2.0
WANDERING: Final = 0.1
"""How far a policy wanders between evaluations, as a share of the way to the threshold."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one run came out, by its evaluations or by its training returns."""

    source: ReturnSource
    counts: bool
    """Whether these returns can reach a threshold at all; see the top of this module."""
    threshold: float | None
    required_success: float | None
    """The share of successful episodes that is required; None: none. See `rlclinic.runs.goal`."""
    steps: Column
    returns: Column
    """Finite, in the order of env steps."""
    last: float | None
    best: float | None
    best_at: float | None
    """Env step of the best; of several equal ones, the first."""
    reached_at: float | None
    """Env step of the first evaluation that passes; None: it never got there, or nothing is required."""
    lost: bool
    """It reached the threshold, and ended clearly below it; see the top of this module."""
    last_success: SuccessRate | None
    """Of the last evaluation; None where the environment reports no success."""
    recent_success: SuccessRate | None
    """Of the last three evaluations together; of the last alone, where training returns count."""


def arrived(outcome: Outcome) -> bool:
    """Whether a run reached the threshold and kept it."""
    return outcome.reached_at is not None and not outcome.lost


def measure(
    steps: Column,
    returns: Column,
    goal: Goal,
    source: ReturnSource = "evaluation",
    *,
    counts: bool = True,
    spreads: Column | None = None,
    rates: Column | None = None,
) -> Outcome:
    """The outcome of one run from what was written of its returns, in whatever order and with whatever NaN among them.

    spreads: the standard deviation over the episodes of each return; rates: its success rate. NaN where there is none; None: nowhere.
    """
    spreads, rates = (np.full(len(returns), np.nan) if each is None else each for each in (spreads, rates))
    rates = _as_shares(rates)
    kept = np.flatnonzero(np.isfinite(steps) & np.isfinite(returns))
    kept = kept[np.argsort(steps[kept], kind="stable")]
    steps, returns, spreads, rates = steps[kept], returns[kept], spreads[kept], rates[kept]
    best = int(np.argmax(returns)) if len(returns) else None
    required = goal.require_success(reported=bool(np.isfinite(rates).any()))
    passing = np.full(len(returns), counts and (goal.threshold is not None or required is not None))
    if goal.threshold is not None:
        passing &= returns >= goal.threshold
    if required is not None:
        passing &= rates >= required  # NaN passes nothing
    first = int(np.argmax(passing)) if passing.any() else None
    episodes = goal.eval_episodes if source == "evaluation" else None
    recent = _recent(len(returns), source)
    lost = first is not None and not passing[-1]
    if first is not None and lost:
        end = slice(max(len(returns) - recent, first), None)
        # The spread is the root of the mean square over episodes: divided by n - 1 it gives the error of their mean.
        errors = np.nan_to_num(spreads[end]) / math.sqrt(max((episodes or 2) - 1, 1)) if episodes else np.zeros(len(returns[end]))
        lost = goal.threshold is not None and _falls_short(returns, first, end, goal.threshold, errors)
        if required is not None and not lost:
            error = math.sqrt(required * (1 - required) / episodes) if episodes else 0.0
            shares = np.nan_to_num(rates)
            lost = required - shares[end].mean() > max(STANDARD_ERRORS * error / math.sqrt(len(shares[end])), WANDERING * required)
    return Outcome(
        source=source,
        counts=counts,
        threshold=goal.threshold,
        required_success=required,
        steps=steps,
        returns=returns,
        last=float(returns[-1]) if len(returns) else None,
        best=None if best is None else float(returns[best]),
        best_at=None if best is None else float(steps[best]),
        reached_at=None if first is None else float(steps[first]),
        lost=bool(lost),
        last_success=_pool(rates[-1:], episodes),
        recent_success=_pool(rates[-recent if source == "evaluation" else -1 :], episodes),
    )


def _as_shares(rates: Column) -> Column:
    """Success rates from 0 to 1. A log may have written percentages, of which the first would pass any share; other numbers are none."""
    largest = np.nanmax(rates) if np.isfinite(rates).any() else 0.0
    shares = rates / 100 if 1 < largest <= 100 else rates
    with np.errstate(invalid="ignore"):
        return np.where((shares >= 0) & (shares <= 1), shares, np.nan)


def _recent(count: int, source: ReturnSource) -> int:
    """How many returns say where a run ended."""
    return RECENT if source == "evaluation" else max(RECENT, math.ceil(RECENT_SHARE * count))


def _falls_short(returns: Column, first: int, end: slice, threshold: float, errors: Column) -> bool:
    """Whether the mean return at the end lies below the threshold by more than chance and wandering explain."""
    recent = returns[end]
    error = math.sqrt(float(np.square(errors).sum())) / len(recent)
    came = threshold - float(returns[:first].min()) if first else max(threshold - float(returns.min()), abs(threshold))
    return bool(threshold - recent.mean() > max(STANDARD_ERRORS * error, WANDERING * came))


def _pool(rates: Column, episodes: int | None) -> SuccessRate | None:
    """The success rate of evaluations of so many episodes, taken together."""
    known = rates[np.isfinite(rates)]
    if not len(known):
        return None
    if not episodes:
        return SuccessRate(float(known.mean()), None, None, None, None)
    # Each rate is a share of whole episodes; a log may have rounded it.
    successes, total = int(np.clip(np.round(known * episodes), 0, episodes).sum()), episodes * len(known)
    found = stats.share_interval(successes, total)
    return SuccessRate(found.value, successes, total, found.low, found.high)


def pool_success(outcomes: Sequence[Outcome]) -> SuccessRate | None:
    """The success rate of runs together: the mean of their rates, each over its last evaluations.

    An interval is given for one run only: episodes of several seeds are no independent draws, because seeds differ.
    """
    known = [outcome.recent_success for outcome in outcomes if outcome.recent_success is not None]
    if len(known) < 2:
        return known[0] if known else None
    counts = [(each.successes, each.episodes) for each in known if each.successes is not None and each.episodes is not None]
    successes, episodes = (sum(column) for column in zip(*counts, strict=True)) if len(counts) == len(known) else (None, None)
    return SuccessRate(math.fsum(each.rate for each in known) / len(known), successes, episodes, None, None)


def was_evaluated(log: "Table | History") -> bool:
    """Whether an evaluation was made. One that came to NaN was made, too, and passed nothing."""
    if isinstance(log, Table):
        return len(log.series(EVAL_RETURN)[0]) > 0
    series = log.series.get(EVAL_RETURN)
    return series is not None and len(series.values) + len(series.broken) > 0


def choose_source(logs: Iterable["Table | History"]) -> ReturnSource:
    """What runs that belong together are judged by: evaluations, if any of them was evaluated."""
    return "evaluation" if any(was_evaluated(log) for log in logs) else "training"


def measure_log(log: "Table | History", goal: Goal, source: ReturnSource, *, counts: bool = True, until: float = math.inf) -> Outcome:
    """The outcome of a run by its metrics.csv or its history, up to an env step."""
    steps, returns = _read(log, RETURNS[source])
    steps, returns = steps[steps <= until], returns[steps <= until]
    spreads, rates = (_align(steps, *_read(log, names[source])) for names in (SPREADS, SUCCESS_RATES))
    return measure(steps, returns, goal, source, counts=counts, spreads=spreads, rates=rates)


def _read(log: "Table | History", name: str) -> tuple[Column, Column]:
    if isinstance(log, Table):
        return log.series(name)
    series = log.series.get(name)
    return (np.empty(0), np.empty(0)) if series is None else (series.steps, series.values)


def _align(steps: Column, at: Column, values: Column) -> Column:
    """The values that were written with each return: the last one at its env step; NaN where there is none."""
    if not len(at):
        return np.full(len(steps), np.nan)
    known = {step: value for step, value in zip(at.tolist(), values.tolist(), strict=True) if math.isfinite(value)}
    return np.array([known.get(step, np.nan) for step in steps.tolist()], dtype=np.float64)


def measure_group(logs: Sequence["Table | History"], goal: Goal, framework: str = OURS) -> list[Outcome]:
    """The outcomes of runs of one group, all by the same kind of return. `framework`: who trained them."""
    source = choose_source(logs)
    counts = source == "evaluation" or framework != OURS
    return [measure_log(log, goal, source, counts=counts) for log in logs]


def measure_history(history: "History") -> Outcome:
    """The outcome of a run by itself, by its own goal."""
    return measure_group([history], history.goal, history.source)[0]


def decide_verdict(outcomes: Sequence[Outcome], states: Iterable[str]) -> Verdict:
    """The verdict on a group. `states` are those of its runs, in the words of status.json or of a history."""
    states = list(states)
    reached = sum(outcome.reached_at is not None for outcome in outcomes)
    kept = sum(arrived(outcome) for outcome in outcomes)
    if any(state in LIVE for state in states):
        return "RUNNING"
    if reached == 0 and all(state in BROKEN for state in states):
        return "FAILED"
    if not any(outcome.source == "evaluation" or len(outcome.returns) for outcome in outcomes):
        return "NO RETURN"
    if all(outcome.threshold is None and outcome.required_success is None for outcome in outcomes):
        return "NO THRESHOLD"
    if not any(outcome.counts for outcome in outcomes):
        return "NOT EVALUATED"
    if kept == len(outcomes):
        return "SOLVED"
    if reached == len(outcomes):
        return "REACHED, THEN LOST"
    if 2 * kept >= len(outcomes):
        return "PARTLY SOLVED"
    return "REACHED, THEN LOST" if 2 * reached >= len(outcomes) else "NOT SOLVED"
