"""Bodies and queries: made from the fields that a request offers over HTTP, and checked before an operation sees them.

@router.post("/trials")
@takes_body
def start_trial(here: Here, request: TrialRequest, start: StartRequest) -> Job:

@router.get("/history")
@takes_query
def get_history(here: Here, asked: HistoryRequest) -> EnvironmentHistory:
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, create_model

from rlclinic.ops.request import UNSET, Http, Request, RequestField, fields_of
from rlclinic.serve.http.security.requests import confine


class Body(BaseModel):
    """A request; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def takes_body(route: Callable[..., Any], *, query: bool = False) -> Callable[..., Any]:
    """The route with one body in place of its requests. Each is about the server's store, and may name nothing outside of it.

    query: parameters of the address instead, of which it refuses those that it does not know.
    """
    taken = _requests_of(route)
    body: Any = body_of(*taken.values())
    sent = inspect.Parameter("body", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[body, Query()] if query else body)

    def read(given: dict[str, Any]) -> dict[str, Any]:
        values = given.pop("body")
        return {mark.name or field.name: getattr(values, mark.name or field.name) for field, mark in _sent(taken.values())}

    return _replace_requests(route, taken, [sent], read)


def takes_query(route: Callable[..., Any]) -> Callable[..., Any]:
    """The route with parameters of the address in place of its requests; as with any address, what it does not know is ignored."""
    taken = _requests_of(route)
    sent = []
    for field, mark in _sent(taken.values()):
        kind, default, doc = _describe_field(field, mark)
        annotation: Any = Annotated[kind, Query(description=doc, **mark.bounds)]
        default = inspect.Parameter.empty if default is ... else default
        sent.append(inspect.Parameter(mark.name or field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    def read(given: dict[str, Any]) -> dict[str, Any]:
        return {parameter.name: given.pop(parameter.name) for parameter in sent}

    return _replace_requests(route, taken, sent, read)


def _requests_of(route: Callable[..., Any]) -> dict[str, type[Request]]:
    """The requests that a route takes, by the names of its parameters."""
    parameters = inspect.signature(route, eval_str=True).parameters
    return {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Request)
    }


def _sent(models: Iterable[type[Request]]) -> list[tuple[RequestField, Http]]:
    """The fields that come with the body or the query, not with the path."""
    return [(field, mark) for model in models for field, mark in offered(model) if mark.path is None]


def _replace_requests(
    route: Callable[..., Any],
    taken: dict[str, type[Request]],
    sent: list[inspect.Parameter],
    read: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[..., Any]:
    """The route with `sent` in place of its requests. `read` takes what came out of the arguments, by the names it was sent under."""

    def fill(given: dict[str, Any]) -> dict[str, Any]:
        values, here = read(given), given["here"]
        for name, model in taken.items():
            asked = {}
            for field, mark in offered(model):
                value = given[mark.path] if mark.path else values[mark.name or field.name]
                asked[field.name] = value if mark.read is None else mark.read(value)
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
    signature = inspect.signature(route, eval_str=True)
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in signature.parameters.items() if name not in taken]
    made.__signature__ = signature.replace(parameters=[*kept, *sent])  # type: ignore[attr-defined]
    return made


def body_of(*models: type[Request]) -> type[Body]:
    """A body with the fields that these requests offer; it has the first one's name and sentence."""
    fields: dict[str, Any] = {}
    for field, mark in _sent(models):
        kind, default, doc = _describe_field(field, mark)
        fields[mark.name or field.name] = (kind, Field(default, description=doc, **mark.bounds))
    name = f"{models[0].__name__.removesuffix('Request')}Body"
    return create_model(name, __base__=Body, __doc__=models[0].__doc__, **fields)


def offered(model: type[Request]) -> list[tuple[RequestField, Http]]:
    """The fields that a caller from elsewhere may give."""
    return [(field, mark) for field in fields_of(model) if (mark := field.mark(Http)) is not None]


def _describe_field(field: RequestField, mark: Http) -> tuple[Any, Any, str | None]:
    """Its type, its default and its sentence over HTTP."""
    default = field.default if mark.default is UNSET else mark.default
    return mark.type or field.info.annotation, default, mark.doc or field.info.description
