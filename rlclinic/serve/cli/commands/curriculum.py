"""`rlclinic curriculum …`: stages and tasks that runs were trained on."""

from typing import TYPE_CHECKING

import typer

from rlclinic.serve.cli import options

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.requests import CurriculumRequest

app = typer.Typer(help="Show what a curriculum did.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    options.command(app, requests="diagnose.requests")(show)
    # With one command alone, typer would leave its name out.
    app.callback()(lambda: None)
    root.add_typer(app, name="curriculum")


def show(request: "CurriculumRequest", as_json: options.Json = False) -> None:
    """Show which stages a group went through, how it left them, and what it still can do."""
    from rlclinic.ops.tasks.curriculum import show_curriculum
    from rlclinic.serve.cli import console
    from rlclinic.serve.cli.text.results import print_curriculum

    report = show_curriculum(**request.arguments, runs_dir=request.runs_dir)
    console.print_json(report) if as_json else print_curriculum(report)
