"""`rlclinic data …`: recorded transitions."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.data.requests import AdviseRequest, CheckRequest, CollectRequest, ConvertRequest, EvaluateRequest

DAMAGED = 5

app = typer.Typer(help="Collect, check and convert recorded data.", no_args_is_help=True)


advice = typer.Typer(help="Say which way to go, before anything is spent.", no_args_is_help=True)


@advice.callback()
def _advise() -> None:
    """Say which way to go, before anything is spent."""


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    handlers: list[Callable[..., None]] = [collect, check, convert, evaluate]
    for handler in handlers:
        options.command(app, requests="data.requests")(handler)
    root.add_typer(app, name="data")
    options.command(advice, name="data", requests="data.requests")(advise)
    root.add_typer(advice, name="advise")


def collect(request: "CollectRequest", as_json: options.Json = False) -> None:
    """Record episodes of a trained policy, of a function of yours, or at random."""
    from rich.progress import Progress

    from rlclinic.ops.data.collect import collect
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    with Progress(console=console.progress(), transient=True) as bar:
        task = bar.add_task("recording episodes", total=request.episodes)
        result = collect(request, lambda done: bar.update(task, completed=done))
    console.print_json(result) if as_json else results.print_data_written(result)


def check(request: "CheckRequest", as_json: options.Json = False) -> None:
    """Say what is in recorded data, what is wrong with it and what it is good for. Exit code 5 if it is damaged."""
    from rlclinic.ops.data.check import check
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    report = check(request)
    console.print_json(report) if as_json else results.print_data(report)
    if any(finding.level == "error" for finding in report.findings):
        raise typer.Exit(DAMAGED)


def convert(request: "ConvertRequest", as_json: options.Json = False) -> None:
    """Write data in another format: a folder that stays on disk while it is learned from, or what other programs read."""
    from rlclinic.ops.data.convert import convert
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = convert(request)
    console.print_json(result) if as_json else results.print_data_written(result)


def evaluate(request: "EvaluateRequest", as_json: options.Json = False) -> None:
    """Say what a trained policy would earn, from recorded data alone; where the data cannot tell, say that."""
    from rlclinic.ops.data.evaluate import evaluate
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = evaluate(request)
    console.print_json(result) if as_json else results.print_policy_evaluation(result)


def advise(request: "AdviseRequest", as_json: options.Json = False) -> None:
    """Say which way suits recorded data: imitation, offline RL, online RL, or both. Exit code 5 if it is damaged."""
    from rlclinic.ops.data.advise import advise
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = advise(request)
    console.print_json(result) if as_json else results.print_data_advice(result)
    if result.verdict == "repair":
        raise typer.Exit(DAMAGED)
