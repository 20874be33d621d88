"""How runs came out: the returns they are judged by, when each reached the threshold, and the verdict on a group.

This is the only place that compares returns with a threshold to say that a run reached it, and the only one that gives a verdict.
Summaries, reports, lists, diagnosis, comparisons and trials ask here.

**Steps to the threshold** are the env step of the first evaluation whose mean return is at or above the threshold. Returns are taken
in the order of their env steps; two at one step in the order in which they were written. NaN and infinity pass nothing. A run that
never got there is censored: `reached_at` is None, and nothing is made up for it.

**What counts.** A group is judged by evaluations as soon as one of its runs has made any; a run without is then one that did not get
there. Training returns are those of a policy that explores and changes. Our trainer can evaluate, so runs of ours without an
evaluation are NOT EVALUATED, whatever their training returns say. The log of another framework may have nothing else: it is judged by
its training returns, and `source` says so. Comparisons and trials do the same for all their runs alike, where no evaluation was made.

The verdict, the first line that fits:

    RUNNING         a run is training or waits to
    FAILED          every run failed or crashed, and none had reached the threshold before
    NO RETURN       no run has written any return
    NO THRESHOLD    the environment has none: there is nothing to pass
    NOT EVALUATED   there is one, but no evaluation was made
    SOLVED          every run reached it
    PARTLY SOLVED   at least half of the runs did, but not all
    NOT SOLVED      fewer than half did

A run that failed, crashed or was stopped early counts as it stands.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.runs.metrics_file.table import Column, Table

if TYPE_CHECKING:
    from rlclinic.runs.history import History

OURS: Final = "rlclinic"
"""The source of runs that rlclinic trained."""

ReturnSource = Literal["evaluation", "training"]
Verdict = Literal["RUNNING", "FAILED", "NO RETURN", "NO THRESHOLD", "NOT EVALUATED", "SOLVED", "PARTLY SOLVED", "NOT SOLVED"]
RETURNS: Final[dict[ReturnSource, str]] = {"evaluation": EVAL_RETURN, "training": TRAIN_RETURN}
LIVE: Final = frozenset({"queued", "running"})
BROKEN: Final = frozenset({"failed", "crashed"})


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one run came out, by its evaluations or by its training returns."""

    source: ReturnSource
    counts: bool
    """Whether these returns can reach a threshold at all; see the top of this module."""
    steps: Column
    returns: Column
    """Finite, in the order of env steps."""
    last: float | None
    best: float | None
    best_at: float | None
    """Env step of the best; of several equal ones, the first."""
    reached_at: float | None
    """Env step of the first return at or above the threshold; None: it never got there, or there is no threshold."""
    held: bool
    """Its last return, too, is at or above the threshold."""


def measure(
    steps: Column, returns: Column, threshold: float | None, source: ReturnSource = "evaluation", *, counts: bool = True
) -> Outcome:
    """The outcome of one run from what was written of its returns, in whatever order and with whatever NaN among them."""
    steps, returns = keep_finite(steps, returns)
    best = int(np.argmax(returns)) if len(returns) else None
    bar = threshold if counts else None
    return Outcome(
        source=source,
        counts=counts,
        steps=steps,
        returns=returns,
        last=float(returns[-1]) if len(returns) else None,
        best=None if best is None else float(returns[best]),
        best_at=None if best is None else float(steps[best]),
        reached_at=find_crossing(steps, returns, bar),
        held=bool(bar is not None and len(returns) and returns[-1] >= bar),
    )


def keep_finite(steps: Column, returns: Column) -> tuple[Column, Column]:
    """The pairs that are numbers, in the order of env steps."""
    kept = np.isfinite(steps) & np.isfinite(returns)
    steps, returns = steps[kept], returns[kept]
    if np.any(np.diff(steps) < 0):
        order = np.argsort(steps, kind="stable")
        steps, returns = steps[order], returns[order]
    return steps, returns


def find_crossing(steps: Column, returns: Column, threshold: float | None) -> float | None:
    """The env step of the first return at or above the threshold. The pairs are finite and in the order of env steps."""
    if threshold is None:
        return None
    passed = np.flatnonzero(returns >= threshold)
    return float(steps[passed[0]]) if len(passed) else None


def was_evaluated(log: "Table | History") -> bool:
    """Whether an evaluation was made. One that came to NaN was made, too, and passed nothing."""
    if isinstance(log, Table):
        return len(log.series(EVAL_RETURN)[0]) > 0
    series = log.series.get(EVAL_RETURN)
    return series is not None and len(series.values) + len(series.broken) > 0


def choose_source(logs: Iterable["Table | History"]) -> ReturnSource:
    """What runs that belong together are judged by: evaluations, if any of them was evaluated."""
    return "evaluation" if any(was_evaluated(log) for log in logs) else "training"


def measure_log(log: "Table | History", threshold: float | None, source: ReturnSource, *, counts: bool = True) -> Outcome:
    """The outcome of a run by its metrics.csv or its history."""
    if isinstance(log, Table):
        steps, returns = log.series(RETURNS[source])
    else:
        series = log.series.get(RETURNS[source])
        steps, returns = (np.empty(0), np.empty(0)) if series is None else (series.steps, series.values)
    return measure(steps, returns, threshold, source, counts=counts)


def measure_group(logs: Sequence["Table | History"], threshold: float | None, framework: str = OURS) -> list[Outcome]:
    """The outcomes of runs of one group, all by the same kind of return. `framework`: who trained them."""
    source = choose_source(logs)
    counts = source == "evaluation" or framework != OURS
    return [measure_log(log, threshold, source, counts=counts) for log in logs]


def measure_history(history: "History", threshold: float | None = None) -> Outcome:
    """The outcome of a run by itself, by its own threshold unless another is given."""
    return measure_group([history], history.threshold if threshold is None else threshold, history.source)[0]


def decide_verdict(outcomes: Sequence[Outcome], states: Iterable[str], threshold: float | None) -> Verdict:
    """The verdict on a group. `states` are those of its runs, in the words of status.json or of a history."""
    states = list(states)
    reached = sum(outcome.reached_at is not None for outcome in outcomes)
    if any(state in LIVE for state in states):
        return "RUNNING"
    if reached == 0 and all(state in BROKEN for state in states):
        return "FAILED"
    if not any(outcome.source == "evaluation" or len(outcome.returns) for outcome in outcomes):
        return "NO RETURN"
    if threshold is None:
        return "NO THRESHOLD"
    if not any(outcome.counts for outcome in outcomes):
        return "NOT EVALUATED"
    if reached == len(outcomes):
        return "SOLVED"
    return "PARTLY SOLVED" if 2 * reached >= len(outcomes) else "NOT SOLVED"
