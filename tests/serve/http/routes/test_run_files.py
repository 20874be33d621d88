"""Films and evaluations: made by a process of their own, few at a time, found again instead of made twice."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.serve.http.routes import runs

API = "/api/v1"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have recorded an episode; each leaves a film."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        Path(command[command.index("--video") + 1]).write_bytes(b"GIF89a")
        return subprocess.CompletedProcess(command, 0, "{}", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_film_is_recorded_once_and_fetched(client: TestClient, sick: Group, recorded: list[list[str]]) -> None:
    run = sick.runs[0].id
    assert client.get(f"{API}/runs/{run}/videos").json()["films"] == []
    made = client.post(f"{API}/runs/{run}/videos", json={}).json()
    assert (made["step"], made["file"]) == (10_240, "10240.gif")
    assert client.post(f"{API}/runs/{run}/videos", json={"checkpoint": "10240"}).json() == made
    assert len(recorded) == 1
    assert f"{run}@10240" in recorded[0]
    film = client.get(f"{API}/runs/{run}/videos/10240.gif")
    assert (film.headers["content-type"], film.content) == ("image/gif", b"GIF89a")
    assert client.get(f"{API}/runs/{run}/videos/7.gif").status_code == 404


def test_an_environment_that_does_not_render_is_said_so(client: TestClient, sick: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 2, "", "this environment does not render")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    answer = client.post(f"{API}/runs/{sick.runs[0].id}/videos", json={})
    assert answer.status_code == 409
    assert "does not render" in answer.json()["detail"]


def test_a_checkpoint_that_is_not_there_is_said_so(client: TestClient, sick: Group, recorded: list[list[str]]) -> None:
    answer = client.post(f"{API}/runs/{sick.runs[0].id}/videos", json={"checkpoint": "7"})
    assert answer.status_code == 404
    assert "10240" in answer.json()["detail"]
    assert recorded == []


def test_metrics_are_drawn_as_a_picture(client: TestClient, sick: Group) -> None:
    picture = client.get(f"{API}/plot.png", params={"of": [sick.id], "names": ["kl_divergence"]})
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG")
    assert client.get(f"{API}/plot.png", params={"of": ["nosuch"]}).status_code == 404


def test_only_a_few_processes_are_started_by_requests(client: TestClient, sick: Group, recorded: list[list[str]]) -> None:
    run = sick.runs[0].id
    for _ in range(runs.MOST_PROCESSES):
        assert runs._processes.acquire(blocking=False)
    try:
        assert client.post(f"{API}/runs/{run}/videos", json={}).status_code == 409
        assert client.post(f"{API}/runs/{run}/evaluations", json={}).status_code == 409
    finally:
        for _ in range(runs.MOST_PROCESSES):
            runs._processes.release()
    assert client.post(f"{API}/runs/{run}/videos", json={}).status_code == 201
