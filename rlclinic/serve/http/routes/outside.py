"""Routes of operations that other packages bring: made from their requests."""

from typing import Any, get_type_hints

from fastapi import APIRouter

from rlclinic.errors import ConfigError
from rlclinic.ops import operations
from rlclinic.ops.operations import Operation
from rlclinic.ops.request import Request
from rlclinic.serve.http.bodies import takes_body
from rlclinic.serve.http.context import By, Here


def build_router() -> APIRouter:
    """A route for each that the operations name. The guard tells reading from writing by the method, so what writes is never a GET."""
    router = APIRouter(prefix="/api/v1", tags=["outside"])
    for operation in operations.find_outside():
        for route in operation.http:
            method, _, path = route.partition(" ")
            if method == "GET" and operation.effect != "read":
                raise ConfigError(
                    f"{operation.function} changes something, and its route is {route}.\n"
                    f"  Whoever may only read could use it.\n  Make it POST {path}"
                )
            answers = get_type_hints(operation.call).get("return")
            router.add_api_route(path, _route(operation, method), methods=[method], response_model=answers)
    return router


def _route(operation: Operation, method: str) -> Any:
    def answer(here: Here, by: By, request: Request) -> Any:
        return operations.run(operation, request, by)

    answer.__name__, answer.__doc__ = operation.call.__name__, operation.call.__doc__
    answer.__annotations__["request"] = operation.model
    return takes_body(answer, query=method == "GET")
