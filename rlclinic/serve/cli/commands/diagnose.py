"""`rlclinic diagnose`, `prescribe`, `lint`, `history`, `rules`, `ask` and `guide`: what is wrong, and what to change."""

import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Severity
    from rlclinic.ops.diagnose.requests import (
        AskRequest,
        DiagnoseRequest,
        ExploreRequest,
        GuideRequest,
        HistoryRequest,
        LintRequest,
        PrescribeRequest,
        RuleRequest,
    )

FAIL_ON = 5


class Level(StrEnum):
    """From which severity on `--fail-on` ends with 5."""

    low = "low"
    medium = "medium"
    high = "high"


FailOn = Annotated[Level | None, typer.Option("--fail-on", help="Exit with 5 if a finding is at least this severe.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for handler in (diagnose, prescribe, rules, ask, guide, lint, history, explore):
        options.command(app, requests="diagnose.requests")(handler)


def diagnose(
    request: "DiagnoseRequest",
    probe: Annotated[bool, typer.Option("--probe", help="Where two causes are close, make the cheapest experiment that tells.")] = False,
    film: Annotated[
        bool, typer.Option("--film", help="Where a reward is gamed, record an episode from before and one from when it was.")
    ] = False,
    fail_on: FailOn = None,
    artifacts: options.FromArtifacts = None,
    as_json: options.Json = False,
) -> None:
    """Say why a run does not learn, how sure that is, and what to change."""
    from rlclinic.ops.diagnose import diagnose
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.commands import treat
    from rlclinic.serve.cli.text.results import print_diagnosis

    request = options.read_artifacts(request, artifacts, request.target)
    began = time.perf_counter()
    arguments = {**request.arguments, "env_args": read_arguments(request.env_args)}
    say = (lambda text: console.progress().print(text, highlight=False)) if film else None
    result = diagnose.diagnose(**arguments, runs_dir=request.runs_dir, own_env=True, film=say)
    if not as_json:
        print_diagnosis(result, time.perf_counter() - began)
    elif not probe:
        console.print_json(result)
    if probe:
        treat.probe_after(request.target, request.runs_dir, as_json=as_json)
    worst = [report.diagnosis.worst for report in (result, *result.more)]
    fail_on_severity(fail_on, [severity for severity in worst if severity is not None])


def fail_on_severity(level: Level | None, severities: "Sequence[Severity]") -> None:
    """End with 5 if one of them is at least as severe as `--fail-on` says."""
    if level is not None and any(severity.rank >= type(severity)(level.value).rank for severity in severities):
        raise typer.Exit(FAIL_ON)


def prescribe(request: "PrescribeRequest", as_json: options.Json = False) -> None:
    """Say which settings to change, to which values, and what to expect of it."""
    from rlclinic.ops.diagnose import prescribe
    from rlclinic.report.prescription import describe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    result = prescribe.prescribe(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else terminal.show(describe(result))


def rules(request: "RuleRequest", as_json: options.Json = False) -> None:
    """List the checks, or explain one: what it looks for, why it hurts, when it is fine."""
    from rlclinic.ops.diagnose import rules
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.results import print_rule, print_rules

    if request.rule is None:
        listed = rules.list_rules(request.family)
        console.print_json(listed) if as_json else print_rules(listed)
    else:
        page = rules.explain_rule(request.rule)
        console.print_json(page) if as_json else print_rule(page)


def ask(request: "AskRequest", as_json: options.Json = False) -> None:
    """Answer a question in plain words: what is meant, what the store says, and the command that answers it."""
    from rlclinic.ops.diagnose.ask.answer import ask
    from rlclinic.report.ask import describe
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    answer = ask(request)
    console.print_json(answer) if as_json else terminal.show(describe(answer))


def guide(
    request: "GuideRequest",
    everything: Annotated[bool, typer.Option("--all", help="List the questions; so does no question at all.")] = False,
    as_json: options.Json = False,
) -> None:
    """Say what answers a question here: what to type, which steps, and what cannot be told."""
    from rlclinic.ops.diagnose.ask import guides
    from rlclinic.report.guide import describe, describe_list
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    if everything or not request.question:
        listed = guides.list_guides()
        console.print_json(listed) if as_json else terminal.show(describe_list(listed))
    else:
        page = guides.get_guide(request.question)
        console.print_json(page) if as_json else terminal.show(describe(page))


def lint(request: "LintRequest", fail_on: FailOn = None, as_json: options.Json = False) -> None:
    """Check settings, an environment or a script before anything is trained."""
    from rlclinic.ops.diagnose import lint
    from rlclinic.report.lint import describe_code, describe_env, describe_settings
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import terminal

    _refuse_mixtures(request)
    result: Any
    chosen: dict[str, Any] = {"select": request.select, "ignore": request.ignore}
    if request.env is not None:
        result = lint.lint_env(request.env, read_arguments(request.env_args), seconds=request.seconds, **chosen)
        blocks = describe_env(result.lint)
    elif request.code is not None:
        result = lint.lint_script(request.code, **chosen)
        blocks = describe_code(result.lint)
    else:
        result = lint.lint(str(request.ref), request.changes, request.runs_dir, **chosen)
        blocks = describe_settings((result.lint, *result.more), result.ref, result.ours)
    console.print_json(result) if as_json else terminal.show(blocks)
    findings = [*result.lint.findings, *(finding for more in getattr(result, "more", ()) for finding in more.findings)]
    fail_on_severity(fail_on, [finding.severity for finding in findings])


def _refuse_mixtures(request: "LintRequest") -> None:
    from rlclinic.errors import UsageError

    ref = request.ref
    asked = [name for name in (ref, request.env, request.code) if name is not None]
    if len(asked) != 1:
        problem = "nothing to look at was given" if not asked else f"{' and '.join(asked)} are different things to look at"
        raise UsageError(
            f"{problem}.\n  lint looks at one: settings, an environment or a script.\n"
            "  Try: rlclinic lint CartPole-v1:ppo, rlclinic lint --env CartPole-v1, or rlclinic lint --code train.py"
        )
    if ref is not None and ref.endswith((".py", ".ipynb")):
        raise UsageError(
            f"{ref} is a script, not settings.\n  There is nothing to check in it this way.\n  Try: rlclinic lint --code {ref}"
        )
    if request.changes and ref is None:
        raise UsageError("--set changes settings, and none are looked at.\n  Try: without --set, or rlclinic lint CartPole-v1:ppo --set …")
    if request.env_args and request.env is None:
        raise UsageError("--env-arg is for --env.\n  Try: rlclinic lint --env FrozenLake-v1 --env-arg is_slippery=false")


def read_arguments(given: list[str]) -> dict[str, Any]:
    import json

    from rlclinic.errors import UsageError

    arguments: dict[str, Any] = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(
                f"--env-arg {word} is no KEY=VALUE.\n  The environment would be made without it.\n  Try: --env-arg is_slippery=false"
            )
        try:
            arguments[key] = json.loads(text)
        except ValueError:
            arguments[key] = text
    return arguments


def history(request: "HistoryRequest", as_json: options.Json = False) -> None:
    """Show what was tried on an environment, and what separates solved from failed."""
    from rlclinic.ops.diagnose import history
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.results import print_history

    result = history.history_of(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else print_history(result)


def explore(request: "ExploreRequest", as_json: options.Json = False) -> None:
    """Say whether exploration is what holds a task back, and which bonus to try."""
    from rlclinic.ops.tasks import explore
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.results import print_exploration

    report = explore.explore(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(report) if as_json else print_exploration(report)
