"""One table of operations: what it says of each face is what that face really has, and nothing is left out without a reason."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from rlclinic import ops
from rlclinic.ops.operations import FACES, ONLY, OPERATIONS, Face, Operation
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app as command_line
from tests.serve.mcp.stores import ran

API = "/api/v1"


def commands(group: Any, prefix: str = "") -> set[str]:
    """Every command that can be typed; a group that does something by itself counts, too."""
    found = set()
    for name, command in group.commands.items():
        whole = f"{prefix}{name}"
        if hasattr(command, "commands"):
            found |= commands(command, f"{whole} ")
            found |= {whole} if command.invoke_without_command else set()
        else:
            found.add(whole)
    return found


def tools(**settings: Any) -> dict[str, Any]:
    from mcp import Client

    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    async def listed() -> dict[str, Any]:
        async with Client(build(Store("nowhere"), Settings(**settings))) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    made: dict[str, Any] = ran(listed)
    return made


def routes(folder: Path) -> set[str]:
    from rlclinic.serve.http.app import create_app

    paths = create_app(Store(folder / "runs")).openapi()["paths"]
    return {f"{method.upper()} {path.removeprefix(API)}" for path, methods in paths.items() for method in methods}


@pytest.fixture
def there(tmp_path: Path) -> dict[Face, set[str]]:
    return {"cli": commands(typer.main.get_command(command_line)), "mcp": set(tools()), "http": routes(tmp_path)}


def named(face: Face) -> set[str]:
    # `trial --show` is an option of a command that another operation names.
    return {name.partition(" --")[0] for operation in OPERATIONS for name in operation.names(face)}


def test_every_face_has_what_the_table_says_and_nothing_else(there: dict[Face, set[str]]) -> None:
    for face in FACES:
        expected = named(face) | set(ONLY[face])
        missing, surplus = expected - there[face], there[face] - expected
        assert not missing, f"{face} lacks {sorted(missing)}: add it there, or say in rlclinic/ops/operations.py why not"
        assert not surplus, f"{face} has {sorted(surplus)}, which rlclinic/ops/operations.py does not name"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.function)
def test_a_face_that_leaves_an_operation_out_says_why(operation: Operation) -> None:
    for face in FACES:
        assert bool(operation.names(face)) != (face in operation.absent), f"{operation.function}: {face}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.function)
def test_an_operation_is_typed_and_returns_a_model(operation: Operation) -> None:
    signature = inspect.signature(operation.call)
    untyped = [name for name, parameter in signature.parameters.items() if parameter.annotation is inspect.Parameter.empty]
    assert not untyped
    returned = signature.return_annotation
    # A name in quotes is imported late; its module is there once the whole of ops is.
    model = models()[returned] if isinstance(returned, str) else returned
    assert issubclass(model, BaseModel)


@cache
def models() -> dict[str, type[BaseModel]]:
    """Every model of rlclinic.ops by its name."""
    modules = [import_module(found.name) for found in pkgutil.walk_packages(ops.__path__, "rlclinic.ops.")]
    return {
        name: each for module in modules for name, each in vars(module).items() if isinstance(each, type) and issubclass(each, BaseModel)
    }


def test_an_option_that_the_table_names_is_one_of_its_command() -> None:
    for operation in OPERATIONS:
        words, _, option = (operation.cli or "").partition(" --")
        if option:
            command: Any = typer.main.get_command(command_line)
            for word in words.split():
                command = command.commands[word]
            assert f"--{option}" in {spelled for parameter in command.params for spelled in parameter.opts}


def test_names_are_not_used_twice() -> None:
    for face in FACES:
        names = [name for operation in OPERATIONS for name in operation.names(face)]
        assert len(names) == len(set(names))


def test_a_read_only_server_has_no_tool_that_changes_anything() -> None:
    reading = {operation.mcp for operation in OPERATIONS if operation.mcp and operation.effect == "read"}
    found = tools(read_only=True)
    assert set(found) == reading
    assert all(tool.annotations.read_only_hint for tool in found.values())


def test_annotations_follow_from_what_an_operation_does() -> None:
    found = tools()
    for operation in OPERATIONS:
        if operation.mcp is not None:
            hints = found[operation.mcp].annotations
            assert hints.read_only_hint == (operation.effect == "read")
            assert hints.destructive_hint == operation.destructive


def test_the_catalogue_of_tools_stays_small() -> None:
    import json

    found = tools()
    sizes = {name: len(json.dumps(tool.model_dump(mode="json", exclude_none=True))) for name, tool in found.items()}
    assert max(sizes.values()) < 4_000, sizes
    assert sum(sizes.values()) < 26_000, sizes
    assert all(tool.description and len(tool.description) < 160 for tool in found.values())
