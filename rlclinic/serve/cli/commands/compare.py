"""`rlclinic compare` and `regress`: how two or more differ, and whether a candidate got worse."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.compare.requests import CompareRequest, RegressRequest

REGRESSION = 6


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, requests="compare.requests")(compare)
    options.command(app, requests="compare.requests")(regress)


def compare(
    request: "CompareRequest",
    full: Annotated[bool, typer.Option("--full", help="Also losses and gradients by phase, wall time and throughput.")] = False,
    as_json: options.Json = False,
) -> None:
    """Compare configs and results side by side, with tests that say how sure a difference is."""
    from rlclinic.ops.compare import compare
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.results import print_comparison

    result = compare.compare(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else print_comparison(result, full)


def regress(
    request: "RegressRequest",
    save_baseline: Annotated[
        Path | None, typer.Option("--save-baseline", metavar="FILE", help="Keep the group that is named as a baseline, and end.")
    ] = None,
    detach: options.Detach = False,
    on: options.On = None,
    artifacts: options.Artifacts = None,
    db: options.Db = None,
    strict: Annotated[bool, typer.Option("--strict", help="Undecided ends with 6, too.")] = False,
    quiet: options.Quiet = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Fail (exit code 6) if a candidate learns worse than a baseline: a gate for CI, with stated error rates."""
    from rlclinic.ops.compare import regress
    from rlclinic.report import gate
    from rlclinic.serve.cli import console, progress
    from rlclinic.serve.cli.text import terminal

    if save_baseline is not None:
        if request.candidate is not None or request.baseline is None:
            raise typer.BadParameter("--save-baseline FILE takes one group; nothing is judged")
        kept = regress.save_baseline(request.baseline, save_baseline, request.runs_dir, threshold=request.threshold)
        console.print_json(kept) if as_json else terminal.show(gate.describe_saved(kept))
        return
    if request.candidate is None and request.resume is None:
        raise typer.BadParameter("regress BASELINE CANDIDATE needs both; to keep a baseline: regress --save-baseline FILE GROUP")
    if detach:
        from rlclinic.ops.jobs.start import start_regression

        options.check_detached(on)
        console.print_job(start_regression(request, by=console.person()), as_json)
        return
    with progress.watch(quiet) as view:
        result = regress.regress(
            **request.arguments,
            runs_dir=request.runs_dir,
            watch=None if quiet else view,
            say=view.say,
            confirm=None if yes or not console.is_attended() else console.confirm,
        )
    if result.groups and request.resume is None:
        console.audit_start(request.runs_dir, "regress", result.candidate, groups=result.groups)
    console.print_json(result) if as_json else terminal.show(gate.describe(result))
    if result.signal is not None:
        raise typer.Exit(143 if result.signal == "SIGTERM" else 130)
    if result.decision == "regression" or (strict and result.decision == "undecided"):
        raise typer.Exit(REGRESSION)
