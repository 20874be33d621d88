"""`rlclinic serve` and `rlclinic db` as they are typed."""

import json
import re
import socket
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.serve.http import start
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import Settings
from tests.ops.recorded import record_group


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLCLINIC_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def rlclinic(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(root: Path) -> None:
    code, secret, said = rlclinic("serve", "token", "add", "ci", "--scope", "write")
    assert code == 0
    assert secret.startswith("rlc_")
    assert "only its hash" in said
    code, listed, _ = rlclinic("serve", "token", "list", "--json")
    assert [(row["name"], row["scope"]) for row in json.loads(listed)["tokens"]] == [("ci", "write")]
    assert secret.strip() not in listed
    assert rlclinic("serve", "token", "list")[1].split()[:2] == ["ci", "write"]
    assert rlclinic("serve", "token", "revoke", "nobody")[0] == 3
    assert rlclinic("serve", "token", "revoke", "ci")[0] == 0
    assert json.loads(rlclinic("serve", "token", "list", "--json")[1])["tokens"] == []


def test_a_token_is_taken_from_a_file_as_often_as_a_cluster_likes(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a" * 40 + "\n")
    take = ("serve", "token", "add", "admin", "--scope", "write", "--from", str(file))
    code, shown, _ = rlclinic(*take)
    assert (code, shown) == (0, ""), "whoever reads the log of a container must not learn it"
    tokens = Tokens(root / "@server" / "tokens.json")
    first = tokens.path.read_text()
    assert "a" * 40 not in first
    assert rlclinic(*take)[0] == 0
    assert tokens.path.read_text() == first
    file.write_text("b" * 40)
    assert rlclinic(*take)[0] == 0
    assert tokens.verify("a" * 40) is None
    assert tokens.verify("b" * 40) is not None
    file.write_text("short")
    code, _, said = rlclinic(*take)
    assert (code, "guessed" in said) == (2, True)
    assert rlclinic(*take[:-1], str(tmp_path / "nowhere"))[0] == 2
    assert tokens.verify("b" * 40) is not None


def test_an_address_that_others_reach_is_not_served_without_a_token(root: Path) -> None:
    code, _, said = rlclinic("serve", "--host", "0.0.0.0")
    assert code == 2
    assert "rlclinic serve token add" in said
    assert "serving" not in said


def test_a_port_that_is_taken_is_said_so(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, said = rlclinic("serve", "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "rlclinic serve --port" in said


def test_the_link_is_printed_once_the_address_answers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[int] = []

    def say(text: str) -> None:
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", text)[0])
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            connected.append(port)

    monkeypatch.setattr(start, "run", lambda config, listening: [listener.close() for listener in listening])
    monkeypatch.setenv(start.ENVIRONMENT, "")
    start.serve(Store(root), Settings(port=0), say=say)
    assert [port > 0 for port in connected] == [True], "port 0 is whatever is free: the link has the one that was taken"


def test_flags_reach_the_workers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[uvicorn.Config] = []

    def note(config: uvicorn.Config, listening: list[socket.socket]) -> None:
        started.append(config)
        for listener in listening:
            listener.close()

    monkeypatch.setattr(start, "run", note)
    monkeypatch.setenv(start.ENVIRONMENT, "")
    code, _, _ = rlclinic("serve", "--port", "0", "--read-only", "--allow-host", "box", "--workers", "3", "--no-mcp", "--no-prepare")
    assert code == 0
    (config,) = started
    assert (config.workers, config.host, config.proxy_headers) == (3, "127.0.0.1", False)
    made = start.from_environment()
    settings: Settings = made.state.context.settings
    assert (settings.read_only, settings.allow_hosts, settings.mcp, settings.prepare) == (True, ("box",), False, False)
    assert config.app == "rlclinic.serve.http.start:from_environment"


def test_the_index_is_rebuilt_and_looked_at(root: Path) -> None:
    record_group(root)
    code, text, _ = rlclinic("db", "reindex")
    assert code == 0
    assert text.startswith("3 runs in 1 groups")
    record_group(root)
    found = json.loads(rlclinic("db", "status", "--json")[1])
    assert (found["runs"], found["groups"], found["behind"]) == (6, 2, 3)


def test_what_is_missing_is_named_with_what_to_type(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "fastapi" else object())
    code, _, said = rlclinic("serve")
    assert code == 2
    assert "pip install 'rlclinic[server]'" in said
