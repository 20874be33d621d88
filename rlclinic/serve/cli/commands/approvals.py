"""`rlclinic trust`: the code of others that may be run here, as it is remembered in the user's own folder."""

import time
from typing import Annotated

import typer

from rlclinic import plain_text
from rlclinic.serve.cli import options

trust_app = typer.Typer(
    help="Code of others that may be run here: environments and commands that somebody has named.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="file.py:Env, module:Env, or a file or module with all in it.")]


@trust_app.command("list")
def list_trusted(as_json: options.Json = False) -> None:
    """List the code that may be run here, when it was named, and whether its file has changed since."""
    from rlclinic.ops.train import approvals
    from rlclinic.serve.cli import console

    listed = approvals.list_trusted()
    if as_json:
        console.print_json(listed)
        return
    for entry in listed.trusted:
        changed = {True: "as it was", False: "changed since", None: ""}[entry.unchanged]
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.time))
        # Names came from whoever wrote them.
        typer.echo(plain_text.clean(f"{when}  {changed:13}  {entry.code}"))
    if not listed.trusted:
        typer.echo("nothing is trusted yet: what you train is, from then on", err=True)


@trust_app.command("add")
def add(name: Annotated[str, typer.Argument(metavar="NAME", help="file.py:Env or module:Env.")]) -> None:
    """Say that this code may be run, also where a run folder or a log names it. Nothing is run now."""
    from rlclinic.ops.train import approvals

    approvals.add_trusted(name)
    typer.echo(plain_text.clean(f"{name} may be run here"), err=True)


@trust_app.command("remove")
def remove(name: Name, as_json: options.Json = False) -> None:
    """Take it back: whatever names this code asks again. A process that runs already goes on."""
    from rlclinic.ops.train import approvals
    from rlclinic.serve.cli import console

    forgotten = approvals.forget_trusted(name)
    if as_json:
        console.print_json(forgotten)
        return
    for code in forgotten.removed:
        typer.echo(plain_text.clean(f"no longer trusted: {code}"))


def register(app: typer.Typer) -> None:
    """Add the commands to the root command."""
    app.add_typer(trust_app, name="trust")
