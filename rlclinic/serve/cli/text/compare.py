"""Comparisons and gates as text for people. Nothing here decides anything."""

import textwrap
from typing import TYPE_CHECKING

from rlclinic.report import comparison
from rlclinic.report.format import listed, number, plural
from rlclinic.serve.cli import console
from rlclinic.serve.cli.text import compare_plot
from rlclinic.serve.cli.text.results import print_lines

if TYPE_CHECKING:
    from rlclinic.ops.compare.compare import Comparison
    from rlclinic.report.comparison import Table
    from rlclinic.report.gate import BaselineSaved, Regression

STYLES = {"BETTER": "bold green", "WORSE": "bold red", "MIXED": "bold yellow"}


def print_comparison(result: "Comparison", full: bool) -> None:
    """Sides, verdicts, the picture, settings, outcomes, tests; with `full` also phases and where the time went."""
    from rich.text import Text

    compared = result.compared
    print_lines(["COMPARE  " + comparison.headline(compared)])
    for word, sentence in comparison.verdicts(compared):
        line = Text(word, style=STYLES.get(word, "bold"))
        line.append(f"  {sentence}", style="default")
        console.results().print(line, soft_wrap=True)
    for axis in ("env steps", "wall seconds") if full else ("env steps",):
        print_lines(compare_plot.lines([band for band in compared.curves if band.axis == axis], compared.threshold))
    if not compared.config.differences:
        same = compared.config.same
        print_lines(["", f"SETTINGS  no difference among {same} settings"])
    short = ("Settings that differ", "What follows from them", "Outcomes", "Tests")
    for table in comparison.tables(compared):
        if full or table.title in short:
            _print_table(table)
        if table.title == short[0]:
            print_lines([f"  {course.key} over the run  {compare_plot.course_line(course)}" for course in compared.config.courses])
    print_lines(["", *(line for note in comparison.listed_notes(compared) for line in _wrapped(note, "note      ", " " * 10))])
    if not full and compared.phases:
        print_lines(["more      losses, gradients, updates by phase, wall time and throughput: --full"])
    print_lines([f"next      {command}" for command in result.next])
    if result.files:
        print_lines([f"report    {listed(result.files)}"])


def _print_table(table: "Table") -> None:
    """Columns as wide as their cells; remarks below their row."""
    print_lines(["", table.title.upper()])
    rows = [table.heads, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.heads) - 1)]
    for place, row in enumerate(rows):
        cells = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)]
        print_lines(["  " + "  ".join([row[0].ljust(widths[0]), *cells, row[-1]]).rstrip()])
        remark = table.remarks.get(place - 1) if place else None
        if remark:
            print_lines(_wrapped(remark, "      ", "      "))
    if table.note:
        print_lines(_wrapped(table.note, "  ", "  "))


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """A sentence in lines that fit the terminal."""
    return textwrap.wrap(text, max(console.results().width, 40), initial_indent=first, subsequent_indent=rest, break_long_words=False)


def print_saved(result: "BaselineSaved") -> None:
    """`regress --save-baseline`."""
    kept = result.baseline
    reached = sum(seed.reached is not None for seed in kept.seeds)
    bar = "" if kept.threshold is None else f", {reached} reached {number(kept.threshold, 4)}"
    print_lines([f"kept      {kept.name} · {kept.env} · {plural(len(kept.seeds), 'seed')}{bar} · settings {kept.fingerprint}"])
    print_lines([f"file      {result.file}", f"judge     rlclinic regress {result.file} CANDIDATE"])


def print_regression(result: "Regression") -> None:
    """`regress`: the rule, what it can see, each look, the decision."""
    from rich.text import Text

    rule = result.rule
    sides = f"baseline {result.baseline} ({plural(result.baseline_seeds, 'seed')})"
    print_lines([f"REGRESS  {result.env} · {sides} · candidate {result.candidate} ({plural(result.candidate_seeds, 'seed')})"])
    print_lines([f"  {label:<9}{said}" for label, said in comparison.rule_lines(result)])
    print_lines([f"  look {look.look}   {said}" for look, said in zip(result.looks, comparison.look_lines(result), strict=True)])
    style = {"passed": "bold green", "regression": "bold red"}.get(result.decision, "bold yellow")
    line = Text(result.decision.upper(), style=style)
    line.append(f"  {comparison.decision_line(result)}", style="default")
    console.results().print(line, soft_wrap=True)
    print_lines([f"note      {note}" for note in result.notes])
    if result.groups:
        print_lines([f"trained   {listed(result.groups)}" + (f" · {rule.per_look} seeds each" if len(result.groups) > 1 else "")])
