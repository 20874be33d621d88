"""`rlclinic runs …`: looking at runs, and removing them."""

from pathlib import Path
from typing import Annotated

import typer

from rlclinic.serve.cli import options

app = typer.Typer(help="List, show and remove runs.", no_args_is_help=True)


@app.command("list")
def list_(
    state: Annotated[str | None, typer.Option(help="queued, running, finished, stopped, failed or crashed.")] = None,
    env: Annotated[str | None, typer.Option(help="Only configs whose name begins with this.")] = None,
    group: Annotated[str | None, typer.Option(help="Only this group.", autocompletion=options.complete_run)] = None,
    trial: Annotated[str | None, typer.Option(help="Only runs of this trial.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many.")] = 20,
    everything: Annotated[bool, typer.Option("--all", "-a", help="No limit.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """List runs, newest first."""
    from rlclinic.ops.runs.listing import list_runs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = list_runs(runs_dir, state=state, env=env, group=group, trial=trial, limit=None if everything or trial else limit)
    console.print_json(result) if as_json else results.print_runs(result)


@app.command()
def show(
    run: options.Selector = "@last",
    report: Annotated[bool, typer.Option("--report", help="Also write the group's report files again.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Show a run, or a group with its verdict and curve."""
    from rlclinic.ops.diagnose.write_reports import show, write_group_reports
    from rlclinic.report.models import RunInfo
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = show(run, runs_dir)
    files = write_group_reports(run, runs_dir) if report else []
    if as_json:
        console.print_json(result)
    elif isinstance(result, RunInfo):
        results.print_run(result)
    else:
        results.print_group(result)
    if not as_json:
        results.print_lines([f"wrote     {file}" for file in files])


@app.command()
def metrics(
    run: options.Selector = "@last",
    names: Annotated[list[str] | None, typer.Option("--metric", "-m", help="A column, or a part of its name. Repeatable.")] = None,
    points: Annotated[int, typer.Option(min=2, help="At most this many values per series (with --json).")] = 64,
    from_step: Annotated[float, typer.Option(min=0, help="From this env step on.")] = 0.0,
    list_names: Annotated[bool, typer.Option("--list", help="Only the names of all columns.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Show a run's metrics: first, last, range, and what each one means."""
    from rlclinic.ops.runs.listing import get_run_metrics
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = get_run_metrics(run, names or [], runs_dir, points=points, from_step=from_step)
    if as_json:
        console.print_json(result)
    elif list_names:
        results.print_lines(result.available)
    else:
        results.print_metrics(result)


@app.command()
def logs(
    run: options.Selector = "@last",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many, from the end.")] = 50,
    everything: Annotated[bool, typer.Option("--all", "-a", help="The whole log.")] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Print the end of a run's log."""
    from rlclinic.ops.runs.listing import get_run_logs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = get_run_logs(run, runs_dir, lines=None if everything else lines)
    console.print_json(result) if as_json else results.print_log(result)


@app.command()
def checkpoints(
    run: options.Selector = "@last",
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Look into the newest one (or into a .safetensors file): layers, units, optimizer.")
    ] = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """List a run's checkpoints."""
    from rlclinic.ops.runs.listing import list_checkpoints
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    if inspect:
        from rlclinic.ops.runs.detail import inspect_checkpoints
        from rlclinic.serve.cli.text import checkpoints

        found = inspect_checkpoints(run, runs_dir)
        console.print_json(found) if as_json else checkpoints.print_inspection(found.inspection)
        return
    result = list_checkpoints(run, runs_dir)
    console.print_json(result) if as_json else results.print_checkpoints(result)


@app.command()
def rm(
    runs: Annotated[list[str], typer.Argument(help="Runs or groups to delete.", autocompletion=options.complete_run)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    yes: options.Yes = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Delete runs, or groups with all their runs."""
    from rlclinic.ops.runs.listing import remove_runs
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    result = remove_runs(runs, runs_dir, dry_run=True)
    if not dry_run:
        if not yes and not console.confirm(f"delete {', '.join(result.runs)}?"):
            typer.echo("nothing was deleted; to go ahead without being asked, add --yes", err=True)
            raise typer.Exit(2)
        result = remove_runs(runs, runs_dir)
    console.print_json(result) if as_json else results.print_removed(result)
