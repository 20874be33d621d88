"""`rlclinic runs …`, `play`, `evaluate`, `envs`, `config show` and `import`: looking at runs, policies, environments and configs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.runs.requests import (
        ConfigRequest,
        EnvironmentsRequest,
        EvaluateRequest,
        ExportRequest,
        ImportRequest,
        ListRequest,
        LogsRequest,
        MetricsRequest,
        PlayRequest,
        RemoveRequest,
        RunRequest,
        TableRequest,
        TagRequest,
    )

THRESHOLD_MISSED = 4

app = typer.Typer(help="List, show and remove runs.", no_args_is_help=True)
config_app = typer.Typer(help="Look at configs.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, "list", requests="runs.requests")(list_)
    below: list[Callable[..., None]] = [table, show, metrics, logs, checkpoints, export, tag, rm]
    beside: list[Callable[..., None]] = [play, evaluate, envs]
    for group, handlers in ((app, below), (root, beside)):
        for handler in handlers:
            options.command(group, requests="runs.requests")(handler)
    options.command(root, "import", requests="runs.requests")(import_)
    options.command(config_app, "show", requests="runs.requests")(config_show)
    root.add_typer(app, name="runs")
    root.add_typer(config_app, name="config")


def list_(
    request: "ListRequest",
    everything: Annotated[bool, typer.Option("--all", "-a", help="No limit.")] = False,
    artifacts: options.FromArtifacts = None,
    as_json: options.Json = False,
) -> None:
    """List runs, newest first."""
    from rlclinic.ops.runs.listing import list_runs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    request = options.read_artifacts(request, artifacts)
    limit = None if everything or request.trial else request.limit
    result = list_runs(**{**request.arguments, "limit": limit}, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else results.print_runs(result)


def table(request: "TableRequest", as_json: options.Json = False) -> None:
    """A table of groups or runs: sorted, filtered and grouped by any result, tag or setting."""
    from rlclinic.ops.runs.table import show_table
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = show_table(request)
    console.print_json(result) if as_json else results.print_table(result)


def export(request: "ExportRequest", as_json: options.Json = False) -> None:
    """Write a group or run as another program keeps it, or as one HTML file; nothing is sent anywhere."""
    from rlclinic.ops.diagnose.export.export import export
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = export(request)
    console.print_json(result) if as_json else results.print_exported(result)


def tag(request: "TagRequest", as_json: options.Json = False) -> None:
    """Add tags to runs or groups, or take them away; `archived` takes them out of the table."""
    from rlclinic.ops.runs.detail import tag
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = tag(request)
    console.print_json(result) if as_json else results.print_tagged(result)


def show(
    request: "RunRequest",
    report: Annotated[bool, typer.Option("--report", help="Also write the group's report files again.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show a run, or a group with its verdict and curve."""
    from rlclinic.ops.diagnose.write_reports import show, write_group_reports
    from rlclinic.report.models import RunInfo
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = show(request.selector, request.runs_dir)
    files = write_group_reports(request.selector, request.runs_dir) if report else []
    if as_json:
        console.print_json(result)
    elif isinstance(result, RunInfo):
        results.print_run(result)
    else:
        results.print_group(result)
    if not as_json:
        results.print_lines([f"wrote     {file}" for file in files])


def metrics(
    request: "MetricsRequest",
    points: Annotated[int, typer.Option(**options.read_number(True, 2), help="At most this many values per series (with --json).")] = 64,
    list_names: Annotated[bool, typer.Option("--list", help="Only the names of all columns.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show a run's metrics: first, last, range, and what each one means."""
    from rlclinic.ops.runs.series import get_run_metrics
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = get_run_metrics(request.selector, request.names, request.runs_dir, points=points, from_step=request.from_step)
    if as_json:
        console.print_json(result)
    elif list_names:
        results.print_lines(result.available)
    else:
        results.print_metrics(result)


def logs(
    request: "LogsRequest",
    everything: Annotated[bool, typer.Option("--all", "-a", help="The whole log.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print the end of a run's log."""
    from rlclinic.ops.runs.listing import get_run_logs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = get_run_logs(request.selector, request.runs_dir, lines=None if everything else request.lines)
    console.print_json(result) if as_json else results.print_log(result)


def checkpoints(
    request: "RunRequest",
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Look into the newest one (or into a .safetensors file): layers, units, optimizer.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List a run's checkpoints."""
    from rlclinic.ops.runs.listing import list_checkpoints
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    if inspect:
        from rlclinic.ops.runs.detail import inspect_checkpoints

        inspection = inspect_checkpoints(request.selector, request.runs_dir)
        console.print_json(inspection) if as_json else results.print_inspection(inspection.inspection)
        return
    result = list_checkpoints(request.selector, request.runs_dir)
    console.print_json(result) if as_json else results.print_checkpoints(result)


def rm(request: "RemoveRequest", yes: options.Yes = False, as_json: options.Json = False) -> None:
    """Delete runs, or groups with all their runs."""
    from rlclinic.ops.runs.listing import remove_runs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = remove_runs(request.runs, request.runs_dir, dry_run=True)
    if not request.dry_run:
        if not yes and not console.confirm(f"delete {', '.join(result.runs)}?"):
            typer.echo("nothing was deleted; to go ahead without being asked, add --yes", err=True)
            raise typer.Exit(2)
        result = remove_runs(request.runs, request.runs_dir)
    console.print_json(result) if as_json else results.print_removed(result)


def play(request: "PlayRequest", artifacts: options.FromArtifacts = None, as_json: options.Json = False) -> None:
    """Watch a trained policy act. RUN/@best (the default), RUN/@last or RUN@STEP."""
    from rlclinic.ops.runs.policy import play
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    request = options.read_artifacts(request, artifacts, request.selector, checkpoints=True)
    result = play(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else results.print_evaluation(result)


def evaluate(request: "EvaluateRequest", require_threshold: options.RequireThreshold = False, as_json: options.Json = False) -> None:
    """Score a trained policy from fixed start states. RUN/@best (the default), RUN/@last or RUN@STEP."""
    from rlclinic.ops.runs.policy import evaluate
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = evaluate(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(result) if as_json else results.print_evaluation(result)
    if require_threshold and not result.passed:
        raise typer.Exit(THRESHOLD_MISSED)


def envs(request: "EnvironmentsRequest", as_json: options.Json = False) -> None:
    """List environments with tuned variants, their thresholds and what was measured."""
    from rlclinic.ops.runs.environments import list_environments
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = list_environments(request.pattern)
    console.print_json(result) if as_json else results.print_environments(result)


def config_show(
    request: "ConfigRequest",
    origins: Annotated[bool, typer.Option("--origins", help="Say where each value comes from.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print a whole config, as it would be trained, and the numbers that follow from it."""
    from rlclinic.ops.runs.environments import show_config
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = show_config(request.ref, request.changes, request.runs_dir)
    console.print_json(result) if as_json else results.print_config(result, origins)


def import_(request: "ImportRequest", as_json: options.Json = False) -> None:
    """Copy runs of other frameworks into the store; their folder is only read."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = audited.import_run(**request.arguments, runs_dir=request.runs_dir, by=console.person())
    console.print_json(result) if as_json else results.print_imported(result)
