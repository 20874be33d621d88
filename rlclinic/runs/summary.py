"""How a group did: the verdict and the numbers behind it, computed from its files as they are now.

What counts as reaching the threshold, and what each verdict means: `rlclinic.runs.outcome`.
The score is the interquartile mean over seeds of each seed's last evaluation, with its 95 % interval (below 8 seeds: the lowest and the
highest seed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rlclinic import stats
from rlclinic.runs import coerce, outcome
from rlclinic.runs.goal import SuccessRate
from rlclinic.runs.metrics_file.table import Column, Table
from rlclinic.runs.outcome import BROKEN, Outcome

if TYPE_CHECKING:
    from rlclinic.runs.record import Group, Run

PHASES: Final = "time/"
FPS: Final = "time/fps"
MAX_POINTS: Final = 200
"""Points of a group's curve."""


@dataclass(frozen=True)
class SeedSummary:
    """How one seed did."""

    run: str
    seed: int
    state: str
    reason: str | None
    env_steps: int
    steps: Column
    returns: Column
    """Its evaluations; its training return where the group made none."""
    last: float | None
    best: float | None
    best_at: int | None
    reached_at: int | None
    """Env steps of the first evaluation that passes; None: censored at `env_steps`."""
    lost: bool
    """It reached the threshold, and ended clearly below it."""
    success: SuccessRate | None
    """Of its last evaluations; None where the environment reports no success."""


@dataclass(frozen=True)
class Curve:
    """Return against env steps over the seeds of a group. A seed that ended early keeps its last value."""

    steps: Column
    iqm: Column
    low: Column
    high: Column
    """95 % pointwise; the lowest and the highest seed below 8 of them; equal to `iqm` with one."""


@dataclass(frozen=True)
class GroupSummary:
    """How a group did. None where a number does not exist, never 0."""

    id: str
    verdict: str
    note: str
    """What the numbers alone do not say: one seed has no interval, a seed failed, a solved policy was lost again."""
    source: str
    """"evaluation", or "training" where no evaluation was made."""
    threshold: float | None
    required_success: float | None
    """The share of successful episodes that is required; None: none."""
    success: SuccessRate | None
    """Of the seeds' last evaluations together; None where the environment reports no success."""
    seeds: list[SeedSummary]
    score: stats.Estimate | None
    """IQM over seeds of the last evaluation; below 8 seeds with the lowest and the highest one instead of an interval."""
    gap: float | None
    """Threshold minus score: positive when missed, negative when passed."""
    gap_percent: float | None
    """The gap in percent of the threshold's size."""
    best: float | None
    best_at: int | None
    best_run: str | None
    steps_to_threshold: stats.Estimate | None
    """Mean env steps to the threshold, restricted to the budget: seeds that did not get there count it whole. Lowest and highest seed."""
    curve: Curve
    env_steps: int
    """Of all seeds together."""
    max_env_steps: int | None
    """Budget of one seed."""
    wall_seconds: float | None
    """Seconds of training, evaluation and writing of the longest seed; pauses before a resume are left out."""
    fps: float | None
    """Env steps per second of a seed's training, mean over seeds."""
    phases: dict[str, float]
    """Share of the measured time by phase (env, act, learn, ...), largest first."""

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)

    @property
    def reached(self) -> list[SeedSummary]:
        return [seed for seed in self.seeds if seed.reached_at is not None]

    @property
    def n_reached(self) -> int:
        return len(self.reached)

    @property
    def n_lost(self) -> int:
        """Of those that reached the threshold."""
        return sum(seed.lost for seed in self.seeds)


def summarize(group: "Group") -> GroupSummary:
    """Read every member's status and metrics once, and say how the group did."""
    runs, threshold = group.runs, group.threshold
    tables = [run.metrics for run in runs]
    outcomes = outcome.measure_group(tables, group.goal, framework(group))
    # Of runs that were imported, nobody says how many rows there should be.
    ours = framework(group) == outcome.OURS
    seeds = [_describe_seed(run, each, rows if ours else None) for run, each, rows in zip(runs, outcomes, tables, strict=True)]
    source = outcomes[0].source if outcomes else "training"
    judged = threshold if any(each.counts for each in outcomes) else None
    required = judged is not None or any(each.counts and each.required_success is not None for each in outcomes)
    lasts = [seed.last for seed in seeds if seed.last is not None]
    score = stats.estimate(lasts) if lasts else None
    gap = judged - score.value if judged is not None and score is not None else None
    verdict = outcome.decide_verdict(outcomes, [seed.state for seed in seeds])
    best = max(seeds, key=lambda seed: (-np.inf if seed.best is None else seed.best, -(seed.best_at or 0)), default=None)
    budget = coerce.whole(coerce.within(group.record, "run", "max_env_steps"))
    return GroupSummary(
        id=group.id,
        verdict=verdict,
        note=_note(seeds, outcomes, source, verdict),
        source=source,
        threshold=threshold,
        required_success=next((each.required_success for each in outcomes if each.required_success is not None), None),
        success=outcome.pool_success(outcomes),
        seeds=seeds,
        score=score,
        gap=gap,
        gap_percent=100.0 * gap / abs(judged) if gap is not None and judged else None,
        best=best.best if best else None,
        best_at=best.best_at if best else None,
        best_run=best.run if best and best.best is not None else None,
        steps_to_threshold=_steps_to_threshold(seeds, budget) if required else None,
        curve=_curve(seeds),
        env_steps=sum(seed.env_steps for seed in seeds),
        max_env_steps=budget,
        wall_seconds=max((seconds for table in tables if (seconds := wall_seconds(table)) is not None), default=None),
        fps=_mean_fps(tables),
        phases=_phases(tables),
    )


def framework(group: "Group") -> str:
    """Who trained a group: rlclinic, or the framework that it was imported from."""
    return coerce.text(coerce.within(group.record, "source", "framework")) or outcome.OURS


def _describe_seed(run: "Run", came: Outcome, rows: Table | None) -> SeedSummary:
    from rlclinic.runs.record import describe_cut  # which imports this module in turn

    status = run.status
    return SeedSummary(
        run=run.id,
        seed=run.seed,
        state=status.state,
        reason=status.reason or (None if rows is None else describe_cut(status, rows)),
        env_steps=status.env_steps,
        steps=came.steps,
        returns=came.returns,
        last=came.last,
        best=came.best,
        best_at=None if came.best_at is None else int(came.best_at),
        reached_at=None if came.reached_at is None else int(came.reached_at),
        lost=came.lost,
        success=came.recent_success,
    )


def _note(seeds: list[SeedSummary], outcomes: Sequence[Outcome], source: str, verdict: str) -> str:
    notes = []
    broken = [seed for seed in seeds if seed.state in BROKEN]
    stopped = [seed for seed in seeds if seed.state == "stopped"]
    lost = [seed for seed in seeds if seed.lost]
    alone = len(seeds) == 1
    if alone:
        notes.append("n = 1: no interval")
    if broken:
        notes.append("it failed" if alone else f"{len(broken)} of {len(seeds)} seeds failed")
    if stopped:
        notes.append("it was stopped early" if alone else f"{len(stopped)} of {len(seeds)} seeds were stopped early")
    if lost and verdict != "RUNNING":
        who = "it" if alone else f"{len(lost)} of {len(seeds)} seeds"
        notes.append(f"{who} reached the threshold and fell below it again: use @best")
    gamed = [came for came in outcomes if came.reached_at is None and came.threshold is not None and (came.returns >= came.threshold).any()]
    if source == "evaluation" and gamed and any(came.last_success is not None for came in gamed):
        notes.append(f"{'it' if alone else f'{len(gamed)} of {len(seeds)} seeds'} reached the return without the success")
    if any(came.required_success is not None and came.counts and len(came.returns) and came.last_success is None for came in outcomes):
        notes.append("success is required, but no evaluation reported any")
    if source == "training" and any(came.threshold is not None for came in outcomes) and verdict != "RUNNING":
        notes.append("no evaluation was made: the returns are those of training")
    return "; ".join(notes)


def _steps_to_threshold(seeds: list[SeedSummary], budget: int | None) -> stats.Estimate | None:
    times = [seed.reached_at for seed in seeds]
    # The last rollout may end a little after the budget, and its evaluation counts.
    horizon = max([float(budget or 0), *(float(seed.steps[-1]) for seed in seeds if len(seed.steps))])
    if not times or horizon <= 0:
        return None
    return stats.estimate_mean([horizon if time is None else float(time) for time in times])


def _curve(seeds: list[SeedSummary]) -> Curve:
    """IQM and band over seeds, at the steps where any of them was evaluated (thinned to MAX_POINTS)."""
    curves = [(seed.steps, seed.returns) for seed in seeds if len(seed.steps)]
    return Curve(*stats.band_of_curves(curves, MAX_POINTS)) if curves else Curve(*(np.empty(0) for _ in range(4)))


def _mean_fps(tables: list[Table]) -> float | None:
    rates = [float(values.mean()) for table in tables if len(values := table.series(FPS)[1])]
    return float(np.mean(rates)) if rates else None


def wall_seconds(table: Table) -> float | None:
    """Seconds that a run worked, by its own phases: what the clock shows also counts the nights before a resume."""
    spent = _seconds(table)
    return sum(spent.values()) if spent and len(table) else None


def _seconds(table: Table) -> dict[str, float]:
    names = [name for name in table.names if name.startswith(PHASES) and name != FPS]
    return {name.removeprefix(PHASES): float(np.nansum(table[name])) for name in names}


def _phases(tables: list[Table]) -> dict[str, float]:
    """Share of each phase in the time that all phases took together, over all seeds; largest first."""
    spent: dict[str, float] = {}
    for table in tables:
        for name, seconds in _seconds(table).items():
            spent[name] = spent.get(name, 0.0) + seconds
    total = sum(spent.values())
    return {name: part / total for name, part in sorted(spent.items(), key=lambda entry: -entry[1]) if part > 0}
