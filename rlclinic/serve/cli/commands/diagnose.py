"""`rlclinic diagnose` and `rules`: what is wrong with a run, and what is looked for."""

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Severity

FAIL_ON = 5


class Level(StrEnum):
    """From which severity on `--fail-on` ends with 5."""

    low = "low"
    medium = "medium"
    high = "high"


Select = Annotated[
    list[str] | None, typer.Option("--select", metavar="RULE", help="Only these rules: an id, its beginning (POL), or a name. Repeatable.")
]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", metavar="RULE", help="Not these rules. Repeatable.")]
FailOn = Annotated[Level | None, typer.Option("--fail-on", help="Exit with 5 if a finding is at least this severe.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(diagnose)
    app.command()(rules)
    app.command()(guide)


def diagnose(
    target: Annotated[
        str,
        typer.Argument(
            help="A run, a group (@last), another framework's folder or file, or - for a log on stdin.", autocompletion=options.complete_run
        ),
    ] = "@last",
    threshold: Annotated[float | None, typer.Option(help="The return that counts as solved, where the log does not say.")] = None,
    budget: options.Steps = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", metavar="METRIC=COLUMN", help="What a column of a foreign log is. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write report.html, report.md and diagnosis.json there.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Where two causes are close, make the cheapest experiment that tells.")] = False,
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Say why a run does not learn, how sure that is, and what to change."""
    from rlclinic.ops.diagnose import diagnose
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.commands import treat
    from rlclinic.serve.cli.text.diagnose import print_diagnosis

    began = time.perf_counter()
    result = diagnose.diagnose(
        target, runs_dir, threshold=threshold, budget=budget, mapping=mapping or [], select=select, ignore=ignore, out=out
    )
    if not as_json:
        print_diagnosis(result, time.perf_counter() - began)
    elif not probe:
        console.print_json(result)
    if probe:
        treat.probe_after(target, runs_dir, as_json=as_json)
    worst = [found.diagnosis.worst for found in (result, *result.more)]
    fail_on_severity(fail_on, [severity for severity in worst if severity is not None])


def fail_on_severity(level: Level | None, severities: "Sequence[Severity]") -> None:
    """End with 5 if one of them is at least as severe as `--fail-on` says."""
    if level is not None and any(severity.rank >= type(severity)(level.value).rank for severity in severities):
        raise typer.Exit(FAIL_ON)


def rules(
    rule: Annotated[str | None, typer.Argument(help="An id (POL101) or a name; none: the list.")] = None,
    family: Annotated[str | None, typer.Option(help="Only one family: policy, value, reward, ... or POL.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the checks, or explain one: what it looks for, why it hurts, when it is fine."""
    from rlclinic.ops.diagnose import rules
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.rules import print_rule, print_rules

    if rule is None:
        found = rules.list_rules(family)
        console.print_json(found) if as_json else print_rules(found)
    else:
        page = rules.explain_rule(rule)
        console.print_json(page) if as_json else print_rule(page)


def guide(
    question: Annotated[list[str] | None, typer.Argument(metavar="QUESTION", help="Its name, its number, or words of it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="List the questions; so does no question at all.")] = False,
    as_json: options.Json = False,
) -> None:
    """Say what answers a question here: what to type, which steps, and what cannot be told."""
    from rlclinic.ops.diagnose import guides
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import guide

    if everything or not question:
        found = guides.list_guides()
        console.print_json(found) if as_json else guide.print_guides(found)
    else:
        page = guides.get_guide(" ".join(question))
        console.print_json(page) if as_json else guide.print_guide(page)
