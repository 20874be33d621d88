"""`rlclinic import` and `rlclinic history`: runs of others in the store, and what all of them say about an environment."""

from pathlib import Path
from typing import Annotated

import typer

from rlclinic.serve.cli import options

Threshold = Annotated[float | None, typer.Option(help="The return that counts as solved, where the log does not say.")]
Mapping = Annotated[list[str] | None, typer.Option("--map", metavar="METRIC=COLUMN", help="What a column of a foreign log is. Repeatable.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("import")(import_)
    app.command()(history)


def import_(
    path: Annotated[str, typer.Argument(help="Another framework's folder or file, a folder of such folders, or - for a log on stdin.")],
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="The group's id; without it one is made up.")] = None,
    threshold: Threshold = None,
    budget: options.Steps = None,
    mapping: Mapping = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Copy runs of other frameworks into the store; their folder is only read."""
    from rlclinic.ops.jobs import audited
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import history

    by = console.person()
    result = audited.import_run(path, runs_dir, by=by, name=name, threshold=threshold, budget=budget, mapping=mapping or [])
    console.print_json(result) if as_json else history.print_imported(result)


def history(
    env: Annotated[str, typer.Argument(help="The environment's id: CartPole-v1.")],
    paths: Annotated[list[str] | None, typer.Option("--path", metavar="DIR", help="Also folders of other frameworks. Repeatable.")] = None,
    threshold: Threshold = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
) -> None:
    """Show what was tried on an environment, and what separates solved from failed."""
    from rlclinic.ops.diagnose import history
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.history import print_history

    result = history.history_of(env, runs_dir, paths or [], threshold=threshold)
    console.print_json(result) if as_json else print_history(result)
