"""Bodies of requests: made from the fields that a request offers over HTTP, and checked before an operation sees them.

@router.post("/trials")
@takes_body
def start_trial(here: Here, request: TrialRequest, start: StartRequest) -> Job:
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, create_model

from rlclinic.ops.request import UNSET, Http, Request, RequestField, fields_of
from rlclinic.serve.http.security.requests import confine


class Body(BaseModel):
    """A request; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def takes_body(route: Callable[..., Any], *, query: bool = False) -> Callable[..., Any]:
    """The route with one body in place of its requests. Each is about the server's store, and may name nothing outside of it.

    query: parameters of the address instead, for a GET.
    """
    signature = inspect.signature(route, eval_str=True)
    taken: dict[str, type[Request]] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Request)
    }
    body: Any = body_of(*taken.values())
    annotation = Annotated[body, Query()] if query else body

    def fill(given: dict[str, Any]) -> dict[str, Any]:
        sent, here = given.pop("body"), given["here"]
        for name, model in taken.items():
            asked = {field.name: given[mark.path] if mark.path else getattr(sent, field.name) for field, mark in offered(model)}
            given[name] = model(**asked, runs_dir=here.root)
            confine(here.store, given[name])
        return given

    if inspect.iscoroutinefunction(route):

        @functools.wraps(route)
        async def answer_later(**given: Any) -> Any:
            return await route(**fill(given))

        made: Callable[..., Any] = answer_later
    else:

        @functools.wraps(route)
        def answer(**given: Any) -> Any:
            return route(**fill(given))

        made = answer
    first = next(iter(taken))
    kept = [
        parameter.replace(name="body", annotation=annotation, default=inspect.Parameter.empty) if name == first else parameter
        for name, parameter in signature.parameters.items()
        if name == first or name not in taken
    ]
    made.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return made


def body_of(*models: type[Request]) -> type[Body]:
    """A body with the fields that these requests offer; it has the first one's name and sentence."""
    fields = {field.name: _field(field, mark) for model in models for field, mark in offered(model) if mark.path is None}
    name = f"{models[0].__name__.removesuffix('Request')}Body"
    return create_model(name, __base__=Body, __doc__=models[0].__doc__, **fields)  # type: ignore[call-overload]


def offered(model: type[Request]) -> list[tuple[RequestField, Http]]:
    """The fields that a caller from elsewhere may give."""
    return [(field, mark) for field in fields_of(model) if (mark := field.mark(Http)) is not None]


def _field(field: RequestField, mark: Http) -> tuple[Any, Any]:
    default = field.default if mark.default is UNSET else mark.default
    return mark.type or field.info.annotation, Field(default, description=mark.doc or field.info.description, **mark.bounds)
