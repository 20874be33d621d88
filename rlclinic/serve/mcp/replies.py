"""How tools answer: a compact text for the model beside the same facts as JSON for programs, and errors that say what to call next."""

import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel

from rlclinic.actions import Action, ForPeople
from rlclinic.errors import RlclinicError
from rlclinic.report.document import clean
from rlclinic.runs.store import Store
from rlclinic.serve.confined import check_named

if TYPE_CHECKING:
    from rlclinic.ops.jobs.daily_report import MorningReport

LONGEST: Final = 12_000
"""Characters of any answer: far below what clients cut at, and what is left out is said."""
NAMES: Final = frozenset({"run_id", "run_ids", "config_id", "resume"})
"""Arguments that name runs and groups."""
CALLS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "train": (
        "start_training",
        "config_id",
        {"set": "overrides*", "resume": "resume", "max_env_steps": "max_env_steps", "rx": "rx", "seeds": "seeds"},
    ),
    "trial": ("start_trial", "run_id", {"set": "changes*", "rx": "rx*", "resume": "resume", "per_look": "per_look"}),
    "optimize": ("start_optimize", "run_id", {"resume": "resume", "budget": "budget_env_steps"}),
    "sensitivity": ("start_sensitivity", "run_id", {"resume": "resume"}),
    "adopt": ("adopt", "trial_id!", {"as": "as_variant"}),
    "adjust": ("adjust_run", "run_id!", {"set": "changes*"}),
    "compare": ("compare_runs", "run_ids!*", {}),
    "runs metrics": ("get_run_metrics", "run_id!", {}),
    "runs list": ("list_runs", "", {"state": "state"}),
    "runs show": ("get_run_info", "run_id!", {}),
    "runs logs": ("get_run_logs", "run_id!", {}),
    "runs checkpoints": ("list_checkpoints", "run_id!", {}),
    "evaluate": ("evaluate_checkpoint", "run_id", {}),
    "diagnose": ("diagnose_run", "run_id", {}),
    "prescribe": ("prescribe", "run_id", {}),
    "status": ("get_training_status", "run_id", {}),
    "stop": ("stop_training", "run_id!", {}),
    "rules": ("explain_rule", "rule!", {}),
    "envs": ("describe_environment", "env_id", {}),
}
"""By command: the tool, the argument for what it is about (! where a call needs one), and what its options are called (* for lists)."""
_TERMINAL: Final = frozenset({"runs_dir", "list"})
"""Options that mean nothing to a tool: it has one store, and answers with everything."""


def find_call(action: Action) -> tuple[str, dict[str, Any]] | None:
    """The tool that does what a command does, with its arguments; None if only people can do it."""
    tool, about, known = CALLS.get(action.command, ("", "", {}))
    options = {name: value for name, value in action.options.items() if name not in _TERMINAL}
    if not tool or not options.keys() <= known.keys() or ("!" in about and not action.names) or "-" in action.names:
        return None
    given: dict[str, Any] = {}
    if action.names:
        given[about.rstrip("!*")] = list(action.names) if about.endswith("*") or len(action.names) > 1 else action.names[0]
    for name, value in options.items():
        many = known[name].endswith("*") and not isinstance(value, list | tuple)
        given[known[name].rstrip("*")] = [value] if many else value
    return tool, given


def say_action(action: Action) -> str | None:
    """The call as an agent writes it; None if only people can do it."""
    found = find_call(action)
    if found is None:
        return None
    said = f"{found[0]}({', '.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in found[1].items())})"
    return said if action.following is None else f"{said} && {say_action(action.following) or action.following}"


def say(*parts: str) -> str:
    """A text of parts as an agent reads it: actions as calls; a command that has no tool stays one, for a person to type."""
    text = ""
    for part in parts:
        said = say_action(part) if isinstance(part, Action) else "" if isinstance(part, ForPeople) else str(part)
        if said is None:
            text, said = re.sub(r"Type: $", "A person types: ", text), str(part)
        text += said
    return text


def morning(report: "MorningReport") -> str:
    """The morning report with calls in place of commands."""
    text = report.text
    for action in report.adoptable.values():
        text = text.replace(action, say(action))
    return text


def answer(text: str, data: "BaseModel | Mapping[str, Any]", *more: ContentBlock) -> CallToolResult:
    """A tool's result: the text, then pictures if there are any, and the data as structured content."""
    shown = clean(text)
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]}\n… cut: {len(shown) - LONGEST:,} characters more; ask for less (limit, detail, from_step)"
    dumped = data.model_dump(mode="json") if isinstance(data, BaseModel) else json.loads(json.dumps(dict(data), default=str))
    return CallToolResult(content=[TextContent(type="text", text=shown), *more], structured_content=finite(dumped))


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are said as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list) else value


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
            raise ToolError(say(*error.parts)) from error

    def call(**arguments: Any) -> Any:
        try:
            check(arguments)
            return tool(**arguments)
        except RlclinicError as error:
            raise ToolError(say(*error.parts)) from error

    made = functools.wraps(tool)(call_later if inspect.iscoroutinefunction(tool) else call)
    made.__signature__ = inspect.signature(tool)  # type: ignore[attr-defined]
    return made


def clip(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
