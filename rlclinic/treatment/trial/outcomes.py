"""How a run did, as a trial asks it: an observation, and from it a score (lower is better, infinity is worst)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from rlclinic import stats
from rlclinic.runs.metrics_file.table import Column, Table
from rlclinic.runs.outcome import ReturnSource, measure_log
from rlclinic.runs.record import Run
from rlclinic.runs.summary import FPS, PHASES
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.models import CENSORED_OUTCOMES, Guardrail, Observation, TrialOutcome
from rlclinic.treatment.trial.sequential import Scores

SUCCESS: Final = ("val/roll/success_rate", "train/roll/success_rate")
FAILED: Final = ("failed", "crashed")
GUARD_LEVEL: Final = 0.05
SLOWER: Final = 1.10
"""A treatment that takes this many times the seconds is slower enough to say so."""

# Name, column, whether more is worse, and the level beyond which worse is bad: within it, a difference is the treatment's business.
_GUARDS: Final = (
    ("KL", "train/metrics/kl_divergence", True, 0.05),
    ("entropy", "train/sentinel/entropy_relative", False, 0.05),
    ("explained variance", "train/metrics/explained_variance", False, 0.0),
    ("clip fraction", "train/metrics/clip_fraction", True, 0.5),
)
THROUGHPUT: Final = "throughput"
FINAL_RETURN: Final = "final return"
Bad = Callable[[float, float], bool]
"""Whether a treatment's level is bad beside the control's."""


def observe(run: Run, threshold: float | None, horizon: float = math.inf, *, by_evaluation: bool = True) -> Observation:
    """What a run that has ended came to, up to `horizon` env steps. Numbers that are not finite are left out."""
    table, status = run.metrics, run.status
    source: ReturnSource = "evaluation" if by_evaluation else "training"
    came = measure_log(table, replace(run.goal, threshold=threshold), source, until=horizon)
    reached = None if came.reached_at is None else int(came.reached_at)
    success = next((values for name in SUCCESS if len(values := _finite(*table.series(name))[1])), np.empty(0))
    fps = _finite(*table.series(FPS))[1]
    return Observation(
        run=run.id,
        seed=run.seed,
        state=status.state,
        env_steps=status.env_steps,
        reached_at=reached,
        lost=came.lost,
        final=came.last,
        success=float(success[-1]) if len(success) else None,
        seconds=_seconds(table, reached),
        seconds_per_100k=1e5 / float(fps.mean()) if len(fps) and fps.mean() > 0 else None,
        guards=_readings(table, reached is not None),
        evaluated=by_evaluation,
        reason=status.reason if status.state in FAILED else None,
        spacing=float(np.median(np.diff(came.steps))) if len(came.steps) > 1 else None,
    )


def _finite(steps: Column, values: Column) -> tuple[Column, Column]:
    kept = np.isfinite(values) & np.isfinite(steps)
    return steps[kept], values[kept]


def _seconds(table: Table, until: int | None) -> float | None:
    """Seconds of work until an env step (or to the end), by the run's own phases: pauses before a resume are left out."""
    names = [name for name in table.names if name.startswith(PHASES) and name != FPS]
    if not names or not len(table):
        return None
    rows = np.nansum(np.stack([table[name] for name in names]), axis=0)
    within = table["total_timesteps"] <= (math.inf if until is None else until)
    return float(rows[within].sum())


def _readings(table: Table, solved: bool) -> dict[str, float]:
    """What guardrails watch: the median of a run's second half."""
    found = {}
    for name, column, _, _ in _GUARDS:
        values = _finite(*table.series(column))[1]
        if len(values):
            found[name] = float(np.median(values[len(values) // 2 :]))
    if solved and "entropy" in found:
        # A policy that has solved its task may be sure of itself.
        found["entropy"] = 1.0
    return found


def scores(observations: Sequence[Observation], outcome: TrialOutcome) -> Scores:
    """One number a run: lower is better, infinity for a run that never got there, failed, or has no finite number."""
    if outcome == "stability":
        return sequential.deviations(finals(observations))
    values = [_time(seen, outcome) if outcome in CENSORED_OUTCOMES else _loss(seen, outcome) for seen in observations]
    return _worst_for_unknown(np.array([math.nan if value is None else float(value) for value in values]))


def finals(observations: Sequence[Observation]) -> Scores:
    """Returns at the end; infinite where a run has none."""
    return _worst_for_unknown(np.array([math.nan if seen.final is None else seen.final for seen in observations]))


def measure_spacing(observations: Sequence[Observation]) -> float:
    """Env steps between two evaluations (or rows of a log) of the runs of a command, which has no setting for it; 0 where nobody knows."""
    known = [seen.spacing for seen in observations if seen.spacing is not None]
    return float(np.median(known)) if known else 0.0


def count_arrived(side: Sequence[Observation], control: Sequence[Observation], threshold: float | None) -> int:
    """Runs that got there and stayed; without a threshold, those that did not collapse beside the control's."""
    if threshold is not None:
        return sum(seen.arrived_at is not None for seen in side)
    theirs, ours = (
        np.array([-math.inf if seen.final is None or seen.state in FAILED else seen.final for seen in runs]) for runs in (control, side)
    )
    if not np.isfinite(theirs).any():
        return int(np.isfinite(ours).sum())
    return int((ours >= stats.find_collapse_bound(theirs)).sum())


def _time(seen: Observation, outcome: TrialOutcome) -> float | None:
    if seen.reached_at is None:
        return None
    return seen.seconds if outcome == "wall" else float(seen.reached_at)


def _loss(seen: Observation, outcome: TrialOutcome) -> float | None:
    value = seen.success if outcome == "success" else seen.final
    return None if value is None else -value


def _worst_for_unknown(values: Scores) -> Scores:
    return np.where(np.isfinite(values), values, np.inf)


def guardrails(
    control: Sequence[Observation], treatment: Sequence[Observation], *, final_return: bool, environments: int = 1
) -> tuple[Guardrail, ...]:
    """What must not get worse. Worse means: surely lower or higher than the control's, and beyond the level that is bad anywhere.

    `final_return`: whether that is guarded, too: where runs train on after the threshold, and it is not what was asked about.
    All guardrails of all `environments` together are wrong in GUARD_LEVEL of trials at most (Bonferroni).
    """
    limit = stats.normal_quantile(1.0 - GUARD_LEVEL / (2 * (len(_GUARDS) + 2) * environments))
    found = []
    for name, _, more_is_worse, level in _GUARDS:
        ours, theirs = ([seen.guards[name] for seen in side if name in seen.guards] for side in (treatment, control))
        sign = 1.0 if more_is_worse else -1.0
        found += _guard(name, ours, theirs, sign, _beyond(sign, level), limit)
    ours, theirs = ([seen.seconds_per_100k for seen in side if seen.seconds_per_100k is not None] for side in (treatment, control))
    found += _guard(THROUGHPUT, ours, theirs, 1.0, lambda value, other: value > SLOWER * other, limit)
    if final_return:
        ours, theirs = ([seen.final for seen in side if seen.final is not None] for side in (treatment, control))
        found += _guard(FINAL_RETURN, ours, theirs, -1.0, lambda value, other: value < other, limit)
    return tuple(found)


def _beyond(sign: float, level: float) -> Bad:
    return lambda value, _: sign * value > sign * level


def _guard(name: str, ours: list[float], theirs: list[float], sign: float, bad: Bad, limit: float) -> list[Guardrail]:
    if len(ours) < 2 or len(theirs) < 2:
        return []
    z = sequential.statistic([sign * np.array(theirs)], [sign * np.array(ours)])
    value, other = float(np.median(ours)), float(np.median(theirs))
    worse = z < -limit and sign * value > sign * other and bad(value, other)
    return [Guardrail(name=name, control=other, treatment=value, worse=worse, z=z)]
