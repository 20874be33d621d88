"""Every next action that the code can name: a command that the command line takes, and where agents have it, a call that a tool takes."""

import ast
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import typer

import rlclinic
from rlclinic.actions import Action
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.mcp.replies import find_call
from tests.serve.mcp.stores import ran

KINDS = ("optimize", "sensitivity")
"""What the name of a study stands for."""
LEAST = {"seconds": 4}
"""Options that take no 1, by the least that they take."""


def find_actions() -> Iterator[tuple[str, Action]]:
    """Each `Action(…)` of the source, with something put in for what is computed."""
    root = Path(rlclinic.__file__).parent
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Action(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Action" and node.args:
                head, *rest = node.args
                names = [word for each in rest for word in (["A", "B"] if isinstance(each, ast.Starred) else [_value(each)])]
                options = {each.arg: _value(each.value, LEAST.get(each.arg, 1)) for each in node.keywords if each.arg is not None}
                for command in [head.value] if isinstance(head, ast.Constant) else KINDS:
                    yield f"{path.relative_to(root)}:{node.lineno}", Action(str(command), *names, **options)


def _value(node: ast.expr, computed: int = 1) -> Any:
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    return node.value if isinstance(node, ast.Constant) else computed


@cache
def tools() -> dict[str, Any]:
    from mcp import Client

    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    async def listed() -> dict[str, Any]:
        async with Client(build(Store("nowhere"), Settings(local=True))) as client:
            return {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}

    return ran(listed)


@pytest.fixture(scope="module")
def actions() -> list[tuple[str, Action]]:
    """Actions with where they stand."""
    return list(find_actions())


def test_the_source_was_found(actions: list[tuple[str, Action]]) -> None:
    assert len({place for place, _ in actions}) > 60


def test_a_next_action_is_a_command_that_can_be_typed(actions: list[tuple[str, Action]]) -> None:
    whole: Any = typer.main.get_command(app)
    for place, action in actions:
        command = whole
        words = ["1" if word in ("N", "RETURN") else word for word in shlex.split(action)[1:]]
        while hasattr(command, "commands") and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        try:
            context = command.make_context("rlclinic", words)
        except click.ClickException as error:
            pytest.fail(f"{place}: {action}: {error.format_message()}")
        assert context.command is command, place
        assert not action.names or any(parameter.param_type_name == "argument" for parameter in command.params), place


def test_a_next_action_that_agents_have_is_a_call_that_its_tool_takes(actions: list[tuple[str, Action]]) -> None:
    for place, action in actions:
        call = find_call(action)
        if call is not None:
            name, arguments = call
            schema = tools()[name]
            assert set(schema.get("required", [])) <= arguments.keys() <= schema["properties"].keys(), place


def test_a_call_keeps_what_it_is_about_and_refuses_what_its_tool_does_not_have() -> None:
    assert find_call(Action("trial", "g7k2", rx=[1, 2])) == ("start_trial", {"run_id": "g7k2", "rx": [1, 2]})
    assert find_call(Action("evaluate", "g7k2", video="episode.gif")) is None
    assert find_call(Action("rules")) is None
    assert find_call(Action("runs rm", "g7k2")) is None
    assert find_call(Action.quoted("rlclinic trial g7k2")) is None
