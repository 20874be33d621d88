"""How tools answer: a compact text for the model beside the same facts as JSON for programs, and errors that say what to call next."""

import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel

from rlclinic.actions import Action, ForPeople
from rlclinic.errors import RlclinicError
from rlclinic.report.document import clean
from rlclinic.runs.store import Store
from rlclinic.serve.confined import check_named

LONGEST: Final = 12_000
"""Characters of any answer: far below what clients cut at, and what is left out is said."""
NAMES: Final = frozenset({"run_id", "run_ids", "config_id", "resume"})
"""Arguments that name runs and groups."""
_NAME: Final = r"([^\s;,()]+)"
# What people type, and what a tool is called with. The order matters: longer commands first.
_CALLS: Final = tuple(
    (re.compile(pattern), call)
    for pattern, call in (
        (rf"rlclinic train --resume {_NAME} --max-env-steps (\d+)", r'start_training(resume="\1", max_env_steps=\2)'),
        (rf"rlclinic train --resume {_NAME}", r'start_training(resume="\1")'),
        (rf"rlclinic train {_NAME} --rx (\d+)", r'start_training(config_id="\1", rx=\2)'),
        (rf"rlclinic train {_NAME} --seeds (\d+)", r'start_training(config_id="\1", seeds=\2)'),
        (rf"rlclinic train {_NAME}", r'start_training(config_id="\1")'),
        (rf"rlclinic trial --resume {_NAME}", r'start_trial(resume="\1")'),
        (rf"rlclinic trial {_NAME} --rx (\d+)", r'start_trial(run_id="\1", rx=[\2])'),
        (rf"rlclinic trial {_NAME} --set {_NAME}", r'start_trial(run_id="\1", changes=["\2"], hypothesis="…")'),
        (rf"rlclinic optimize --resume {_NAME}", r'start_optimize(resume="\1")'),
        (rf"rlclinic optimize {_NAME} --budget {_NAME}", r'start_optimize(run_id="\1", budget_env_steps="\2")'),
        (rf"rlclinic adopt {_NAME} --as {_NAME}( --force)?", r'adopt(trial_id="\1", as_variant="\2")'),
        (rf"rlclinic adjust {_NAME} --set {_NAME}", r'adjust_run(run_id="\1", changes=["\2"])'),
        (rf"rlclinic runs metrics {_NAME} --list", r'get_run_metrics(run_id="\1")'),
        (r"rlclinic runs list --state running", 'list_runs(state="running")'),
        (rf"rlclinic runs list --trial {_NAME}", r'get_trial(trial_id="\1")'),
        (r"rlclinic runs list", "list_runs()"),
        (rf"rlclinic runs show {_NAME}", r'get_run_info(run_id="\1")'),
        (rf"rlclinic runs logs {_NAME}", r'get_run_logs(run_id="\1")'),
        (rf"rlclinic diagnose {_NAME}", r'diagnose_run(run_id="\1")'),
        (rf"rlclinic prescribe {_NAME}", r'prescribe(run_id="\1")'),
        (rf"rlclinic status {_NAME}", r'get_training_status(run_id="\1")'),
        (rf"rlclinic stop {_NAME}", r'stop_training(run_id="\1")'),
        (rf"rlclinic rules {_NAME}", r'explain_rule(rule="\1")'),
        (r"rlclinic envs", "describe_environment()"),
    )
)


def spoken(text: str) -> str:
    """A text for people with its commands as tool calls; a command that has no tool stays, for a person to type."""
    text = re.sub(r" --runs-dir \S+", "", text)
    # Forcing is for people.
    text = re.sub(r"\n  To keep it all the same: --force", "\n  Try it on more seeds: start_trial(…, per_look=8)", text)
    text = re.sub(r", or: rlclinic adopt \S+ --as \S+ --force", "", text)
    for pattern, call in _CALLS:
        text = pattern.sub(call, text)
    return text.replace("Type: rlclinic", "A person types: rlclinic")


CALLS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "train": ("start_training", "config_id", {"set": "overrides"}),
    "trial": ("start_trial", "run_id", {"set": "changes"}),
    "optimize": ("start_optimize", "run_id", {"budget": "budget_env_steps", "set": "overrides"}),
    "adopt": ("adopt", "trial_id", {"as": "as_variant"}),
    "adjust": ("adjust_run", "run_id", {"set": "changes"}),
    "compare": ("compare_runs", "run_ids", {}),
    "runs metrics": ("get_run_metrics", "run_id", {}),
    "runs list": ("list_runs", "", {}),
    "runs show": ("get_run_info", "run_id", {}),
    "runs logs": ("get_run_logs", "run_id", {}),
    "runs checkpoints": ("list_checkpoints", "run_id", {}),
    "evaluate": ("evaluate_checkpoint", "run_id", {}),
    "diagnose": ("diagnose_run", "run_id", {}),
    "prescribe": ("prescribe", "run_id", {}),
    "status": ("get_training_status", "run_id", {}),
    "stop": ("stop_training", "run_id", {}),
    "rules": ("explain_rule", "rule", {}),
    "envs": ("describe_environment", "env_id", {}),
}
"""By command: the tool, the argument for what it is about, and options whose arguments have another name."""
_TERMINAL: Final = frozenset({"runs_dir", "list", "json", "yes"})
"""Options that mean nothing to a tool: it has one store, and answers with everything."""
_LISTS: Final = frozenset({("trial", "rx"), ("train", "set"), ("trial", "set"), ("optimize", "set"), ("adjust", "set")})


def call(action: Action) -> str | None:
    """The tool call that does what a command does; None if only people can do it."""
    tool, about, renamed = CALLS.get(action.command, ("", "", {}))
    given = {renamed.get(name, name): value for name, value in action.options.items() if name not in _TERMINAL}
    if not tool or "force" in given:
        return None
    names = list(action.names) if tool == "compare_runs" or len(action.names) > 1 else next(iter(action.names), None)
    arguments = ({about: names} if action.names else {}) | {
        name: list(value) if isinstance(value, list | tuple) else value for name, value in given.items()
    }
    for name in [renamed.get(option, option) for command, option in _LISTS if command == action.command]:
        if name in arguments and not isinstance(arguments[name], list):
            arguments[name] = [arguments[name]]
    said = f"{tool}({', '.join(f'{name}={json.dumps(value, ensure_ascii=False)}' for name, value in arguments.items())})"
    following = None if action.following is None else call(action.following) or str(action.following)
    return said if following is None else f"{said} && {following}"


def say(*parts: str) -> str:
    """A text of parts as an agent reads it: actions as calls; a command that has no tool stays one, for a person to type."""
    text = ""
    for part in parts:
        said = call(part) if isinstance(part, Action) else "" if isinstance(part, ForPeople) else str(part)
        if said is None:
            text, said = re.sub(r"Type: $", "A person types: ", text), str(part)
        text += said
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


def told(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool with our errors in words that reach the model; any other exception stays a crash of the server."""
    if inspect.iscoroutinefunction(tool):

        @functools.wraps(tool)
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            try:
                return await tool(*args, **kwargs)
            except RlclinicError as error:
                raise ToolError(spoken(str(error))) from error

        return waiting

    @functools.wraps(tool)
    def calling(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except RlclinicError as error:
            raise ToolError(spoken(str(error))) from error

    return calling


def confined(tool: Callable[..., Any], store: Store) -> Callable[..., Any]:
    """The tool for callers from elsewhere: a run or group that it is asked about must lie in the store, links and all."""

    def check(kwargs: Mapping[str, Any]) -> None:
        for key, value in kwargs.items():
            for name in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
                if key in NAMES and isinstance(name, str):
                    check_named(store, name)

    if inspect.iscoroutinefunction(tool):

        @functools.wraps(tool)
        async def waiting(**kwargs: Any) -> Any:
            check(kwargs)
            return await tool(**kwargs)

        return waiting

    @functools.wraps(tool)
    def calling(**kwargs: Any) -> Any:
        check(kwargs)
        return tool(**kwargs)

    return calling


def clip(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
