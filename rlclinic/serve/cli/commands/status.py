"""`rlclinic status`, `stop`, `adjust` and `label`: how runs stand, what to expect, whom to tell, and changing them as they train."""

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlclinic import plain_text
from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlclinic.ops.status.alerts import Alerts
    from rlclinic.ops.status.requests import AdjustRequest, LabelRequest, StatusRequest, StopRequest
    from rlclinic.report.models import LabelQuestion, StatusReport

LIVE = ("running", "queued")
ASK_SECONDS = 0.1
"""How often `label` looks for the next question."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, requests="status.requests", cls=WithEvents)(status)
    options.command(app, requests="status.requests")(stop)
    options.command(app, requests="status.requests")(adjust)
    options.command(app, requests="status.requests")(label)


class WithEvents(options.RequestCommand):
    """Lets `--on` take two words, as in --on doomed 'rlclinic stop @last': an option that repeats can take only one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words after the command's name."""
        return super().parse_args(ctx, join_events(args))


def join_events(args: list[str]) -> list[str]:
    """`--on EVENT COMMAND` as `--on EVENT=COMMAND`, which is how it is parsed."""
    words, rest = [], list(args)
    while rest:
        word = rest.pop(0)
        words.append(word)
        if word == "--on" and len(rest) >= 2 and rest[0].isalpha():
            words.append(f"{rest.pop(0)}={rest.pop(0)}")
    return words


def status(
    request: "StatusRequest",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until everything has ended.")] = False,
    every: Annotated[
        float, typer.Option(**{**options.read_number(False, 0.2), "metavar": "SECONDS"}, help="How often --watch looks.")
    ] = 5.0,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="EVENT COMMAND",
            help="Run a shell command once when a group is doomed, solved, failed or finished; it finds RLCLINIC_RUN, RLCLINIC_GROUP "
            "and RLCLINIC_REASON in its environment: --on doomed 'rlclinic stop $RLCLINIC_GROUP'. Repeatable.",
        ),
    ] = None,
    webhook: Annotated[str | None, typer.Option(metavar="URL", help="POST the same events there as JSON.")] = None,
    db: options.Db = None,
    as_json: options.Json = False,
) -> None:
    """How runs stand: how likely they reach the threshold, why, and whether to go on."""
    from rlclinic.ops.status.alerts import Alerts
    from rlclinic.ops.status.forecast import Charts
    from rlclinic.ops.status.status import get_training_status

    alerts, charts = Alerts([_event(text) for text in on or []], webhook), Charts(request.runs_dir)

    def look() -> "StatusReport":
        return get_training_status(**request.arguments, runs_dir=request.runs_dir, charts=charts)

    if watch:
        _watch(look, alerts, every, as_json)
    else:
        _show(report := look(), as_json)
        _tell(alerts, report)


def stop(request: "StopRequest", db: options.Db = None, as_json: options.Json = False) -> None:
    """Ask runs to save a checkpoint and stop."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = audited.stop_training(request.target, request.runs_dir, by=console.person())
    console.print_json(result) if as_json else results.print_requested(result, "checkpoint and stop")


def adjust(request: "AdjustRequest", db: options.Db = None, as_json: options.Json = False) -> None:
    """Change a number of a run while it trains: --set algo.ent_coef=0.01."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = audited.adjust_run(request.target, request.changes, request.runs_dir, by=console.person())
    console.print_json(result) if as_json else results.print_requested(result, "set ")


def label(request: "LabelRequest", as_json: options.Json = False) -> None:
    """Say what to do in the states that a run in training asks about. Leave with q: it waits for you."""
    from rlclinic.ops.status.label import answer_question, get_question
    from rlclinic.serve.cli import console

    if request.action or as_json:
        found = answer_question(request) if request.action else get_question(request.target, request.runs_dir)
        console.print_json(found) if as_json else typer.echo(f"answered; {found.run} asks {found.id or 'nothing'} now")
        return
    answered = 0
    while True:
        question = get_question(request.target, request.runs_dir)
        if question.id is None:
            if not question.training:
                typer.echo(f"{question.run} asks nothing and does not train; {answered} answered")
                return
            time.sleep(ASK_SECONDS)
            continue
        typer.echo(_describe_question(question))
        try:
            typed = input("> ").strip()
        except EOFError:
            typed = "q"
        if typed in ("q", "quit"):
            typer.echo(f"{answered} answered. {question.run} waits; go on with: rlclinic label {question.run}")
            return
        action = _read_action(question, typed)
        if action is None:
            typer.echo("  that is no action here")
            continue
        answer_question(request.model_copy(update={"action": action, "id": question.id, "target": question.run}))
        answered += 1


KEYS = {"a": 0, "s": 1, "d": 2}
"""Of one number: its lowest, its middle, its highest."""


def _describe_question(question: "LabelQuestion") -> str:
    """The state as numbers with a bar each, and what can be answered."""
    widest = max((abs(number) for number in question.observation), default=1.0) or 1.0
    bars = [f"  [{index}] {number:>10.4g}  {_bar(number / widest)}" for index, number in enumerate(question.observation[:40])]
    if question.choices is not None:
        how = f"0 to {question.choices - 1}" if question.allowed is None else f"one of {', '.join(map(str, question.allowed))}"
    else:
        low, high = question.low or [], question.high or []
        keys = " (a: lowest, s: middle, d: highest)" if len(low) == 1 else ""
        how = "numbers " + " ".join(f"{least:g}..{most:g}" for least, most in zip(low, high, strict=True)) + keys
    title = f"{question.run} · round {question.round} · step {question.step} · env {question.env}"
    return "\n".join([title, *bars, f"  {how}, q to leave"])


def _bar(share: float) -> str:
    """A bar to the left or to the right of a middle line."""
    filled = "█" * round(10 * abs(share))
    return f"{filled:>10}│" if share < 0 else f"{'':>10}│{filled}"


def _read_action(question: "LabelQuestion", typed: str) -> list[float] | None:
    low, high = question.low or [], question.high or []
    if question.choices is None and len(low) == 1 and typed in KEYS:
        return [(low[0], (low[0] + high[0]) / 2, high[0])[KEYS[typed]]]
    try:
        numbers = [float(part) for part in typed.replace(",", " ").split()]
    except ValueError:
        return None
    if question.choices is None:
        return numbers if len(numbers) == len(low) and all(map(math.isfinite, numbers)) else None
    choices = range(question.choices) if question.allowed is None else question.allowed
    return numbers if len(numbers) == 1 and numbers[0] in choices else None


def _event(text: str) -> tuple[str, str]:
    kind, equals, command = text.partition("=")
    if not equals or not command.strip():
        raise typer.BadParameter(f"--on {text}: what should be run then? Type: --on doomed 'rlclinic stop $RLCLINIC_GROUP'")
    return kind.strip(), command


def _show(report: "StatusReport", as_json: bool) -> None:
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import status

    console.print_json(report) if as_json else status.print_status(report)


def _tell(alerts: "Alerts", report: "StatusReport") -> None:
    for line in alerts.tell(report):
        typer.echo(plain_text.clean(line), err=True)


def _watch(look: "Callable[[], StatusReport]", alerts: "Alerts", every: float, as_json: bool) -> None:
    """Look again and again until everything has ended: in place on a terminal, as lines (or JSON lines) elsewhere."""
    from rlclinic.report.document import escape_json
    from rlclinic.serve.cli import console

    out = console.results()
    if out.is_terminal and not as_json:
        _in_place(look, alerts, every)
        return
    shown = ""
    while True:
        report = look()
        text = escape_json(report.model_dump_json()) if as_json else plain_text.clean(_lines(report))
        if text != shown:
            typer.echo(text)
            shown = text
        _tell(alerts, report)
        if not _live(report):
            return
        time.sleep(every)


def _in_place(look: "Callable[[], StatusReport]", alerts: "Alerts", every: float) -> None:
    from rich.live import Live

    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import status

    with Live(console=console.results(), auto_refresh=False) as view:
        while True:
            report = look()
            view.update(status.frame(report), refresh=True)
            _tell(alerts, report)
            if not _live(report):
                return
            time.sleep(every)


def _lines(report: "StatusReport") -> str:
    from rlclinic.serve.cli.text import status

    return "\n".join(status.plain_line(group) for group in report.groups)


def _live(report: "StatusReport") -> bool:
    return any(group.state in LIVE for group in report.groups)
