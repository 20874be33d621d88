"""What probes ask: open to all, quick, and telling no stranger why."""

import time
from pathlib import Path

import pytest

from rlclinic.runs.database import connections
from rlclinic.serve.http.routes import health
from tests.serve.http.conftest import Serve

DOWN = "postgresql://clinic:sesame@127.0.0.1:9/clinic"


def test_a_probe_without_a_token_learns_whether_the_server_can_work(serve: Serve, root: Path) -> None:
    root.mkdir()
    client = serve(require_token=True)
    assert client.get("/api/v1/runs").status_code == 401
    assert client.get("/api/v1/health").json()["status"] == "ok"
    answer = client.get("/api/v1/ready")
    assert (answer.status_code, answer.json()["status"], answer.json()["runs"], answer.json()["queue"]) == (200, "ok", True, True)


def test_a_folder_of_runs_that_is_gone_is_no_folder_to_work_in(serve: Serve, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "KEEP_SECONDS", 0.0)
    root.mkdir()
    client = serve()
    assert client.get("/api/v1/ready").status_code == 200
    root.rename(root.with_name("elsewhere"))
    answer = client.get("/api/v1/ready")
    assert (answer.status_code, answer.json()["status"], answer.json()["runs"]) == (503, "not ready", False)
    assert str(root) not in answer.text


def test_without_the_queue_runs_can_still_be_looked_at_and_no_stranger_learns_where_it_is(
    serve: Serve, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir()
    client = serve(read_only=True)
    monkeypatch.setenv(connections.VARIABLE, DOWN)
    answer = client.get("/api/v1/ready")
    assert (answer.status_code, answer.json()["queue"]) == (200, False)
    assert "127.0.0.1" not in answer.text
    assert "sesame" not in answer.text


def test_many_probes_ask_the_database_once(serve: Serve, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir()
    client = serve()
    asked: list[float] = []
    monkeypatch.setattr("rlclinic.ops.jobs.database.answers", lambda store: bool(asked.append(time.monotonic()) or True))
    monkeypatch.setattr(health, "KEEP_SECONDS", 60.0)
    assert [client.get("/api/v1/ready").status_code for _ in range(5)] == [200] * 5
    assert len(asked) == 1
