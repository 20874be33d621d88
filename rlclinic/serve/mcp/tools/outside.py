"""Tools of operations that other packages bring: made from their requests."""

from collections.abc import Callable
from typing import Any

from mcp_types import CallToolResult

from rlclinic.ops import operations
from rlclinic.ops.operations import Operation
from rlclinic.ops.request import Request
from rlclinic.serve.mcp.replies import answer
from rlclinic.serve.mcp.settings import AGENT
from rlclinic.serve.mcp.tools.base import Ctx, Tools, takes_arguments


def make(operation: Operation, tools: Tools) -> Callable[..., Any]:
    """The tool of an operation: its request as arguments, its answer as lines and as data."""

    def tool(self: Tools, request: Request, ctx: Ctx = None) -> CallToolResult:
        by = AGENT if operation.effect == "read" else self.caller(ctx)
        result = operations.run(operation, request, by)
        lines = [f"{name}: {value}" for name, value in result if name != "schema_version"]
        return answer("\n".join(lines), result)

    tool.__name__, tool.__doc__ = str(operation.mcp), operation.call.__doc__
    tool.__annotations__["request"] = operation.model
    made: Callable[..., Any] = takes_arguments(tool).__get__(tools)
    return made
