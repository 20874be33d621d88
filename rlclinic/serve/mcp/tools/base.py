"""What all tools have: the store, the server's settings, and arguments that are made from requests.

@takes_arguments
def start_trial(self, request: TrialRequest, about: StartRequest, ctx: Ctx = None) -> CallToolResult:
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.request import UNSET, Mcp, Request, RequestField, combine_values, fields_of
from rlclinic.runs.store import Store
from rlclinic.serve.mcp.settings import Settings

Ctx = Context | None
Detail = Annotated[Literal["concise", "detailed"], Field(description="How much to say.")]


class Tools:
    """Some tools of a server over one store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.root, self.settings = store, store.root, settings

    def caller(self, ctx: Any) -> Caller:
        """On whose behalf a tool acts; the audit log names them."""
        return self.settings.caller(None if ctx is None else ctx.request_context.request)

    def make(self, model: type[Request], given: dict[str, Any]) -> Request:
        """The request that a caller's arguments make. It is about this store, and names no config that this caller may not have read."""
        asked: dict[str, Any] = {}
        for field, mark in offered(model):
            value = given.pop(mark.name or field.name, None)
            if value is not None:
                asked[field.name] = value if mark.read is None else mark.read(value)
        if model.resumes_alone and asked.get("resume"):
            asked = {"resume": asked["resume"]}
        elif model.resumes_alone and asked.get("extend"):
            asked = {key: asked[key] for key in ("extend", "seeds") if key in asked}
        request = model(**asked, runs_dir=self.root)
        # In a race, a change has several values.
        patches = combine_values(request.patches[0]) if given.get("race") else request.patches
        for ref in request.configs:
            for changes in patches:
                self.settings.config(ref, changes, self.store)
        for env_id in request.environments:
            self.settings.config(env_id, (), self.store)
        return request


def takes_arguments(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool with arguments in place of its requests."""
    signature = inspect.signature(tool, eval_str=True)
    parameters: list[inspect.Parameter] = []
    taken: dict[str, type[Request]] = {}
    for name, parameter in signature.parameters.items():
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Request):
            taken[name] = parameter.annotation
            parameters += [_parameter(field, mark) for field, mark in offered(parameter.annotation)]
        else:
            parameters.append(parameter)

    @functools.wraps(tool)
    def call(self: Tools, **given: Any) -> Any:
        made = {name: self.make(model, given) for name, model in taken.items()}
        return tool(self, **made, **given)

    # Python wants arguments without a default first; a client names them all.
    parameters[1:] = sorted(parameters[1:], key=lambda each: each.default is not inspect.Parameter.empty)
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def offered(model: type[Request]) -> list[tuple[RequestField, Mcp]]:
    """The fields that a tool has as arguments."""
    return [(field, mark) for field in fields_of(model) if (mark := field.mark(Mcp)) is not None]


def _parameter(field: RequestField, mark: Mcp) -> inspect.Parameter:
    default = field.default if mark.default is UNSET else mark.default
    kind: Any = field.info.annotation if mark.type is None else mark.type
    if field.repeats and mark.default is UNSET:
        kind, default = kind | None, None
    doc = field.info.description if mark.doc is None else mark.doc
    about: Any = Field(description=doc or None, **mark.bounds)
    return inspect.Parameter(
        mark.name or field.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[kind, about],
    )
