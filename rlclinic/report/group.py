"""A group's report: the numbers, what to type next, Markdown, HTML, and solution.yaml."""

import json
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import numpy as np

from rlclinic import trust
from rlclinic.actions import Action, Change
from rlclinic.config.gymnasium_registry import OWN_ENVIRONMENTS
from rlclinic.report import charts, evidence
from rlclinic.report.document import (
    VERDICT_TONES,
    Block,
    Code,
    Commands,
    Figure,
    Heading,
    Rows,
    Table,
    Text,
    Tiles,
    Verdict,
    render_markdown,
    render_page,
)
from rlclinic.report.format import (
    BLANK,
    count,
    describe_goal,
    describe_outcome,
    describe_success,
    duration,
    frames,
    interval,
    listed,
    name_band,
    number,
    percent,
    plural,
    short,
    step_unit,
)
from rlclinic.report.models import Curve, Estimate, GroupReport, SeedCurve, SeedOutcome, TopFinding, TrainResult, finite, state_of
from rlclinic.runs.history import BY_USER, History
from rlclinic.runs.outcome import Outcome, measure_group
from rlclinic.runs.record import Group, Run, possible_returns, settings
from rlclinic.runs.summary import GroupSummary
from rlclinic.stats import Estimate as Interval

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Diagnosis
    from rlclinic.report.models import DiagnosisReport


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
        n_lost=summary.n_lost,
        threshold=summary.threshold,
        required_success=summary.required_success,
        success=summary.success,
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


def next_commands(group: Group, summary: GroupSummary) -> list[Action]:
    """What is worth doing now, the most useful first."""
    gid, best, where = group.id, summary.best_run, runs_dir_of(group)
    play = [Action("play", best, runs_dir=where)] if best else []
    go_on = Action("train", resume=gid, runs_dir=where)
    open_runs = [seed for seed in summary.seeds if seed.state in ("stopped", "crashed", "failed")]
    budget = summary.max_env_steps or 0
    broken = next((seed.run for seed in summary.seeds if seed.state in ("failed", "crashed")), None)
    if group.record.get("source"):
        # Another framework trained it: there is no policy here to watch, and nothing to go on from.
        commands = [Action("diagnose", gid, runs_dir=where)]
    elif summary.verdict == "RUNNING":
        commands = [Action("status", gid, runs_dir=where)]
    elif broken is not None:
        commands = [Action("runs logs", broken, runs_dir=where), go_on]
    elif open_runs:
        commands = [go_on]
    elif summary.verdict in ("NOT SOLVED", "PARTLY SOLVED"):
        further = Action("train", resume=gid, max_env_steps=2 * budget, runs_dir=where)
        missed = [seed for seed in summary.seeds if seed.reached_at is None]
        worst = min(missed, key=lambda seed: float("-inf") if seed.best is None else seed.best)
        look = Action("runs metrics", worst.run, runs_dir=where)
        commands = [further, look] if _still_rising(summary) else [look, further]
    elif summary.verdict in ("NOT EVALUATED", "NO RETURN"):
        commands = [Action("evaluate", summary.seeds[0].run, runs_dir=where)]
    else:
        commands = [*play, *([Action("train", gid, seeds=8, runs_dir=where)] if summary.n_seeds == 1 else [])]
    return commands


def _still_rising(summary: GroupSummary) -> bool:
    """Whether the last fifth of the curve is above the fifth before it: then more steps are the first thing to try."""
    curve = summary.curve.iqm
    fifth = len(curve) // 5
    return bool(fifth and curve[-fifth:].mean() > curve[-2 * fifth : -fifth].mean())


def runs_dir_of(owner: Run | Group) -> Path | None:
    """Where a command must look to find the same runs again, from the same shell; None where it looks there anyway."""
    return runs_dir_to_type(owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent)


def runs_dir_to_type(root: Path) -> Path | None:
    """A store that a command must be told of; None where it looks there anyway."""
    return None if root in (Path("runs"), Path(os.environ.get("RLCLINIC_RUNS", "runs"))) else root


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
            lost=seed.lost,
            success=seed.success,
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
        step_unit=step_unit(group.algo, group.record),
    )


def describe_histories(histories: Sequence[History], diagnosis: "Diagnosis") -> GroupReport:
    """The same report of runs that are no group of ours, from what their logs say."""
    facts = diagnosis.facts
    outcomes = measure_group(histories, histories[0].goal, facts.source)
    missed = facts.threshold - facts.last if facts.threshold is not None and facts.last is not None else None
    return GroupReport(
        id=facts.id,
        name=f"{facts.env or 'unknown environment'}:{facts.algo or 'unknown algorithm'}",
        env=facts.env or "unknown environment",
        algo=facts.algo or "unknown algorithm",
        verdict=diagnosis.verdict,
        note=f"read as {facts.source}",
        n_runs=facts.runs,
        n_reached=facts.reached or 0,
        n_lost=facts.lost or 0,
        threshold=facts.threshold,
        required_success=facts.required_success,
        success=facts.success,
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
        seeds=[_foreign_outcome(each, came) for each, came in zip(histories, outcomes, strict=True)],
        curve=evidence.curve(diagnosis, [_seed_curve(each, outcomes[place], place) for place, each in enumerate(histories)]),
        config=_nested(histories[0].settings) if histories else {},
        parent=None,
        path=str(histories[0].path) if histories and histories[0].path else "",
        next=[],
    )


def _seed_curve(history: History, came: Outcome, place: int) -> SeedCurve:
    """A run's returns, at most 200 points."""
    keep = np.unique(np.linspace(0, len(came.returns) - 1, 200).round().astype(int)) if len(came.returns) else np.empty(0, dtype=int)
    values: list[float | None] = came.returns[keep].tolist()
    return SeedCurve(seed=place if history.seed is None else history.seed, steps=came.steps[keep].tolist(), values=values)


def _foreign_outcome(history: History, came: Outcome) -> SeedOutcome:
    return SeedOutcome(
        run=history.id,
        seed=history.seed,
        state=state_of(history.state if history.state != "unknown" else "stopped"),
        env_steps=history.env_steps or 0,
        last_eval=came.last,
        best_eval=came.best,
        best_eval_at=None if came.best_at is None else int(came.best_at),
        threshold_reached_at=None if came.reached_at is None else int(came.reached_at),
        lost=came.lost,
        success=came.recent_success,
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


def headline(report: GroupReport) -> str:
    """One line: how many seeds reached the threshold, the return over seeds, the gap, the best evaluation."""
    last, best = (report.last.value, report.last.low, report.last.high), (report.best, report.best_at)
    goal = describe_goal(report.threshold, report.required_success)
    return describe_outcome(
        report.n_runs, report.n_reached, report.n_lost, goal, report.threshold, describe_success(report.success), last, best
    )


def estimate(value: Estimate) -> str:
    """212 [164, 268]."""
    return f"{number(value.value)} {interval(value.low, value.high)}".strip()


def subtitle(report: GroupReport) -> str:
    """What was trained, on how many seeds, for how long."""
    steps = f"{count(report.env_steps / max(report.n_runs, 1))}/{count(report.max_env_steps)} {step_unit(report.algo, report.config)}"
    steps += frames(report.max_env_steps, _frames_per_step(report))
    parts = [report.algo.upper(), report.env, plural(report.n_runs, "seed"), steps]
    if report.parent:
        parts.append(f"from {report.parent}")
    return " · ".join(parts)


def _frames_per_step(report: GroupReport) -> int | None:
    """Frames of an Atari game in an env step, where the run itself says so."""
    env = report.config.get("env")
    if not report.env.startswith("ALE/") or not isinstance(env, dict) or "frame_skip" not in env:
        return None
    from rlclinic.config.environment import ATARI_FRAME_SKIP  # here: listing runs reads no config

    return int(env["frame_skip"] or ATARI_FRAME_SKIP)


def _gap(report: GroupReport) -> tuple[str, str]:
    """How much is missing; where only success is, by how much the return passed its threshold."""
    if not report.gap or report.gap_fraction is None:
        return "gap to the threshold", BLANK
    said = f"{number(abs(report.gap))} ({percent(abs(report.gap_fraction))})"
    return ("gap to the threshold" if report.gap > 0 else "return above the threshold"), said


def facts(report: GroupReport) -> list[tuple[str, str]]:
    """The report's key numbers, with what each one is."""
    goal, unit = describe_goal(report.threshold, report.required_success), step_unit(report.algo, report.config)
    reached = f"{report.n_reached} of {report.n_runs}" + (f", {report.n_lost} lost it again" if report.n_lost else "")
    rows = [
        ("seeds that reached the threshold", reached if goal else "no threshold"),
        ("success in the last evaluations", describe_success(report.success)),
        (f"last evaluation, IQM over seeds, {name_band(report.n_runs)}", estimate(report.last)),
        _gap(report),
        ("best evaluation", _best(report)),
        (
            f"{unit} to the threshold, mean within the budget, lowest and highest seed",
            estimate(report.steps_to_threshold) if report.n_reached else BLANK,
        ),
        ("wall time", duration(report.wall_seconds)),
        (f"{unit} per second, all seeds", count(report.steps_per_second)),
    ]
    return [(name, value) for name, value in rows if value and value != BLANK]


def seed_heads(report: GroupReport) -> list[str]:
    """The columns of the table of seeds; success only where it is reported."""
    success = ["success"] if any(seed.success is not None for seed in report.seeds) else []
    return ["run", "seed", "last evaluation", "best evaluation", *success, "threshold at", step_unit(report.algo, report.config), "state"]


def seed_cells(report: GroupReport, seed: SeedOutcome) -> list[str]:
    """One seed's row, in the order of `seed_heads`."""
    # Four digits: 474.9 is not 475, and only one of them has solved CartPole.
    best = f"{number(seed.best_eval, 4)} at {short(seed.best_eval_at)}" if seed.best_eval is not None else BLANK
    state = seed.state if not seed.reason else f"{seed.state}: {seed.reason.splitlines()[0]}"
    return [
        seed.run,
        BLANK if seed.seed is None else str(seed.seed),
        number(seed.last_eval, 4),
        best,
        *([describe_success(seed.success) or BLANK] if "success" in seed_heads(report) else []),
        short(seed.threshold_reached_at) + (", lost" if seed.lost else ""),
        count(seed.env_steps),
        state,
    ]


def _best(report: GroupReport) -> str:
    if report.best is None:
        return BLANK
    said = f"{number(report.best)} at {short(report.best_at)}"
    return f"{said} ({report.best_run})" if report.best_run else said


def write_yaml(config: dict[str, Any]) -> str:
    """A config as YAML, in the order of the schema."""
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100))


# ── on a terminal ──


def verdict(report: GroupReport, timed: bool = False) -> Verdict:
    """SOLVED  8 of 8 seeds reached 475 · return ...; with the time that it took, if that is asked for."""
    speed = f" · {duration(report.wall_seconds)}, {count(report.steps_per_second)} steps/s" if timed and report.wall_seconds else ""
    return Verdict(report.verdict, headline(report) + speed, VERDICT_TONES.get(report.verdict, "plain"))


def overview(report: GroupReport) -> list[Block]:
    """`runs show GROUP`: verdict, curve, seeds, where the time went, what to type."""
    from rlclinic.report.run import main_settings

    times = " · ".join(f"{name} {percent(share)}" for name, share in report.throughput.items())
    rows = [("settings", main_settings(report.config)), ("time", times)]
    return [
        Text(f"{report.id} · {subtitle(report)}"),
        verdict(report, timed=True),
        Rows([("note", report.note)] if report.note else []),
        curve_or_reason(report),
        Table(_short_heads(report), [seed_cells(report, seed) for seed in report.seeds]),
        Rows([row for row in rows if row[1]]),
        _next(report),
    ]


def _short_heads(report: GroupReport) -> list[str]:
    """The table's heads as a terminal has room for; numbers to the right."""
    short_names = {"last evaluation": "last", "best evaluation": "best"}
    return [name if name in ("run", "state") else f">{short_names.get(name, name)}" for name in seed_heads(report)]


def training_end(result: TrainResult) -> list[Block]:
    """The end of `train`: verdict, gap, curve where something is left to wish for, the top finding, what to type, the report."""
    from rlclinic.report.diagnosis import top_finding

    if result.report is None:
        gid = result.group
        return [
            Text(f"started {gid} ({plural(len(result.runs), 'run')}), which goes on without this terminal"),
            Commands(
                [
                    ("watch it", Action("status", gid)),
                    ("stop it", Action("stop", gid)),
                    ("then", Action("runs show", gid, report=True)),
                ]
            ),
        ]
    report = result.report
    solved = report.verdict == "SOLVED"
    finding = top_finding(result.finding)
    blocks: list[Block] = [] if solved else [Text(f"{report.id} · {subtitle(report)}")]
    blocks += [verdict(report, timed=True), Rows([("note", report.note)] if report.note else [])]
    if not solved:
        blocks.append(curve_or_reason(report))
    blocks += [_failures(report), *finding, _next(report, result.finding if finding else None)]
    if result.files:
        blocks.append(Commands([("report", next((file for file in result.files if file.endswith(".html")), result.files[0]))]))
    return blocks


def curve_figure(report: GroupReport, diagnosed: "DiagnosisReport | None" = None, picture: str | None = None) -> Figure:
    """The learning curve; with a diagnosis, where its evidence lies."""
    marked = diagnosed.marked if diagnosed else None
    shaded = f"; shaded: {marked.text}" if marked else ""
    band = name_band(report.n_runs)
    text = f"Return against {report.curve.step_unit}. Thick: interquartile mean over seeds, with the {band}; thin: seeds; dashes: "
    text += f"threshold{shaded}."
    drawn = report.curve
    if len(drawn.steps) < 2 and diagnosed is not None and len(diagnosed.diagnosis.curve.steps) > 1:
        # One evaluation is a dot: training returns show how it came there.
        made = evidence.curve(diagnosed.diagnosis, [SeedCurve(seed=seed.seed, steps=[], values=[]) for seed in drawn.seeds])
        drawn = made.model_copy(update={"threshold": drawn.threshold, "return_range": drawn.return_range})
    return Figure(partial(charts.svg, drawn, marked), text, picture, charts.CurveDrawing(drawn))


def curve_or_reason(report: GroupReport) -> Figure | Rows:
    """The learning curve, or what would draw one where there was a single evaluation."""
    if len(report.curve.steps) > 1:
        return curve_figure(report)
    if not report.curve.steps or not report.max_env_steps:
        return Rows([])
    often = Change("run.eval_every_env_steps", max(1, report.max_env_steps // 20))
    return Rows([("curve", f"there is none of one evaluation: {often} makes twenty")])


def _failures(report: GroupReport) -> Rows:
    """Why seeds failed, or stopped by themselves: each reason once, with the runs that gave it."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for seed in report.seeds:
        if seed.state in ("failed", "crashed"):
            reasons.setdefault(("failed", seed.reason or "no reason was recorded"), []).append(seed.run)
        elif seed.state == "stopped" and seed.reason and seed.reason not in BY_USER:
            reasons.setdefault(("stopped", seed.reason), []).append(seed.run)
    return Rows([(how, f"{listed(runs, 4)}: {reason}") for (how, reason), runs in reasons.items()])


def _next(report: GroupReport, after: TopFinding | None = None) -> Commands:
    """The commands worth typing now. `after`: a finding that was shown before them, and says itself what to do."""
    commands = list(report.next)
    if after is not None and after.then is not None and all(seed.state == "finished" for seed in report.seeds):
        # What the finding asks for comes first; twice the budget is for runs about which nothing better is known.
        commands = [after.then, *(command for command in commands if "max_env_steps" not in command.options)]
    return Commands([("next" if place == 0 and after is None else "", command) for place, command in enumerate(commands)])


# ── report.md and report.html ──


def document(report: GroupReport, diagnosed: "DiagnosisReport | None" = None, picture: str | None = None) -> list[Block]:
    """The report's blocks: the primary bottleneck first, then brief sections in a fixed order. Without a diagnosis, the numbers alone."""
    curve = curve_figure(report, diagnosed, picture)
    if diagnosed is None:
        return [curve, *_summary(report), *_time(report), Heading("Next"), _next(report), *_config(report)]
    from rlclinic.report import diagnosis

    blocks: list[Block] = [diagnosis.bottleneck(diagnosed), curve, Heading("1. Training run summary"), *_summary(report)]
    blocks += diagnosis.assessment(diagnosed)
    blocks += [Heading("2. Key metrics analysis"), *diagnosis.key_metrics(diagnosed)]
    blocks += [Heading("3. Diagnosed bottlenecks"), *diagnosis.bottlenecks(diagnosed)]
    blocks += [Heading("4. Optimization recommendations"), *diagnosis.recommendations(diagnosed, "whole")]
    commands = list(dict.fromkeys([*diagnosed.next, *report.next]))
    blocks += [Heading("5. Suggested next steps"), *diagnosis.next_steps(diagnosed, commands)]
    if diagnosed.suspects:
        blocks += [Heading("6. If a bug is suspected"), *diagnosis.suspects(diagnosed.suspects, "whole")]
    return [*blocks, *_time(report), *_config(report)]


def _summary(report: GroupReport) -> list[Block]:
    rows = [seed_cells(report, seed) for seed in report.seeds]
    note: list[Block] = [Text(f"**Note**: {report.note}.")] if report.note else []
    return [Tiles(facts(report)), *note, Heading("Seeds", 3), Table(seed_heads(report), rows)]


def _time(report: GroupReport) -> list[Block]:
    if not report.throughput:
        return []
    rows = [[name, percent(share)] for name, share in report.throughput.items()]
    return [Heading("Where the time went"), Table(("phase", "share"), rows)]


def _config(report: GroupReport) -> list[Block]:
    return [Heading("Config"), Code(write_yaml(report.config).rstrip(), "yaml")]


def markdown(report: GroupReport, diagnosed: "DiagnosisReport | None" = None, picture: str | None = None) -> str:
    """report.md: readable as text, with the picture beside it where there is one."""
    lead: list[Block] = [Heading(f"{report.name} · {report.verdict}", 1), Text(f"{subtitle(report)} · {report.id}")]
    return render_markdown([*lead, verdict(report), *document(report, diagnosed, picture)])


def html(report: GroupReport, diagnosed: "DiagnosisReport | None" = None, more: Sequence[Block] = ()) -> str:
    """report.html: styles and pictures are inside; nothing is fetched, and no script runs. `more` comes at its end."""
    lead: list[Block] = [Text(f"{subtitle(report)} · {report.id}", quiet=True), Text(headline(report))]
    return render_page(report.name, [*lead, *document(report, diagnosed), *more], report.verdict, verdict(report).tone)


def run_markdown(report: GroupReport, seed: SeedOutcome) -> str:
    """A run's short report.md: its own numbers, and where the statistics are."""
    facts = list(zip(seed_heads(report)[2:], seed_cells(report, seed)[2:], strict=True))
    where = f"One of {plural(report.n_runs, 'seed')} of group {report.id}: ../@groups/{report.id}/report.md"
    return render_markdown([Heading(f"{seed.run} · {report.name} · seed {seed.seed}", 1), Tiles(facts), Text(where)])


# ── solution.yaml ──

NAMES = {"ppo": "PPO", "a2c": "A2C", "reinforce": "REINFORCE"}
# The document calls the clip range by the paper's letter.
RENAMED = {"clip_range": "clip_epsilon"}


def as_yaml(group: Group, report: GroupReport) -> str:
    """The whole document as YAML text."""
    import yaml

    document = describe(group, report)
    code = document.pop("deployment_code")
    text = yaml.safe_dump({"rl_training_solution": document}, sort_keys=False, allow_unicode=True, width=100)
    # Code as a block, as people write it: the dumper would quote and escape it.
    return f"{text}  deployment_code: |\n{indent(code, '    ')}"


def describe(group: Group, report: GroupReport) -> dict[str, Any]:
    """The document as data."""
    algo, env = report.config["algo"], report.config["env"]
    terms = _list_terms(group)
    return {
        "algorithm": _algorithm(algo),
        "environment": report.env,
        "training_configuration": {
            **_spaces(group),
            "reward_design": {
                "task_reward": _task_reward(terms, env),
                "shaping_rewards": [*terms[1:], *(wrapper["id"] for wrapper in env.get("wrappers") or [] if "eward" in wrapper["id"])],
                "exploration_bonus": _exploration_bonus(report.config),
            },
            "n_envs": env["n_envs"],
            "max_env_steps": report.max_env_steps,
            "network": report.config["net"],
            "seeds": [seed.seed for seed in report.seeds],
        },
        "hyperparameters": {RENAMED.get(key, key): value for key, value in algo.items() if key != "name" and value is not None},
        "training_results": _results(group, report),
        "curriculum_stages": _list_stages(group),
        "deployment_code": deployment_code(group, report),
    }


def deployment_code(group: Group, report: GroupReport) -> str:
    """A script that loads the best seed's best policy and runs one episode."""
    run = report.best_run or (report.seeds[0].run if report.seeds else "RUN")
    kwargs = "".join(f", {key}={value!r}" for key, value in (report.config["env"].get("kwargs") or {}).items())
    make, imported = f"gymnasium.make({report.env!r}{kwargs})", "import gymnasium\nimport rlclinic"
    if trust.names_code(report.env) or report.env in OWN_ENVIRONMENTS:
        # Gymnasium knows no files, and ours only once they are asked for.
        make, imported = "make_single(run.config.env)", "import rlclinic\nfrom rlclinic.training.envs.making import make_single"
    return f"""{imported}

run = rlclinic.load_run({str(group.path.parent.parent / run)!r})
policy = run.policy("@best")

env = {make}
obs, _ = env.reset(seed=0)
ended, total = False, 0.0
while not ended:
    action = policy.act(obs, deterministic=True)
    obs, reward, terminated, truncated, _ = env.step(action)
    total, ended = total + float(reward), terminated or truncated
print(total)
"""


def _algorithm(algo: dict[str, Any]) -> str:
    name = NAMES.get(algo["name"], algo["name"])
    return f"{name} with a learned baseline" if algo["name"] == "reinforce" and algo.get("baseline") else name


def _task_reward(terms: Sequence[str], env: dict[str, Any]) -> str:
    """The term that is the task itself, where the environment tells them."""
    named = f"{terms[0]}, the first of its terms" if terms else "the environment's own"
    return named + (", normalized for training" if env.get("normalize_reward") else "")


def _exploration_bonus(config: dict[str, Any]) -> str:
    bonus, entropy = config.get("bonus"), config["algo"].get("ent_coef")
    said = [f"{bonus['kind']}, weight {bonus['coef']}"] if bonus else []
    return ", and ".join([*said, *([f"entropy, weight {entropy}"] if entropy else [])]) or "none"


def _list_terms(group: Group) -> list[str]:
    """The terms of the reward, as the environment tells them."""
    told = [name.split("/")[2] for run in group.runs[:1] for name in run.metrics.names if re.fullmatch(r"train/terms/[^/]+/return", name)]
    return told


def _list_stages(group: Group) -> list[dict[str, Any]]:
    """The stages of a curriculum: the episodes that were played in each, and the success that it ended with; medians over seeds."""
    curriculum = group.runs[0].config.curriculum if group.runs else None
    if curriculum is None or curriculum.levels is not None:
        return []

    def last(column: str) -> float | None:
        found = [float(values[-1]) for run in group.runs if len(values := run.metrics.series(column)[1])]
        return statistics.median(found) if found else None

    stages = []
    for place, task in enumerate(curriculum.tasks, 1):
        success = last(f"val/stage/{place}/success_rate")
        success = last(f"train/stage/{place}/success_rate") if success is None else success
        rate = None if success is None else round(success, 4)
        stages.append({"stage": task.name, "episodes": _rounded(last(f"train/stage/{place}/episodes")), "success_rate": rate})
    return stages


def _spaces(group: Group) -> dict[str, str]:
    """Observation and action space as training met them; it writes them down when it starts."""
    # Read anew: the group may have been made, and its records read, before training wrote this.
    engine = Run(group.runs[0].path).record.get("engine") if group.runs else None
    known = engine if isinstance(engine, dict) else {}
    shape, action = known.get("obs_shape"), known.get("action")
    unknown = "not recorded: training never started"
    return {
        "state_space": " x ".join(map(str, shape)) + " numbers" if shape else unknown,
        "action_space": _action_space(action["kind"], action["sizes"]) if action else unknown,
    }


def _action_space(kind: str, sizes: list[int]) -> str:
    match kind:
        case "discrete":
            return f"{sizes[0]} discrete actions"
        case "multi_discrete":
            return f"{len(sizes)} discrete components of {', '.join(map(str, sizes))} values"
        case "multi_binary":
            return f"{len(sizes)} binary components"
        case _:
            return f"{sizes[0]}-dimensional continuous control"


def _results(group: Group, report: GroupReport) -> dict[str, Any]:
    episodes = [_episodes_at(run, seed.threshold_reached_at) for run, seed in zip(group.runs, report.seeds, strict=True)]
    solved = [number for number in episodes if number is not None]
    return {
        "verdict": report.verdict,
        "threshold": report.threshold,
        "seeds_that_reached_it": f"{report.n_reached} of {report.n_runs}",
        "episodes_to_solve": round(statistics.median(solved)) if solved else None,
        "env_steps_to_solve": _rounded(report.steps_to_threshold.value) if report.n_reached else None,
        "final_success_rate": None if report.success is None else round(report.success.rate, 4),
        "average_episode_reward": None if report.last.value is None else round(report.last.value, 3),
        "average_episode_reward_95_percent": [report.last.low, report.last.high] if report.last.low is not None else None,
        "best_episode_reward": report.best,
        "training_time_hours": None if report.wall_seconds is None else round(report.wall_seconds / 3600, 5),
    }


def _episodes_at(run: Run, step: int | None) -> float | None:
    """Episodes that had ended when the threshold was first reached."""
    if step is None:
        return None
    steps, episodes = run.metrics.series("total_episodes")
    before = episodes[steps <= step]
    return float(before[-1]) if len(before) else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
