"""A real client over stdio, and over HTTP with a token: the same tools, and what a token may not do is refused."""

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from rlclinic.ops.jobs import audit, budget, start
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.mcp import server
from rlclinic.serve.mcp.settings import Settings as AgentSettings
from tests.serve.mcp.stores import ask, call, ran, read

READ = {"diagnose_run", "get_run_info", "get_run_metrics", "get_run_logs", "get_training_status", "list_checkpoints", "compare_runs"}
START = {"start_training", "start_trial", "adopt", "stop_training"}


def stdio(*options: str) -> StdioServerParameters:
    command = ["-m", "rlclinic", "mcp", "--runs-dir", "runs", *options]
    return StdioServerParameters(command=sys.executable, args=command, env={**os.environ}, cwd=Path.cwd())


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_over_stdio_finds_the_tools_and_gets_a_diagnosis(mode: Any) -> None:
    async def talk() -> None:
        async with Client(stdio(), mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= READ | START
            answer = await ask(client, "diagnose_run", run_id="high")
            assert "policy step too large" in answer.text
            assert {prompt.name for prompt in (await client.list_prompts()).prompts} >= {"rl-run-debugger", "rl-training-optimizer"}
            prompt = await client.get_prompt("rl-run-debugger", {"run_id": "high"})
            assert "The run or group to look at: high" in prompt.messages[0].content.text

    ran(talk)


def test_the_command_sets_the_budget_and_says_what_the_server_may_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(server, "serve_stdio", lambda store, settings: served.append((store.root, settings)))
    options = ["--read-only", "--allow-path", str(tmp_path), "--budget-env-steps", "2M", "--budget-wall", "90min"]
    result = CliRunner().invoke(app, ["mcp", *options, "--runs-dir", str(tmp_path / "runs")])
    assert result.exit_code == 0, result.output
    root, settings = served[0]
    assert (settings.read_only, settings.allowed_paths) == (True, (tmp_path,))
    found = budget.get_budget(root)
    assert (found.env_steps, found.wall_seconds) == (2_000_000, 5_400.0)


# ── over HTTP ──


@contextmanager
def served(root: Path, **settings: Any) -> Iterator[str]:
    """The app on a free port, in a thread."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(create_app(Store(root), Settings(require_token=True, **settings)), port=port, log_level="error")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.should_exit = True
        thread.join()


def over_http(url: str, token: str | None, talk: Any) -> Any:
    async def connected() -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers) as http, Client(streamable_http_client(url, http_client=http)) as client:
            return await talk(client)

    return ran(connected)


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.usefixtures("recorded")
def test_over_http_a_token_is_needed_and_reading_is_the_default() -> None:
    token = Tokens(Settings().tokens_path(Path("runs"))).add("lab", "read").token
    with served(Path("runs")) as url:
        found = over_http(url, token, names)
        assert found >= READ
        assert not START & found
        assert "HEALTHY" in over_http(url, token, lambda client: ask(client, "diagnose_run", run_id="fine")).text
        assert "names a file" in over_http(url, token, lambda client: ask(client, "diagnose_run", run_id="logs/ppo")).text
        for wrong in (None, "not-a-token"):
            with pytest.raises((MCPError, ExceptionGroup)):
                over_http(url, wrong, names)


@pytest.mark.usefixtures("recorded")
def test_where_the_operator_allows_it_a_write_token_starts_and_a_read_token_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens(Settings().tokens_path(Path("runs")))
    writer, reader = tokens.add("night-shift", "write").token, tokens.add("visitor", "read").token
    budget.set_budget(Path("runs"), env_steps=2_000_000)
    monkeypatch.setattr(start, "_spawn", lambda store, job: job)
    asked = {"config_id": "CartPole-v1:ppo_zoo", "max_env_steps": 2_000, "idempotency_key": "k"}
    with served(Path("runs"), mcp_write=True) as url:
        started = over_http(url, writer, lambda client: ask(client, "start_training", **asked))
        assert not started.error, started.text
        refused = over_http(url, reader, lambda client: ask(client, "start_training", **asked))
    assert refused.error
    assert "may read only" in refused.text
    line = audit.audit_log(Path("runs")).lines[0]
    assert (line.action, line.face, line.name) == ("start", "mcp", "token:night-shift")


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", ["progress.csv", "logs", "secret.yaml", "secret.yaml:ppo", "./secret.yaml:ppo", "git:HEAD:secret.yaml"])
def test_from_elsewhere_no_file_of_the_working_folder_is_read(name: str) -> None:
    Path("progress.csv").write_text("time/total_timesteps,rollout/ep_rew_mean\n100,1\n200,2\n")
    Path("secret.yaml").write_text("spec: {threshold: 1}\nppo: {env: {id: CartPole-v1}, algo: {name: ppo}, hunter2: 1}\n")
    far = AgentSettings()
    for tool, arguments in (
        ("diagnose_run", {"run_id": name}),
        ("get_training_status", {"run_id": name}),
        ("prescribe", {"run_id": name}),
        ("compare_runs", {"run_ids": ["fine", name]}),
        ("validate_config", {"config_id": name}),
        ("start_training", {"config_id": name}),
        ("start_trial", {"run_id": [name, "fine"]}),
        ("start_sensitivity", {"run_id": name}),
        ("import_run", {"path": name}),
    ):
        answer = call(tool, settings=far, **arguments)
        assert answer.error, (tool, answer.text)
        assert "names a file" in answer.text, (tool, answer.text)
        assert "hunter2" not in answer.text


@pytest.mark.usefixtures("recorded")
def test_from_elsewhere_links_that_lead_out_of_the_store_are_not_followed(tmp_path: Path) -> None:
    far, secret = AgentSettings(), tmp_path / "secret"
    shutil.copytree("runs/fine-s0", secret)
    (secret / "run.log").write_text("hunter2\n")
    linked = Path("runs/linked")
    linked.symlink_to(secret)
    try:
        assert "hunter2" in call("get_run_logs", run_id="linked").text  # whoever may type here may read there
        for tool, key in (("get_run_logs", "run_id"), ("get_run_info", "run_id"), ("diagnose_run", "run_id"), ("wait_for_run", "run_id")):
            answer = call(tool, settings=far, **{key: "linked"})
            assert answer.error, tool
            assert "it is not followed" in answer.text
        assert call("compare_runs", settings=far, run_ids=["fine", "linked"]).error
        assert "linked" not in call("list_runs", settings=far, limit=100).text
        with pytest.raises(LookupError, match="not followed"):
            read("rl://runs/linked/config", far)
    finally:
        linked.unlink()
