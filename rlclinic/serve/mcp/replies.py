"""How tools answer: a compact text for the model beside the same facts as JSON for programs, and errors that say what to call next."""

import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel

from rlclinic.actions import Action, Argument, Change, ForPeople
from rlclinic.errors import RlclinicError
from rlclinic.ops.operations import OPERATIONS, find_argument
from rlclinic.ops.request import Cli, Mcp, RequestField, fields_of, read_steps
from rlclinic.report.document import clean, longer_fence
from rlclinic.runs.store import Store
from rlclinic.serve.confined import check_named

LONGEST: Final = 12_000
"""Characters of any answer: far below what clients cut at, and what is left out is said."""
NAMES: Final = frozenset({"run_id", "run_ids", "config_id", "resume"})
"""Arguments that name runs and groups."""
_TERMINAL: Final = frozenset({"runs_dir", "list"})
"""Options that mean nothing to a tool: it has one store, and answers with everything."""


def find_call(action: Action) -> tuple[str, dict[str, Any]] | None:
    """The tool that does what a command does, with its arguments; None if only people can do it."""
    operation = next((each for each in OPERATIONS if each.cli == action.command and each.mcp is not None), None)
    model = None if operation is None else operation.model
    if operation is None or operation.mcp is None or model is None or "-" in action.names:
        return None
    given = {name: value for name, value in action.options.items() if name not in _TERMINAL}
    names, arguments = list(action.names), {}
    order = list(given)
    for field in fields_of(model):
        typed, taken = field.mark(Cli), field.mark(Mcp)
        if typed is not None and typed.argument:
            several = field.takes_several
            value: Any = (names[:] if several else names.pop(0)) if names else None
            names = [] if several else names
        else:
            value = given.pop(field.option, None)
        if value is None and (taken is None or not (taken.default is ... or field.default is ...)):
            continue
        if value is None or taken is None:
            return None
        if typed is not None and typed.steps:
            value = read_steps(value)
        place = order.index(field.option) if field.option in order else -1
        arguments[place, taken.name or field.name] = _in_shape(value, field, taken)
    if given or names:
        return None
    # What it is about comes first, then the options as they were given.
    return operation.mcp, {name: arguments[place, name] for place, name in sorted(arguments)}


def _in_shape(value: Any, field: RequestField, taken: Mcp) -> Any:
    """One value or a list of them, as the argument has it."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    if not field.takes_several:
        return value
    return listed[0] if len(listed) == 1 and str in get_args(taken.type) else listed


def say_action(action: Action) -> str | None:
    """The call as an agent writes it; None if only people can do it."""
    call = find_call(action)
    if call is None:
        return None
    text = f"{call[0]}({', '.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in call[1].items())})"
    return text if action.following is None else f"{text} && {say_action(action.following) or action.following}"


def _say_part(part: str) -> str | None:
    if isinstance(part, Action):
        return say_action(part)
    if isinstance(part, Change):
        return f"overrides={{{', '.join(f'{in_call(key)}: {_in_json(value)}' for key, value in part.changes.items())}}}"
    if isinstance(part, Argument):
        name = find_argument(part.name, Mcp)
        return str(part) if name is None else name if part.value is None else f"{name}={in_call(part.value)}"
    return "" if isinstance(part, ForPeople) else str(part)


def _in_json(value: str) -> str:
    """A setting's value as a program writes it: numbers, lists and null where the text means one."""
    try:
        json.loads(value)
    except ValueError:
        return "null" if value == "none" else in_call(value)
    return value


def say(*parts: str) -> str:
    """A text of parts as an agent reads it: actions as calls, settings and options as arguments; a command that has no tool stays one,
    for a person to type."""
    text = ""
    for part in parts:
        said_part = _say_part(part)
        if said_part is None:
            text, said_part = re.sub(r"Type: $", "A person types: ", text), str(part)
        text += said_part
    return text


def answer(text: str, data: "BaseModel | Mapping[str, Any]", *more: ContentBlock) -> CallToolResult:
    """A tool's result: the text, then pictures if there are any, and the data as structured content."""
    shown = clean(text)
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]}\n… cut: {len(shown) - LONGEST:,} characters more; ask for less (limit, detail, from_step)"
    dumped = data.model_dump(mode="json") if isinstance(data, BaseModel) else json.loads(json.dumps(dict(data), default=str))
    return CallToolResult(content=[TextContent(type="text", text=shown), *more], structured_content=make_plain(dumped))


def make_plain(value: Any) -> Any:
    """What JSON and a reader can take: no NaN and no infinity, which are said as words, and no control characters in texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {make_plain(key): make_plain(each) for key, each in value.items()}
    return [make_plain(each) for each in value] if isinstance(value, list) else value


def quote_data(text: str) -> str:
    """A text that programs or strangers wrote, between fences that it cannot close."""
    kept = clean(text)
    mark = longer_fence(kept)
    return f"{mark}\n{kept}\n{mark}"


def in_call(value: Any) -> str:
    """A value as an argument of a call: a name with quotes or line breaks in it stays one argument."""
    return json.dumps(value, ensure_ascii=False)


def one_line(text: object) -> str:
    """A name on one line, without control characters: a line break in it would begin a line that looks like ours."""
    return " ".join(clean(str(text)).split())


def describe_error(*parts: str) -> str:
    """An error as an agent reads it. Lines after the first are indented: what it quotes cannot begin a line of its own."""
    first, *rest = clean(say(*parts)).split("\n")
    return "\n".join([first, *(line if line.startswith("  ") or not line else f"  {line}" for line in rest)])


def wrap(tool: Callable[..., Any], confined_to: Store | None = None) -> Callable[..., Any]:
    """The tool with our errors in words that reach the model; any other exception stays a crash of the server.

    confined_to: for callers from elsewhere, a run or group that is asked about must lie in this store, links and all.
    """

    def check(arguments: Mapping[str, Any]) -> None:
        for key, value in arguments.items():
            for name in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
                if confined_to is not None and key in NAMES and isinstance(name, str):
                    check_named(confined_to, name)

    async def call_later(**arguments: Any) -> Any:
        try:
            check(arguments)
            return await tool(**arguments)
        except RlclinicError as error:
            raise ToolError(describe_error(*error.parts)) from error

    def call(**arguments: Any) -> Any:
        try:
            check(arguments)
            return tool(**arguments)
        except RlclinicError as error:
            raise ToolError(describe_error(*error.parts)) from error

    made = functools.wraps(tool)(call_later if inspect.iscoroutinefunction(tool) else call)
    made.__signature__ = inspect.signature(tool)  # type: ignore[attr-defined]
    return made


def clip(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
