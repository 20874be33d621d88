"""A group's numbers and what to type next, from its files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlclinic.ops import panels
from rlclinic.ops.outcomes import Estimate, GroupReport, SeedOutcome
from rlclinic.ops.results import Curve, SeedCurve, finite, state_of
from rlclinic.runs import fields
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run, settings
from rlclinic.runs.summary import GroupSummary
from rlclinic.stats import Estimate as Interval

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Diagnosis


def describe_group(group: Group) -> GroupReport:
    """Everything that the report says, from one pass over the group's files."""
    summary = group.summary
    return GroupReport(
        id=group.id,
        name=group.name,
        env=group.env_id,
        algo=group.algo,
        verdict=summary.verdict,
        note=summary.note,
        n_runs=summary.n_seeds,
        n_reached=summary.n_reached,
        threshold=summary.threshold,
        gap=summary.gap,
        gap_fraction=None if summary.gap_percent is None else summary.gap_percent / 100,
        last=_estimate(summary.score),
        best=summary.best,
        best_at=summary.best_at,
        best_run=summary.best_run,
        env_steps=summary.env_steps,
        max_env_steps=summary.max_env_steps,
        steps_to_threshold=_estimate(summary.steps_to_threshold),
        wall_seconds=summary.wall_seconds,
        steps_per_second=None if summary.fps is None else summary.fps * summary.n_seeds,
        throughput=summary.phases,
        seeds=_outcomes(summary),
        curve=_curve(group, summary),
        config=settings(group.record),
        parent=group.parent,
        path=str(group.path),
        next=next_commands(group, summary),
    )


def next_commands(group: Group, summary: GroupSummary) -> list[str]:
    """What is worth typing now, the most useful first."""
    gid, best = group.id, summary.best_run
    play = [f"rlclinic play {best}"] if best else []
    open_runs = [seed for seed in summary.seeds if seed.state in ("stopped", "crashed", "failed")]
    budget = summary.max_env_steps or 0
    broken = next((seed.run for seed in summary.seeds if seed.state in ("failed", "crashed")), None)
    if group.record.get("source"):
        # Another framework trained it: there is no policy here to watch, and nothing to go on from.
        commands = [f"rlclinic diagnose {gid}"]
    elif summary.verdict == "RUNNING":
        commands = [f"rlclinic status {gid}"]
    elif broken is not None:
        commands = [f"rlclinic runs logs {broken}", f"rlclinic train --resume {gid}"]
    elif open_runs:
        commands = [f"rlclinic train --resume {gid}"]
    elif summary.verdict in ("NOT SOLVED", "PARTLY SOLVED"):
        further = f"rlclinic train --resume {gid} --max-env-steps {2 * budget}"
        missed = [seed for seed in summary.seeds if seed.reached_at is None]
        worst = min(missed, key=lambda seed: float("-inf") if seed.best is None else seed.best)
        look = f"rlclinic runs metrics {worst.run}"
        commands = [further, look] if _still_rising(summary) else [look, further]
    elif summary.verdict == "NOT EVALUATED":
        commands = [f"rlclinic evaluate {summary.seeds[0].run}"]
    else:
        commands = [*play, *([f"rlclinic train {gid} --seeds 8"] if summary.n_seeds == 1 else [])]
    return [command + runs_dir_flag(group) for command in commands]


def _still_rising(summary: GroupSummary) -> bool:
    """Whether the last fifth of the curve is above the fifth before it: then more steps are the first thing to try."""
    curve = summary.curve.iqm
    fifth = len(curve) // 5
    return bool(fifth and curve[-fifth:].mean() > curve[-2 * fifth : -fifth].mean())


def runs_dir_flag(owner: Run | Group) -> str:
    """A command must find the same runs again, from the same shell."""
    root = owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent
    if root in (Path("runs"), Path(os.environ.get("RLCLINIC_RUNS", "runs"))):
        return ""
    return f" --runs-dir {root}"


def _estimate(interval: Interval | None) -> Estimate:
    return Estimate(value=None, low=None, high=None) if interval is None else Estimate(**interval._asdict())


def _outcomes(summary: GroupSummary) -> list[SeedOutcome]:
    return [
        SeedOutcome(
            run=seed.run,
            seed=seed.seed,
            state=state_of(seed.state),
            env_steps=seed.env_steps,
            last_eval=seed.last,
            best_eval=seed.best,
            best_eval_at=seed.best_at,
            threshold_reached_at=seed.reached_at,
            reason=seed.reason,
        )
        for seed in summary.seeds
    ]


def _curve(group: Group, summary: GroupSummary) -> Curve:
    seeds = [SeedCurve(seed=seed.seed, steps=seed.steps.tolist(), values=finite(seed.returns)) for seed in summary.seeds]
    curve = summary.curve
    return Curve(
        label=f"{summary.source} return",
        steps=curve.steps.tolist(),
        center=finite(curve.iqm),
        low=finite(curve.low),
        high=finite(curve.high),
        seeds=seeds,
        threshold=summary.threshold,
        return_range=possible_returns(group.record),
    )


def describe_histories(histories: Sequence[History], found: "Diagnosis") -> GroupReport:
    """The same report of runs that are no group of ours, from what their logs say."""
    facts = found.facts
    missed = facts.threshold - facts.last if facts.threshold is not None and facts.last is not None else None
    return GroupReport(
        id=facts.id,
        name=f"{facts.env or 'unknown environment'}:{facts.algo or 'unknown algorithm'}",
        env=facts.env or "unknown environment",
        algo=facts.algo or "unknown algorithm",
        verdict=found.verdict,
        note=f"read as {facts.source}",
        n_runs=facts.runs,
        n_reached=facts.reached or 0,
        threshold=facts.threshold,
        gap=missed,
        gap_fraction=missed / abs(facts.threshold) if missed is not None and facts.threshold else None,
        last=Estimate(value=facts.last, low=facts.low, high=facts.high),
        best=facts.best,
        best_at=None if facts.best_at is None else int(facts.best_at),
        best_run=None,
        env_steps=int((facts.env_steps or 0) * facts.runs),
        max_env_steps=facts.max_env_steps,
        steps_to_threshold=Estimate(value=None, low=None, high=None),
        wall_seconds=None,
        steps_per_second=None,
        throughput={},
        seeds=[_foreign_outcome(each) for each in histories],
        curve=panels.curve(found, [_seed_curve(each, place) for place, each in enumerate(histories)]),
        config=_nested(histories[0].settings) if histories else {},
        parent=None,
        path=str(histories[0].path) if histories and histories[0].path else "",
        next=[],
    )


_RETURNS = ("val/roll/ep_rew_mean", "train/roll/ep_rew_mean")


def _returns(history: History) -> tuple[list[float], list[float]]:
    """Evaluation returns where there are some, else training returns; at most 200 points."""
    for name in _RETURNS:
        series = history.series.get(name)
        if series is not None and len(series.values):
            keep = np.unique(np.linspace(0, len(series.values) - 1, 200).round().astype(int))
            return series.steps[keep].tolist(), series.values[keep].tolist()
    return [], []


def _seed_curve(history: History, place: int) -> SeedCurve:
    steps, values = _returns(history)
    return SeedCurve(seed=place if history.seed is None else history.seed, steps=steps, values=list(values))


def _foreign_outcome(history: History) -> SeedOutcome:
    series = next((history.series[name] for name in _RETURNS if name in history.series and len(history.series[name].values)), None)
    top = None if series is None else int(np.argmax(series.values))
    limit = history.threshold
    reached: list[float] = [] if series is None or limit is None else series.steps[series.values >= limit].tolist()
    return SeedOutcome(
        run=history.id,
        seed=history.seed,
        state=state_of(history.state if history.state != "unknown" else "stopped"),
        env_steps=history.env_steps or 0,
        last_eval=None if series is None else series.last,
        best_eval=None if series is None or top is None else float(series.values[top]),
        best_eval_at=None if series is None or top is None else int(series.steps[top]),
        threshold_reached_at=int(reached[0]) if len(reached) else None,
        reason=history.reason if history.state != "unknown" else "how it ended is not known",
    )


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name, nested as in YAML; what YAML cannot hold becomes text."""
    config: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, name = key.partition(".")
        if dot:
            config.setdefault(section, {})[name] = value
        else:
            config[key] = value
    plain: dict[str, Any] = json.loads(json.dumps(config, default=str))
    return plain


def possible_returns(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """The lowest and the highest possible return, from a config.json or group.json."""
    return fields.pair(fields.within(record, "spec", "return_range"))
