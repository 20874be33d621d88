"""Results as text for people: one function per kind of result. Nothing here decides anything."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlclinic.report import group
from rlclinic.report.format import BLANK, ago, count, duration, listed, number, percent, plural, short, size
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import plot, terminal

if TYPE_CHECKING:
    from rich.table import Table

    from rlclinic.ops.jobs.audited import Stopped
    from rlclinic.report.models import (
        CheckpointList,
        ConfigView,
        Diagnostics,
        EnvironmentList,
        EvaluationResult,
        GroupReport,
        LogText,
        MetricTable,
        Removed,
        Requested,
        RunInfo,
        RunList,
        RunRow,
        TrainResult,
    )

MEANING_WIDTH = 20
MARKS = {"ok": "✓", "warning": "·", "missing": "✗", "failed": "✗"}


def print_train(result: "TrainResult") -> None:
    """The end of `train`."""
    terminal.show(group.training_end(result))


def print_group(report: "GroupReport") -> None:
    """`runs show GROUP`."""
    terminal.show(group.overview(report))


def print_curve(report: "GroupReport") -> None:
    """The curve, where `print_train` has left it out."""
    if report.verdict == "SOLVED":
        terminal.show([group.curve_figure(report)])


def print_runs(result: "RunList") -> None:
    """`runs list`."""
    if not result.runs:
        print_lines([f"no runs in {result.root}", "  Start one: rlclinic train CartPole-v1:ppo"])
        return
    table = bare_table("run", "config", "state", ">env steps", ">return", ">eval", ">best", ">threshold at", ">changed")
    for row in result.runs:
        table.add_row(*_run_cells(row))
    console.results().print(table)
    if result.total > len(result.runs):
        console.progress().print(f"{len(result.runs)} of {result.total:,} runs, newest first; all of them: --all")


def _run_cells(row: "RunRow") -> list[str]:
    share = f" ({row.env_steps / row.max_env_steps:.0%})" if row.max_env_steps and row.state not in ("finished",) else ""
    reached = BLANK if row.threshold_reached_at is None else short(row.threshold_reached_at)
    when = BLANK if row.age_seconds is None else ago(row.age_seconds)
    values = [number(value) for value in (row.return_mean, row.eval_mean, row.best_eval)]
    return [row.id, row.name, row.state, f"{count(row.env_steps)}{share}", *values, reached, when]


def print_run(info: "RunInfo") -> None:
    """`runs show RUN`."""
    row = info.run
    lines = [f"{row.id} · {row.name} · seed {row.seed} · {row.state} · {count(row.env_steps)}/{count(row.max_env_steps)} env steps"]
    lines += [f"reason    {info.reason}"] if info.reason else []
    lines += [f"from      {row.parent}"] if row.parent else []
    lines += plot.curve_lines(info.curve, console.chart_width())
    lines += [f"  {name:<38}{number(value)}" for name, value in info.latest.items()]
    kept = ", ".join(f"{c.step}{' @best' if c.best else ''}{' @last' if c.last else ''}" for c in info.checkpoints)
    lines += [f"kept      {kept or 'no checkpoint yet'}"]
    lines += [f"time      {duration(info.wall_seconds)} · {count(info.steps_per_second)} steps/s", f"folder    {info.path}"]
    print_lines(lines)


def print_metrics(result: "MetricTable") -> None:
    """`runs metrics`: first, last and range of each series, with a sparkline."""
    table = bare_table("metric", "", ">first", ">last", ">lowest", ">highest")
    out = console.results()
    rows = []
    for series in result.series:
        values = [number(value) for value in (series.first, series.last, series.low, series.high)]
        rows.append([series.name, plot.sparkline(series.values), *values, series.meaning or ""])
    # What a metric means gets the room that the numbers leave: they must not be broken for it.
    taken = sum(max(len(cell) for cell in column) + 2 for column in list(zip(*rows, strict=True))[:-1])
    meant = out.width - taken >= MEANING_WIDTH
    if meant:
        table.add_column("meaning", no_wrap=True, overflow="ellipsis", style="dim", max_width=out.width - taken)
    for row in rows:
        table.add_row(*(row if meant else row[:-1]))
    out.print(table)


def print_checkpoints(result: "CheckpointList") -> None:
    """`runs checkpoints`."""
    table = bare_table(">env step", "marks", ">size", "state", "path")
    for row in result.checkpoints:
        marks = " ".join(mark for mark, on in (("@best", row.best), ("@last", row.last)) if on)
        table.add_row(count(row.step), marks, size(row.bytes), "whole" if row.valid else "damaged", row.path)
    if result.checkpoints:
        console.results().print(table)
    else:
        print_lines([f"run {result.run} has no checkpoint yet"])


def print_log(result: "LogText") -> None:
    """`runs logs`."""
    print_lines(result.lines or [f"run {result.run} has written no log"])


def print_removed(result: "Removed") -> None:
    """`runs rm`."""
    verb = "removed" if result.deleted else "would remove"
    groups = f" and {plural(len(result.groups), 'group')}" if result.groups else ""
    print_lines([f"{verb} {plural(len(result.runs), 'run')}{groups}, {size(result.bytes)}: {listed(result.runs)}"])


def print_requested(result: "Requested | Stopped", what: str) -> None:
    """`stop` and `adjust`."""
    changes = ", ".join(f"{key} = {json.dumps(value)}" for key, value in result.changes.items())
    lines = [f"asked {plural(len(result.runs), 'run')} to {what}{changes}: {listed(result.runs)}"]
    if result.skipped:
        lines.append("left alone: " + listed([f"{run} ({state})" for run, state in result.skipped.items()]))
    print_lines(lines)


def print_evaluation(result: "EvaluationResult") -> None:
    """`evaluate` and `play`."""
    how = f"{plural(result.episodes, 'episode')}, {'deterministic' if result.deterministic else 'sampled actions'}"
    lines = [f"{result.run}/{result.checkpoint} (env step {count(result.step)}) · {result.env} · {how}"]
    ends = f"lowest {number(result.return_min)}, highest {number(result.return_max)}"
    success = "" if result.success_rate is None else f" · success {percent(result.success_rate)}"
    lines.append(
        f"return {number(result.return_mean)} ± {number(result.return_std)} ({ends}) · length {number(result.length_mean)}{success}"
    )
    if result.threshold is not None:
        gap = result.threshold - result.return_mean
        reached = "reached" if gap <= 0 else f"missed by {number(gap)}"
        lines.append(f"threshold {number(result.threshold, 4)} {reached}")
    lines += [f"video     {result.video}"] if result.video else []
    lines += [f"note      {result.note}"] if result.note else []
    print_lines(lines)


def print_environments(result: "EnvironmentList") -> None:
    """`envs`."""
    table = bare_table("environment", "variants", ">threshold", "measured")
    for row in result.environments:
        measured = row.problem or "; ".join(f"{variant}: {text}" for variant, text in row.measured.items()) or row.description
        table.add_row(row.id, ", ".join(row.variants), number(row.threshold, 4), measured)
    console.results().print(table)
    console.progress().print("Any other Gymnasium id trains too, with general settings: rlclinic train Some-v0:ppo")


def print_config(result: "ConfigView", origins: bool) -> None:
    """`config show`: YAML; with origins, each value with where it came from."""
    if not origins:
        print_lines([_yaml(result.config).rstrip()])
    else:
        table = bare_table("setting", "value", "from")
        for key, value in _leaves(result.config):
            table.add_row(key, json.dumps(value), result.origins.get(key, "default"))
        console.results().print(table)
    print_lines([f"# {note}" for note in result.notes])
    print_lines(["", "# what follows from it", *(f"# {key}: {number(float(value), 6)}" for key, value in result.derived.items())])


def print_doctor(result: "Diagnostics") -> None:
    """`doctor`."""
    table = bare_table("", "check", "found", "type")
    for check in result.checks:
        table.add_row(MARKS[check.status], check.name, check.found, check.fix or "")
    console.results().print(table)
    print_lines(["ready to train" if result.healthy else "not ready to train: see the lines marked ✗"])


def print_lines(lines: Sequence[str]) -> None:
    """Text as it is: no wrapping, so that it can be piped and pasted."""
    out = console.results()
    for line in lines:
        out.print(line, soft_wrap=True)


def bare_table(*heads: str) -> "Table":
    """A table without lines; a head that starts with > is right-aligned."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for head in heads:
        # Ids and numbers are copied from here: they may be pushed to the next line, but never cut.
        table.add_column(head.lstrip(">"), justify="right" if head.startswith(">") else "left", overflow="fold")
    return table


def _leaves(config: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    from rlclinic.config.schema import flatten

    return list(flatten(config, prefix).items())


def _yaml(config: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100))
