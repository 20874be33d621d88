"""`rlclinic new …`: files to begin with."""

from typing import TYPE_CHECKING

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.requests import NewEnvRequest

app = typer.Typer(help="Write files to begin with.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, requests="diagnose.requests")(env)
    # With one command alone, typer would leave its name out.
    app.callback()(lambda: None)
    root.add_typer(app, name="new")


def env(request: "NewEnvRequest", as_json: options.Json = False) -> None:
    """Write an environment that passes its tests and trains as it is: with its reward term by term, settings, and pytest files."""
    from rlclinic.ops.tasks.new_env import write_environment
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text import results

    made = write_environment(request)
    console.print_json(made) if as_json else results.print_new_environment(made)
