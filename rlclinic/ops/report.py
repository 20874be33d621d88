"""A group's report: the numbers, what to type next, and the files report.md, report.html, curve.png, solution.yaml."""

import importlib.util
import os
from pathlib import Path

from rlclinic.ops import chart, pages, solution
from rlclinic.ops.outcomes import Estimate, GroupReport, SeedOutcome
from rlclinic.ops.results import Curve, RunInfo, SeedCurve
from rlclinic.ops.runs import finite, get_run_info, possible_returns, state_of
from rlclinic.runs.record import Group, settings
from rlclinic.runs.store import Store
from rlclinic.runs.summary import GroupSummary
from rlclinic.stats import Estimate as Interval


def show(selector: str = "@last", runs_dir: Path = Path("runs")) -> GroupReport | RunInfo:
    """A group's report, or one run's facts."""
    found = Store(runs_dir).resolve(selector)
    return describe_group(found) if isinstance(found, Group) else get_run_info(selector, runs_dir)


def get_group_report(selector: str = "@last", runs_dir: Path = Path("runs")) -> GroupReport:
    """A group's report, computed from its files as they are now."""
    return describe_group(Store(runs_dir).group(selector))


def write_group_reports(selector: str = "@last", runs_dir: Path = Path("runs")) -> list[Path]:
    """Write a group's report files again; for groups that were trained detached."""
    return write_reports(Store(runs_dir).group(selector))[1]


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


def write_reports(group: Group) -> tuple[GroupReport, list[Path]]:
    """Replace the group's report files and each run's short report.md."""
    report = describe_group(group)
    written = [
        group.write_report("report.md", pages.markdown(report)),
        group.write_report("report.html", pages.html(report)),
        group.write_report("solution.yaml", solution.as_yaml(group, report)),
    ]
    # The picture is an extra: without matplotlib the report has the same curve as SVG.
    if importlib.util.find_spec("matplotlib"):
        picture = group.path / "curve.png"
        chart.png(report.curve, picture, f"{report.name} · {report.verdict}")
        written.append(picture)
    for run, seed in zip(group.runs, report.seeds, strict=True):
        run.write_report("report.md", pages.run_markdown(report, seed))
    return report, written


def next_commands(group: Group, summary: GroupSummary) -> list[str]:
    """What is worth typing now, the most useful first."""
    gid, best = group.id, summary.best_run
    play = [f"rlclinic play {best}"] if best else []
    open_runs = [seed for seed in summary.seeds if seed.state in ("stopped", "crashed", "failed")]
    budget = summary.max_env_steps or 0
    broken = next((seed.run for seed in summary.seeds if seed.state in ("failed", "crashed")), None)
    if summary.verdict == "RUNNING":
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
    return [command + _runs_dir_flag(group) for command in commands]


def _still_rising(summary: GroupSummary) -> bool:
    """Whether the last fifth of the curve is above the fifth before it: then more steps are the first thing to try."""
    curve = summary.curve.iqm
    fifth = len(curve) // 5
    return bool(fifth and curve[-fifth:].mean() > curve[-2 * fifth : -fifth].mean())


def _runs_dir_flag(group: Group) -> str:
    """A command must find the same runs again, from the same shell."""
    root = group.path.parent.parent
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
