"""Results on a terminal: one function per command. Nothing here decides anything."""

import json
import time
from typing import TYPE_CHECKING

from rlclinic.actions import Action
from rlclinic.report.document import Block, Code, Commands, Gap, Heading, Points, Rows, Table, Text, Verdict
from rlclinic.report.format import BLANK, ago, clip, count, duration, listed, number, percent, plural, short, size, task
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlclinic.diagnosis.checkpoints.inspect_run import Inspection, LayerView
    from rlclinic.ops.compare.compare import Comparison
    from rlclinic.ops.diagnose.export.export import ExportResult
    from rlclinic.ops.diagnose.history import EnvironmentHistory, Tried
    from rlclinic.ops.diagnose.rules import RuleList, RulePage
    from rlclinic.ops.jobs.audited import Stopped
    from rlclinic.ops.runs.detail import TagResult
    from rlclinic.ops.runs.import_runs import ImportResult
    from rlclinic.ops.runs.table import TablePage
    from rlclinic.report.models import (
        CheckpointList,
        ConfigView,
        CurriculumReport,
        DataAdvice,
        DataReport,
        DataWritten,
        DiagnosisReport,
        Diagnostics,
        EnvironmentList,
        EvaluationResult,
        ExplorationReport,
        GroupReport,
        LogText,
        MetricTable,
        NewEnvironment,
        PolicyEvaluation,
        Removed,
        Requested,
        RewardBalanceReport,
        RewardReport,
        RunInfo,
        RunList,
        TrainResult,
    )

MEANING_WIDTH = 20
MARKS = {"ok": "✓", "warning": "·", "missing": "✗", "failed": "✗"}
MOST_SEPARATIONS, FEW_SEPARATIONS = 12, 5


def print_train(result: "TrainResult") -> None:
    """The end of `train`."""
    from rlclinic.report import group

    terminal.show(group.training_end(result))


def print_table(page: "TablePage") -> None:
    """`runs table`: the usual results, the settings in which rows differ, and sections where they are grouped."""
    if not page.total:
        terminal.show([Text("no row matches")])
        return
    reports = any("success" in row.results for row in page.rows)
    titles = {column.name: column.title for column in page.columns}
    heads = [
        "id",
        "config",
        "verdict" if page.of == "groups" else "state",
        ">seeds" if page.of == "groups" else ">seed",
        ">return",
        ">best",
    ]
    heads += [">success"] if reports else []
    heads += [">env steps", ">wall time", *(f">{titles.get(name, name)}" for name in page.shown)]
    rows = []
    for row in page.rows:
        found = row.results
        first = [row.id, clip(found.get("label", task(found["name"])), 32)]
        first += [found["verdict"], str(found["seeds"])] if page.of == "groups" else [found["state"], str(found["seed"])]
        figures = [number(found.get("last", found.get("return_mean"))), number(found.get("best"))]
        figures += [percent(found.get("success"))] if reports else []
        figures += [short(found["env_steps"]), duration(found.get("wall_time"))]
        rows.append([*first, *figures, *(row.settings[name] or BLANK for name in page.shown)])
    blocks: list[Block] = [Table(heads, rows)]
    if page.sections:
        sums = [
            [section.value or BLANK, str(section.rows), str(section.solved), number(section.last), number(section.best)]
            for section in page.sections
        ]
        blocks = [Table(["value", ">rows", ">solved", ">mean return", ">best"], sums), Gap(), *blocks]
    if page.values:
        blocks += [Gap(), Table(["value", ">rows"], [[value.value, str(value.rows)] for value in page.values])]
    terminal.show(blocks)
    if page.total > len(page.rows):
        console.progress().print(f"{len(page.rows)} of {page.total:,} {page.of}; more: --limit, --offset")


def print_exported(result: "ExportResult") -> None:
    """`runs export`."""
    rows = [("wrote", f"{result.path} ({plural(len(result.runs), 'run')} of {result.of})")]
    terminal.show([Rows(rows), Commands([("open", result.open)])])


def print_tagged(result: "TagResult") -> None:
    """`runs tag`."""
    terminal.show([Text(f"changed {listed(result.changed)}" if result.changed else "nothing changed: the tags were as asked")])


def print_group(report: "GroupReport") -> None:
    """`runs show GROUP`."""
    from rlclinic.report import group

    terminal.show(group.overview(report))


def print_curve(report: "GroupReport") -> None:
    """The curve, where `print_train` has left it out."""
    from rlclinic.report import group

    if report.verdict == "SOLVED":
        terminal.show([group.curve_or_reason(report)])


def print_lines(lines: "Sequence[str]") -> None:
    """Lines as they are."""
    terminal.show([Code("\n".join(lines))])


def print_runs(result: "RunList") -> None:
    """`runs list`."""
    if not result.runs:
        terminal.show([Text(f"no runs in {result.root}\nStart one: rlclinic train CartPole-v1:ppo")])
        return
    reports = any(row.success_rate is not None for row in result.runs)
    success = [">success"] if reports else []
    heads = ["run", "config", "state", ">env steps", ">return", ">eval", *success, ">best", ">threshold at", ">changed"]
    rows = []
    for row in result.runs:
        share = f" ({row.env_steps / row.max_env_steps:.0%})" if row.max_env_steps and row.state not in ("finished",) else ""
        rate = [percent(row.success_rate)] if reports else []
        figures = [number(row.return_mean), number(row.eval_mean), *rate, number(row.best_eval)]
        reached = short(row.threshold_reached_at) + (", lost" if row.lost else "")
        when = BLANK if row.age_seconds is None else ago(row.age_seconds)
        rows.append([row.id, task(row.name), row.state, count(row.env_steps) + share, *figures, reached, when])
    terminal.show([Table(heads, rows)])
    if result.total > len(result.runs):
        console.progress().print(f"{len(result.runs)} of {result.total:,} runs, newest first; all of them: --all")


def print_run(info: "RunInfo") -> None:
    """`runs show RUN`."""
    from rlclinic.report.run import describe_info

    terminal.show(describe_info(info))


def print_metrics(result: "MetricTable") -> None:
    """`runs metrics`: first, last and range of each series, with a sparkline."""
    from rlclinic.serve.cli.text import plot

    rows = []
    for series in result.series:
        figures = [number(value) for value in (series.first, series.last, series.low, series.high)]
        rows.append([series.name, plot.sparkline(series.values), *figures, series.meaning or ""])
    # What a metric means gets the room that the numbers leave: they must not be broken for it.
    taken = sum(max(len(cell) for cell in column) + 2 for column in list(zip(*rows, strict=True))[:-1])
    room = console.results().width - taken
    heads = ["metric", "", ">first", ">last", ">lowest", ">highest"]
    if room < MEANING_WIDTH:
        terminal.show([Table(heads, [row[:-1] for row in rows])])
    else:
        terminal.show([Table([*heads, "meaning"], [[*row[:-1], clip(row[-1], room)] for row in rows])])


def print_checkpoints(result: "CheckpointList") -> None:
    """`runs checkpoints`."""
    rows = []
    for row in result.checkpoints:
        marks = " ".join(mark for mark, on in (("@best", row.best), ("@last", row.last)) if on)
        rows.append([count(row.step), marks, size(row.bytes), "whole" if row.valid else "damaged", row.path])
    table = Table([">env step", "marks", ">size", "state", "path"], rows)
    terminal.show([table if rows else Text(f"run {result.run} has no checkpoint yet")])


def print_inspection(inspection: "Inspection") -> None:
    """`runs checkpoints --inspect`: facts, a row per tensor, what is wrong, and what could not be looked at."""
    from rlclinic.report.diagnosis import SEVERITY_TONES

    since = f", changes since {count(inspection.before)}" if inspection.before is not None else ""
    steps = f" · {count(inspection.optimizer_steps)} optimizer steps" if inspection.optimizer_steps is not None else ""
    blocks: list[Block] = [Text(f"{inspection.run} · env step {count(inspection.step)}{since}{steps}")]
    if inspection.layers:
        heads = ["tensor", "shape", ">norm", ">change", ">rank", ">dead", ">saturated", ""]
        blocks.append(Table(heads, [_layer_cells(layer) for layer in inspection.layers]))
    if inspection.observations and any(layer.width for layer in inspection.layers):
        blocks.append(Rows([("units", f"judged on {inspection.observations}")]))
    for finding in inspection.findings:
        severity = finding.severity.value
        blocks.append(Verdict(severity.upper(), f"{finding.text}  {finding.rule}", SEVERITY_TONES[severity], 10))
        blocks.append(Rows([("", fix.text) for fix in finding.remedies]))
    for missing in inspection.unassessable:
        why = "a pickled model is not opened: reading it would run what it says"
        blocks += [Points([why], "Not assessable"), Code("\n".join(missing.paste), "python", "save the weights first")]
    if not inspection.findings and not inspection.unassessable:
        blocks.append(Text("nothing is wrong with it"))
    terminal.show(blocks)


def _layer_cells(layer: "LayerView") -> list[str]:
    rank = BLANK if layer.rank is None else f"{number(layer.rank)}/{min(layer.shape)}"
    units = [BLANK if value is None else f"{value}/{layer.width}" for value in (layer.dead, layer.saturated)]
    broken = f"{count(layer.not_finite)} not finite" if layer.not_finite else ""
    change = BLANK if layer.change is None else percent(layer.change)
    return [layer.name, "x".join(map(str, layer.shape)), number(layer.norm), change, rank, *units, broken]


def print_log(result: "LogText") -> None:
    """`runs logs`."""
    terminal.show([Code("\n".join(result.lines)) if result.lines else Text(f"run {result.run} has written no log")])


def print_removed(result: "Removed") -> None:
    """`runs rm`."""
    verb = "removed" if result.deleted else "would remove"
    groups = f" and {plural(len(result.groups), 'group')}" if result.groups else ""
    terminal.show([Text(f"{verb} {plural(len(result.runs), 'run')}{groups}, {size(result.bytes)}: {listed(result.runs)}")])


def print_requested(result: "Requested | Stopped", what: str) -> None:
    """`stop` and `adjust`."""
    changes = ", ".join(f"{key} = {json.dumps(value)}" for key, value in result.changes.items())
    blocks: list[Block] = [Text(f"asked {plural(len(result.runs), 'run')} to {what}{changes}: {listed(result.runs)}")]
    if result.skipped:
        blocks.append(Text("left alone: " + listed([f"{run} ({state})" for run, state in result.skipped.items()])))
    terminal.show(blocks)


def print_evaluation(result: "EvaluationResult") -> None:
    """`evaluate` and `play`."""
    how = f"{plural(result.episodes, 'episode')}, {'deterministic' if result.deterministic else 'sampled actions'}"
    ends = f"lowest {number(result.return_min)}, highest {number(result.return_max)}"
    success = "" if result.success_rate is None else f" · success {percent(result.success_rate)}"
    returns = f"return {number(result.return_mean)} ± {number(result.return_std)} ({ends})"
    blocks: list[Block] = [
        Text(f"{result.run}/{result.checkpoint} (env step {count(result.step)}) · {result.env} · {how}"),
        Text(f"{returns} · length {number(result.length_mean)}{success}"),
    ]
    if result.threshold is not None:
        gap = result.threshold - result.return_mean
        reached = "reached" if gap <= 0 else f"missed by {number(gap)}"
        blocks.append(Text(f"threshold {number(result.threshold, 4)} {reached}"))
    if result.required_success is not None:
        missed = result.success_rate is None or result.success_rate < result.required_success
        blocks.append(Text(f"success of {percent(result.required_success)} {'missed' if missed else 'reached'}"))
    blocks += [
        Text(f"asked for {number(each.asked)}, it earns {number(each.return_mean)} ± {number(each.return_std)}") for each in result.asked
    ]
    if result.follows is not None:
        blocks.append(Text(f"what it earns follows what it is asked for with a rank correlation of {number(result.follows)}"))
    about = [("video", result.video or ""), ("note", result.note or "")]
    terminal.show([*blocks, Rows([pair for pair in about if pair[1]])])


def print_exploration(report: "ExplorationReport") -> None:
    """`explore`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_exploration(report))


def print_curriculum(report: "CurriculumReport") -> None:
    """`curriculum show`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_curriculum(report))


def print_reward(report: "RewardReport") -> None:
    """`reward check`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_reward(report))


def print_reward_balance(report: "RewardBalanceReport") -> None:
    """`reward balance`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_reward_balance(report))


def print_new_environment(made: "NewEnvironment") -> None:
    """`new env`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_new_environment(made))


def print_data(report: "DataReport") -> None:
    """`data check`."""
    from rlclinic.report import dataset

    terminal.show(dataset.describe(report))


def print_policy_evaluation(result: "PolicyEvaluation") -> None:
    """`data evaluate`."""
    from rlclinic.report import dataset

    terminal.show(dataset.describe_policy(result))


def print_data_advice(result: "DataAdvice") -> None:
    """`advise data`."""
    from rlclinic.report import dataset

    terminal.show(dataset.describe_advice(result))


def print_data_written(result: "DataWritten") -> None:
    """`data collect` and `data convert`."""
    from rlclinic.report import dataset

    terminal.show(dataset.describe_written(result))


def print_environments(result: "EnvironmentList") -> None:
    """`envs`."""
    from rlclinic.report import tasks

    terminal.show(tasks.describe_environments(result))
    if len(result.environments) > tasks.FEW:
        console.progress().print(f"What was measured of each variant: rlclinic envs {result.environments[0].id}")
    console.progress().print("Any other Gymnasium id trains too, with general settings: rlclinic train Some-v0:ppo")


def print_config(result: "ConfigView", origins: bool) -> None:
    """`config show`: YAML; with origins, each value with where it came from."""
    from rlclinic.config.schema import flatten
    from rlclinic.report.group import write_yaml

    if origins:
        rows = [[key, json.dumps(value), result.origins.get(key, "default")] for key, value in flatten(result.config, "").items()]
        terminal.show([Table(["setting", "value", "from"], rows)])
    else:
        terminal.show([Code(write_yaml(result.config).rstrip(), "yaml")])
    follows = [f"# {key}: {number(float(value), 6)}" for key, value in result.derived.items()]
    terminal.show([Code("\n".join([*(f"# {note}" for note in result.notes), "", "# what follows from it", *follows]))])


def print_doctor(result: "Diagnostics") -> None:
    """`doctor`."""
    rows = [[MARKS[check.status], check.name, check.found, check.fix or ""] for check in result.checks]
    ready = "ready to train" if result.healthy else "not ready to train: see the lines marked ✗"
    terminal.show([Table(["", "check", "found", "type"], rows), Text(ready)])


# ── what is looked up ──


def print_rules(result: "RuleList") -> None:
    """`rules`: the list, by family."""
    families = dict.fromkeys(row.family for row in result.rules)
    blocks: list[Block] = []
    for family in families:
        rows = [(f"{row.id}  {row.severity}", row.title) for row in result.rules if row.family == family]
        blocks += [Heading(family.replace("_", " ")), Rows(rows, 15, 2), Gap()]
    terminal.show([*blocks, Text(f"{plural(len(result.rules), 'rule')}; explain one: rlclinic rules {result.rules[0].id}")])


def print_rule(page: "RulePage") -> None:
    """`rules RULE`: the text of its page."""
    terminal.show([Code(page.text.rstrip())])


# ── imports and histories ──


def print_imported(result: "ImportResult") -> None:
    """`import`: what became what, and what was joined or guessed."""
    runs, groups = plural(len(result.runs), "run"), plural(len(result.groups), "group")
    rows = []
    for row in result.runs:
        seed = BLANK if row.seed is None else str(row.seed)
        cells = [row.run, f"{row.source}: {row.path or 'stdin'}", row.env or "unknown", row.algo or "unknown", seed]
        rows.append([*cells, count(row.env_steps), str(row.metrics)])
    notes = dict.fromkeys(note for row in result.runs for note in row.notes)
    terminal.show([
        Text(f"imported {runs} as {groups}; {'stdin' if result.path == '-' else result.path} was only read"),
        Table(["run", "from", "env", "algo", ">seed", ">env steps", ">metrics"], rows),
        Rows([("note", note) for note in notes]),
        Commands([("next" if place == 0 else "", command) for place, command in enumerate(result.next)]),
    ])  # fmt: skip


def print_history(result: "EnvironmentHistory") -> None:
    """`history`: the groups in order of time, then what separates them."""
    heads = ["group", "when", "algo", ">seeds", ">reached", ">return", ">steps to it", "differs from the best in"]
    blocks: list[Block] = [
        Text(f"{result.env} · {plural(len(result.groups), 'group')} · {result.n_solved} solved, {result.n_failed} failed"),
        Table(heads, [_group_cells(tried, result) for tried in result.groups]),
    ]
    if result.separations and min(result.n_solved, result.n_failed) > 0:
        blocks += _describe_separations(result)
    blocks.append(Text(result.note))
    if result.best:
        blocks.append(Commands([("look at", Action("diagnose", result.worst or result.best))]))
    terminal.show(blocks)


def _group_cells(tried: "Tried", result: "EnvironmentHistory") -> list[str]:
    from rlclinic.treatment.prescription.prescription import worded

    mark = " (best)" if tried.id == result.best else " (worst)" if tried.id == result.worst else ""
    when = ago(max(0.0, time.time() - tried.created)) if tried.created else tried.source
    reached = BLANK if tried.reached is None else f"{tried.reached}/{tried.seeds}"
    changed = [f"{key.partition('.')[2] or key} {worded(value)}" for key, value in tried.changed.items()]
    steps = short(tried.steps_to_threshold)
    return [tried.id + mark, when, tried.algo or "unknown", str(tried.seeds), reached, number(tried.score), steps, listed(changed, 4)]


def _describe_separations(result: "EnvironmentHistory") -> list[Block]:
    """The clearest first; where there are too few groups for any answer, that is said once."""
    small = all(row.said.startswith("n too small") for row in result.separations)
    shown = result.separations[: FEW_SEPARATIONS if small else MOST_SEPARATIONS]
    why = f"n too small: {result.n_solved} solved, {result.n_failed} failed; the largest differences" if small else "the clearest first"
    rows = []
    for row in shown:
        odds = BLANK if row.superiority is None else f"{row.superiority:.2f}"
        judged = [] if small else [BLANK if row.p is None else number(row.p, 2), row.said]
        rows.append([row.name, row.solved, row.failed, odds, *judged])
    heads = ["setting or number", "solved", "failed", ">P(larger if solved)", *([] if small else [">p (Holm)", ""])]
    blocks: list[Block] = [Gap(), Verdict("WHAT SEPARATES THEM", why), Table(heads, rows)]
    left = len(result.separations) - len(shown)
    return [*blocks, Text(f"… and {left} more: --json")] if left else blocks


# ── diagnoses, lint, comparisons ──


def print_diagnosis(result: "DiagnosisReport", seconds: float) -> None:
    """`diagnose`: what is wrong with each config, then what to type."""
    from rlclinic.report import diagnosis

    blocks: list[Block] = []
    for report in (result, *result.more):
        blocks += [*([Gap()] if blocks else []), *diagnosis.answer(report)]
    terminal.show([*blocks, *diagnosis.ending(result, seconds)])


def print_comparison(result: "Comparison", full: bool) -> None:
    """`compare`."""
    from rlclinic.report import comparison

    commands = Commands([("next", command) for command in result.next])
    terminal.show([*comparison.answer(result.compared, full), commands, Rows([("report", listed(result.files))] if result.files else [])])
