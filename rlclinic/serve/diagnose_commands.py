"""`rlclinic diagnose`, `lint` and `rules`: what is wrong, before and after training."""

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic.serve import options as opt

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
    app.command()(lint)
    app.command()(rules)


def diagnose(
    target: Annotated[
        str,
        typer.Argument(
            help="A run, a group (@last), another framework's folder or file, or - for a log on stdin.", autocompletion=opt.complete_run
        ),
    ] = "@last",
    threshold: Annotated[float | None, typer.Option(help="The return that counts as solved, where the log does not say.")] = None,
    budget: opt.Steps = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", metavar="METRIC=COLUMN", help="What a column of a foreign log is. Repeatable.")
    ] = None,
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    runs_dir: opt.RunsDir = Path("runs"),
    as_json: opt.Json = False,
) -> None:
    """Say why a run does not learn, how sure that is, and what to change."""
    from rlclinic.ops import diagnose as operation
    from rlclinic.serve import console, diagnose_text

    began = time.perf_counter()
    result = operation.diagnose(target, runs_dir, threshold=threshold, budget=budget, mapping=mapping or [], select=select, ignore=ignore)
    if as_json:
        console.print_json(result)
    else:
        diagnose_text.print_diagnosis(result, time.perf_counter() - began)
    _fail_on(fail_on, [found.worst for found in (result.diagnosis, *result.more) if found.worst is not None])


def _fail_on(level: Level | None, severities: "Sequence[Severity]") -> None:
    if level is not None and any(severity.rank >= type(severity)(level.value).rank for severity in severities):
        raise typer.Exit(FAIL_ON)


def lint(
    ref: Annotated[str, typer.Argument(help="CartPole-v1:ppo, a YAML file, a run or a group.", autocompletion=opt.complete_reference)],
    changes: opt.Set = None,
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    runs_dir: opt.RunsDir = Path("runs"),
    as_json: opt.Json = False,
) -> None:
    """Check a config before anything is trained, and show the numbers that follow from it."""
    from rlclinic.ops import diagnose as operation
    from rlclinic.serve import console, diagnose_text

    result = operation.lint(ref, changes or [], runs_dir, select=select, ignore=ignore)
    console.print_json(result) if as_json else diagnose_text.print_lint(result)
    _fail_on(fail_on, [finding.severity for finding in result.lint.findings])


def rules(
    rule: Annotated[str | None, typer.Argument(help="An id (POL101) or a name; none: the list.")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the checks, or explain one: what it looks for, why it hurts, when it is fine."""
    from rlclinic.ops import diagnose as operation
    from rlclinic.serve import console, diagnose_text

    if rule is None:
        found = operation.list_rules()
        console.print_json(found) if as_json else diagnose_text.print_rules(found)
    else:
        page = operation.explain_rule(rule)
        console.print_json(page) if as_json else diagnose_text.print_rule(page)
