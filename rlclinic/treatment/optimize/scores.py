"""How good a config is, from a few runs of it: lower is better, and reaching the threshold and staying there comes before being fast."""

from collections.abc import Sequence
from statistics import fmean

from rlclinic.launch import batch
from rlclinic.runs.record import Group
from rlclinic.treatment.optimize.ledger import Best, Entry, Ledger
from rlclinic.treatment.trial import outcomes
from rlclinic.treatment.trial.models import Observation

CLEARLY = 0.85
"""A config must beat one that works by this factor in two runs to be worth more seeds."""


def measure_entry(ledger: Ledger, entry: Entry, group: Group, pruned: frozenset[str]) -> Entry:
    """The entry with what its runs came to; those that the machine killed are left out, and counted as lost."""
    lost = {run.id for run in group.runs if run.id not in pruned and batch.is_open(run)}
    observations = [outcomes.observe(run, ledger.threshold) for run in group.runs]
    kept = [observation for observation in observations if observation.run not in lost]
    finals = [observation.final for observation in kept if observation.final is not None]
    return entry.model_copy(
        update={
            "group": group.id,
            "n": len(kept),
            "reached": sum(observation.arrived_at is not None for observation in kept),
            "score": score(ledger, kept) if kept else None,
            "final": fmean(finals) if finals else None,
            "env_steps": sum(observation.env_steps for observation in observations),
            "pruned": sum(observation.run in pruned for observation in kept),
            "lost": len(lost),
        }
    )


def score(ledger: Ledger, seen: Sequence[Observation]) -> float:
    """One number for a config, lower is better; a run that failed counts as the worst."""
    whole = float(ledger.run_env_steps)
    if ledger.outcome == "steps":
        return fmean(whole if each.arrived_at is None else float(each.arrived_at) for each in seen)
    if ledger.outcome == "wall":
        return fmean(_seconds(each, whole) for each in seen)
    finals = [each.final for each in seen if each.final is not None]
    if len(finals) < len(seen) or not finals:
        return 1e12
    return -fmean(finals) if ledger.outcome == "return" else max(finals) - min(finals)


def _seconds(each: Observation, whole: float) -> float:
    """Seconds to the threshold; a run that missed it is charged for the whole budget, and half as much again."""
    if each.arrived_at is not None and each.seconds is not None:
        return each.seconds
    return 1.5 * (each.seconds_per_100k or 1e3) * whole / 1e5


def rank(entry: Entry) -> tuple[float, float, float]:
    """For sorting: the share that reached the threshold, then the score, then the last return."""
    share = entry.reached / entry.n if entry.n else 0.0
    return (-share, entry.score if entry.score is not None else float("inf"), -(entry.final if entry.final is not None else float("-inf")))


def better(entry: Entry, best: Best, *, improving: bool) -> bool:
    """Whether an entry beats the best so far; one that works must be beaten clearly, by runs that all get there."""
    if entry.score is None or not entry.n:
        return False
    if improving:
        return entry.reached == entry.n and entry.score < CLEARLY * best.score
    ours, theirs = entry.reached / entry.n, best.reached / max(best.n, 1)
    if ours != theirs:
        return ours > theirs
    if entry.score != best.score:
        return entry.score < best.score
    return (entry.final or float("-inf")) > (best.entry.final or float("-inf"))


def pool(winner: Entry, runs: Sequence[Entry]) -> Best:
    """A config over all the runs that were made of it."""
    n = sum(run.n for run in runs)
    total = sum((run.score or 0.0) * run.n for run in runs)
    return Best(entry=winner, n=n, reached=sum(run.reached for run in runs), score=total / max(n, 1), settled=True)
