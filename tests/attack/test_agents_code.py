"""What an agent or a request may have run: nothing outside of what the operator allowed, and nothing at all in read-only."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from starlette.testclient import TestClient

from docs.generate import questions
from rlclinic.runs.store import Store
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings as ServerSettings
from rlclinic.serve.mcp.server import build
from rlclinic.serve.mcp.settings import Settings
from tests.attack.planted import Planted, plant
from tests.serve.mcp.stores import Answer, call, ran

YAML = "ppo:\n  env: {{id: '{env}', n_envs: 2}}\n  algo: {{name: ppo}}\n"
PLAUSIBLE = {"run_id": "fine", "config_id": "CartPole-v1:ppo", "trial_id": "none", "study_id": "none", "question": "why", "rule": "POL101"}


@pytest.fixture(scope="module")
def recorded() -> Iterator[Path]:
    with questions.store() as folder:
        yield folder


def values(schema: dict[str, Any], name: str, planted: Planted) -> list[Any]:
    """What a stranger would give for one argument."""
    kinds = json.dumps(schema)
    changes: list[Any] = [{"env.id": planted.env}, [f"env.id={planted.env}"], {"env.wrappers": [{"id": f"{planted.file}:Wrapper"}]}]
    if name == "overrides":
        return [*changes, {"env.id": "os:system", "env.kwargs": {"command": f"touch {planted.mark}"}}]
    texts = [planted.env, str(planted.file), "hostile.yaml", f"{planted.file.stem}:Env", f"{planted.file.name}:Env"]
    return [[text] for text in texts] if '"array"' in kinds else texts if '"string"' in kinds else [True]


def calls(tools: list[Any], planted: Planted) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool with a hostile value in each of its arguments in turn; switches on, so that no branch is left out."""
    for tool in tools:
        known = tool.input_schema["properties"]
        needed = {
            name: PLAUSIBLE.get(name, ["fine"] if '"array"' in json.dumps(known[name]) else "fine")
            for name in tool.input_schema.get("required", [])
        }
        switches = {name: True for name, schema in known.items() if schema.get("type") == "boolean" and name != "wait"}
        limits = {name: 0.1 for name in known if name in ("timeout_seconds", "max_wait_seconds", "timeout")}
        for name, schema in known.items():
            if schema.get("type") == "boolean":
                continue
            for value in values(schema, name, planted):
                yield tool.name, {**needed, **limits, **switches, name: value}


def walk(settings: Settings, planted: Planted) -> tuple[int, int]:
    """How many calls were made, and how many of them were answered rather than refused."""

    async def asked() -> tuple[int, int]:
        made = answered = 0
        async with Client(build(Store("runs"), settings)) as client:
            for tool, arguments in calls((await client.list_tools()).tools, planted):
                answer = Answer(await client.call_tool(tool, arguments))
                answered += not answer.error
                assert "Field required" not in answer.text, (tool, answer.text)
                assert not planted.was_run, (tool, arguments)
                made += 1
        return made, answered

    counts: tuple[int, int] = ran(asked)
    return counts


@pytest.mark.usefixtures("recorded")
def test_no_tool_and_no_argument_runs_code_in_read_only(recorded: Path) -> None:
    planted = plant(recorded)  # in the working folder, where code may lie
    Path("hostile.yaml").write_text(YAML.format(env=planted.env))
    made, answered = walk(Settings(local=True, read_only=True), planted)
    assert made > 100
    assert answered > 10


@pytest.mark.usefixtures("recorded")
def test_an_agent_that_may_write_runs_no_code_outside_of_the_allowed_folders(planted: Planted) -> None:
    Path("hostile.yaml").write_text(YAML.format(env=planted.env))
    for arguments in (
        {"config_id": planted.env},
        {"config_id": "hostile.yaml"},
        {"config_id": "CartPole-v1:ppo", "overrides": {"env.id": planted.env}},
        {"config_id": "CartPole-v1:ppo", "overrides": {"env.wrappers": [{"id": f"{planted.file}:Wrapper"}]}},
        {"config_id": "CartPole-v1:ppo", "overrides": {"env.id": "os:system", "env.kwargs": {"command": f"touch {planted.mark}"}}},
        {"config_id": "CartPole-v1:ppo", "overrides": {"algo.name": "dagger", "algo.expert": planted.env}},
        {"config_id": "CartPole-v1:ppo", "overrides": {"algo.name": "dagger", "algo.expert": f"command: touch {planted.mark}"}},
    ):
        answer = call("start_training", Settings(local=True), **arguments, max_env_steps=512)
        assert answer.error, arguments
        assert "code is run" in answer.text or "folders" in answer.text
    seen = call("describe_environment", Settings(local=True), env_id=planted.env, examine=True)
    assert seen.error
    assert not planted.was_run


@pytest.mark.usefixtures("recorded")
def test_an_agent_may_look_at_an_environment_of_the_project_and_of_an_allowed_folder(recorded: Path, planted: Planted) -> None:
    own = plant(recorded, "own")
    for env, settings in ((own.env, Settings(local=True)), (planted.env, Settings(local=True, allowed_paths=(planted.file.parent,)))):
        seen = call("describe_environment", settings, env_id=env, examine=True)
        assert not seen.error, seen.text
    assert own.was_run
    assert planted.was_run


@pytest.mark.parametrize("read_only", [True, False])
def test_no_route_and_no_field_runs_code_that_a_request_names(
    recorded: Path, planted: Planted, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen.__init__

    def start_no_training(process: Any, command: Any, *more: Any, **options: Any) -> None:
        # A request that is in order may start a training, which nobody here would wait for.
        if any("rlclinic" in str(word) and "examine" not in str(word) for word in command):
            raise OSError("no trainings in this test")
        start(process, command, *more, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", start_no_training)
    Path("hostile.yaml").write_text(YAML.format(env=planted.env))
    settings = ServerSettings(read_only=read_only, mcp=False, prepare=False, no_token=True)
    with TestClient(create_app(Store("runs"), settings), base_url="http://localhost", raise_server_exceptions=False) as client:
        described = client.get("/api/v1/openapi.json").json()
        made = 0
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                if "events" in path:
                    continue
                # Where nothing is run at all, a second way to name the same code says nothing more.
                for url, body in requests(path, operation, described, [planted.env] if read_only else [planted.env, "hostile.yaml"]):
                    client.request(method, url, json=body)
                    assert not planted.was_run, (method, url, body)
                    made += 1
    assert made > 60


def requests(path: str, operation: dict[str, Any], described: dict[str, Any], texts: list[str]) -> Iterator[tuple[str, Any]]:
    """A route with a hostile value in each of its places in turn."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    model = described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    plain = "/".join("fine" if part.startswith("{") else part for part in path.split("/"))
    for text in texts:
        if "{" in path:
            yield "/".join(text.replace("/", "%2F") if part.startswith("{") else part for part in path.split("/")), {}
        for name in model.get("properties", {}):
            yield plain, {**dict.fromkeys(model.get("required", []), "CartPole-v1:ppo"), name: text}
            yield plain, {**dict.fromkeys(model.get("required", []), "CartPole-v1:ppo"), name: [f"env.id={text}"]}
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query":
                yield f"{plain}?{parameter['name']}={text}", None
