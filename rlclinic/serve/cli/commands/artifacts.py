"""`rlclinic artifacts push` and `pull`: runs in an object store."""

from pathlib import Path
from typing import Annotated

import typer

from rlclinic.serve.cli import options

app = typer.Typer(help="Runs in an object store, for other machines to read and to go on with.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(push)
    app.command()(pull)
    root.add_typer(app, name="artifacts")


def push(
    targets: Annotated[list[str] | None, typer.Argument(help="Runs or groups; none: all.", autocompletion=options.complete_run)] = None,
    artifacts: options.Artifacts = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Put what is new of runs and groups into the object store. Trainings do so by themselves where one is named."""
    from rlclinic.ops.runs.artifacts import push_artifacts
    from rlclinic.serve.cli import console

    done = push_artifacts(targets or [], runs_dir)
    console.print_json(done) if as_json else typer.echo(f"{len(done.items)} of {done.looked_at} had something new: {done.artifacts}")


def pull(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Runs or groups, by their whole ids.")],
    artifacts: options.Artifacts = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Bring runs and groups whole to this machine: to look at, to play, to go on with (`train --resume`)."""
    from rlclinic.ops.runs.artifacts import pull_artifacts
    from rlclinic.serve.cli import console

    done = pull_artifacts(ids, runs_dir)
    console.print_json(done) if as_json else typer.echo(f"{', '.join(done.items)} from {done.artifacts}")
