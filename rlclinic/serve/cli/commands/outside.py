"""Commands of operations that other packages bring: made from their requests."""

from typing import Any

import typer

from rlclinic import plain_text
from rlclinic.ops import operations
from rlclinic.ops.operations import Operation
from rlclinic.ops.request import Request
from rlclinic.serve.cli import console, options


def find() -> dict[str, Operation]:
    """By command: what other packages bring."""
    return {operation.cli: operation for operation in operations.find_outside() if operation.cli is not None}


def make(operation: Operation) -> Any:
    """The command of an operation: its request as options, its answer as lines or JSON."""

    def handler(request: Request, as_json: options.Json = False) -> None:
        result = operations.run(operation, request, console.person())
        if as_json:
            console.print_json(result)
        else:
            for name, value in result:
                if name != "schema_version":
                    typer.echo(plain_text.clean(f"{name:<20} {value}"))

    handler.__doc__ = operation.call.__doc__
    handler.__annotations__["request"] = operation.model
    app = typer.Typer(add_completion=False)
    app.command(operation.cli)(options.expand(handler, {}))
    return typer.main.get_command(app)
