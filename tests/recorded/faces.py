"""The faces of rlclinic that users see, each started in this process: the command line, HTTP, MCP, Python.

Only `http_client` and `mcp_server` name modules inside the package; whoever moves those changes these two functions and nothing else.
"""

import contextlib
import enum
import inspect
import io
import json
import os
import runpy
import sys
import typing
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.serve.mcp.stores import ran


def http_client(runs: Path) -> AbstractContextManager[Any]:
    """A client of the HTTP server over a folder of runs, as `rlclinic serve` starts it for this machine alone."""
    from starlette.testclient import TestClient

    from rlclinic.runs.store import Store
    from rlclinic.serve.http.app import create_app
    from rlclinic.serve.http.settings import Settings

    app = create_app(Store(runs), Settings(mcp=False, prepare=False, no_token=True))
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def mcp_server(runs: Path) -> Any:
    """The MCP server over a folder of runs, as `rlclinic mcp` starts it."""
    from rlclinic.runs.store import Store
    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings

    return build(Store(runs), Settings(local=True))


# ── the command line ──

# Who asks, and on what terminal: the audit log names the account, and usage errors are drawn as wide as the terminal.
PLACE = {"LOGNAME": "somebody", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120", "LINES": "40"}


def run_command(*words: str) -> tuple[int, str, str]:
    """`python -m rlclinic WORDS` in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.dict(os.environ, PLACE),
        mock.patch.object(sys, "argv", ["rlclinic", *words]),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            sys.modules.pop("rlclinic.__main__", None)  # another test may have imported it
            runpy.run_module("rlclinic", run_name="__main__", alter_sys=True)
        except SystemExit as leaving:
            code = leaving.code or 0
    return int(code), out.getvalue(), err.getvalue()


def describe_commands() -> dict[str, Any]:
    """Every command with its arguments and options: names, types, defaults, whether required. No words of help."""
    import typer.main

    made: list[Any] = []
    original = typer.main.get_command

    def keep(app: Any) -> Any:
        made.append(original(app))
        return made[-1]

    with mock.patch.object(typer.main, "get_command", keep):
        run_command("--version")
    return dict(_walk_commands(made[0], "rlclinic"))


def _walk_commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    yield (
        path,
        {f"argument {place}": _describe_parameter(each) for place, each in enumerate(arguments, start=1)}
        # By what is typed: the name of the variable behind an option is nobody's business.
        | {" ".join([*each.opts, *(f"/{no}" for no in each.secondary_opts)]): _describe_parameter(each) for each in options},
    )
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _walk_commands(below, f"{path} {name}")


def _describe_parameter(parameter: Any) -> dict[str, Any]:
    default = parameter.default
    about = {
        "type": _describe_type(parameter.type_descriptor),
        "required": parameter.required,
        "many": bool(parameter.multiple) or parameter.nargs != 1,
        "default": default.value if isinstance(default, enum.Enum) else default,
        "at least": parameter.min,
        "at most": parameter.max,
        "variable": parameter.envvar,
        "hidden": parameter.hidden,
    }
    said = {key: value for key, value in about.items() if value is not None and value is not False and value != []}
    return json.loads(json.dumps(said, default=str))


def _describe_type(described: Any) -> Any:
    kind = described.annotation
    parser = getattr(described.parameter_info, "parser", None)
    if parser is not None and parser.__qualname__ != "read_number.<locals>.number":  # a number in every way that people type one
        return "parsed"  # what it reads is in the answers
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return sorted(str(member.value) for member in kind)
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


# ── HTTP ──


def describe_routes(openapi: dict[str, Any]) -> dict[str, Any]:
    """Every route: parameters, body and answers by their fields' names and types; the names of our classes are no part of it."""
    components = openapi["components"]["schemas"]
    routes = {}
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            routes[f"{method.upper()} {path}"] = {
                "parameters": {
                    f"{each['in']} {each['name']}": {"required": each.get("required", False), "type": shape_of(each["schema"], components)}
                    for each in route.get("parameters", [])
                },
                "body": _shape_of_content(route.get("requestBody", {}), components),
                "answers": _join_equal({status: _shape_of_content(answer, components) for status, answer in route["responses"].items()}),
            }
    return routes


def _join_equal(answers: dict[str, Any]) -> dict[str, Any]:
    """Status codes with the same answer under one key: most have that of any error."""
    texts: dict[str, list[str]] = {}
    for status, shape in answers.items():
        texts.setdefault(json.dumps(shape), []).append(status)
    return {" ".join(sorted(codes)): json.loads(text) for text, codes in texts.items()}


def _shape_of_content(part: dict[str, Any], components: dict[str, Any]) -> Any:
    return {mime: shape_of(content.get("schema", {}), components) for mime, content in part.get("content", {}).items()}


LIMITS = (
    *("default", "const", "enum", "pattern", "format", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
)


def shape_of(schema: Any, components: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """A JSON schema with its references written out and without words: {field: type}, where `field*` is required."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "itself" if name in inside else shape_of(components[name], components, (*inside, name))
    below = {key: shape_of(part, components, inside) for key, part in schema.items() if key in ("items", "additionalProperties")}
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if key in schema:
            parts = [shape_of(part, components, inside) for part in schema[key]]
            below["of"] = parts if key == "prefixItems" else sorted(parts, key=lambda part: json.dumps(part, sort_keys=True))
    if "properties" in schema:
        required = schema.get("required", [])
        below["fields"] = {
            name + ("*" if name in required else ""): shape_of(part, components, inside)
            for name, part in sorted(schema["properties"].items())
        }
    below |= {key: schema[key] for key in LIMITS if key in schema}
    kind = schema.get("type")
    return kind if not below and kind else ({"type": kind} if kind and kind != "object" else {}) | below


# ── MCP ──


def ask_mcp(server: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """What a client of the server gets."""
    from mcp import Client

    async def asked() -> Any:
        async with Client(server) as client:
            return await work(client)

    return ran(asked)


def describe_mcp(server: Any) -> dict[str, Any]:
    """Every tool with its arguments, every resource, every prompt; no descriptions."""

    async def listed(client: Any) -> Any:
        return (
            (await client.list_tools()).tools,
            (await client.list_resources()).resources,
            (await client.list_resource_templates()).resource_templates,
            (await client.list_prompts()).prompts,
        )

    tools, resources, templates, prompts = ask_mcp(server, listed)
    return {
        "tools": {
            tool.name: {
                "arguments": shape_of(tool.input_schema, tool.input_schema.get("$defs", {})),
                "answer": shape_of(tool.output_schema, (tool.output_schema or {}).get("$defs", {})),
                "reads only": tool.annotations.read_only_hint,
                "destroys": tool.annotations.destructive_hint,
                "may be repeated": tool.annotations.idempotent_hint,
            }
            for tool in tools
        },
        "resources": {str(each.uri): each.mime_type for each in resources},
        "templates": {each.uri_template: each.mime_type for each in templates},
        "prompts": {each.name: {given.name: bool(given.required) for given in each.arguments or []} for each in prompts},
    }


# ── Python ──


def describe_python() -> dict[str, Any]:
    """The public names of rlclinic and rlclinic.sentinels with their parameters and methods."""
    import rlclinic
    from rlclinic import sentinels

    return {
        "rlclinic": {"names": list(rlclinic.__all__), **_describe_names(rlclinic)},
        "rlclinic.sentinels": {"names": list(sentinels.__all__), **_describe_names(sentinels)},
    }


def _describe_names(module: Any) -> dict[str, Any]:
    return {name: _describe_object(getattr(module, name)) for name in module.__all__ if name != "__version__"}


def _describe_object(thing: Any) -> Any:
    if not inspect.isclass(thing):
        return _describe_signature(thing)
    methods = {
        name: _describe_signature(member) if inspect.isfunction(member) else "property"
        for name, member in sorted(vars(thing).items())
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    return {"made with": _describe_signature(thing.__init__), "methods": methods}


def _describe_signature(function: Any) -> list[str]:
    """Parameters as text, without types: those name classes that users do not import."""
    kept = [each.replace(annotation=inspect.Parameter.empty) for each in inspect.signature(function).parameters.values()]
    return [str(each) for each in kept]
