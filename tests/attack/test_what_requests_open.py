"""Requests that would open files through an environment's arguments, and a store on a disk that cannot be written to."""

import errno
import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http.security import requests
from rlclinic.serve.http.security.tokens import KEY, Tokens
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.mcp.settings import Settings as AgentSettings
from tests.serve.http.conftest import Serve, root, serve, sick  # noqa: F401 — fixtures
from tests.serve.mcp.stores import call

API = "/api/v1"


@pytest.mark.parametrize("value", ["/etc/passwd", "ant.xml", "../x", "~/x", '["/etc/passwd"]', '{"a": "/etc/passwd"}', "a b", "setup"])
def test_an_argument_of_an_environment_names_no_file(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "setup").write_text("")
    client: TestClient = serve()
    for ref in ("CartPole-v1:ppo", sick.id):
        body = {"ref": ref, "changes": [f"env.kwargs={{xml_file: {value}}}"]}
        for path in ("config/validate", "trainings"):
            answer = client.post(f"{API}/{path}", json=body)
            assert answer.status_code == 400, (path, answer.text)
            assert "could name a file" in answer.json()["detail"]
    assert len(Store(sick.path.parent.parent).groups()) == 1


@pytest.mark.parametrize("value", ["/etc/passwd", "secret.csv", "../secret.csv", "~/secret.npz", "no-such-data"])
def test_recorded_data_that_a_request_names_is_no_file_of_this_machine(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("obs_0,action,reward,terminated\n1,0,1,1\n")
    client: TestClient = serve()
    bodies = [{"ref": "CartPole-v1:bc", "data": value}, {"ref": sick.id, "changes": ["algo.name=bc", f"data.path={value}"]}]
    told = [client.post(f"{API}/trainings", json=body) for body in bodies]
    told.append(client.post(f"{API}/config/validate", json=bodies[1]))
    assert [answer.status_code for answer in told] == [400] * 3, [answer.text for answer in told]
    assert all("names a file" in answer.json()["detail"] for answer in told)
    assert len(Store(sick.path.parent.parent).groups()) == 1


@pytest.mark.parametrize("tool", ["start_training", "validate_config"])
def test_an_agent_names_recorded_data_of_the_project_and_no_other(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = call(tool, AgentSettings(local=True), config_id="CartPole-v1:bc", overrides={"data.path": "/etc/passwd"})
    assert answer.error
    assert "outside of the folders that this server may read" in answer.text
    assert "root:" not in answer.text


def test_data_in_the_store_may_be_named(sick: Group, root: Path) -> None:  # noqa: F811
    (root / "@data").mkdir()
    (root / "@data" / "mine.csv").write_text("obs_0,action,reward,terminated\n1,0,1,1\n")
    assert requests.safe(Store(root), sick.id, ["algo.name=bc", f"data.path={root / '@data' / 'mine.csv'}"]) == sick.id


@pytest.mark.parametrize("value", ["{sutton_barto_reward: true}", "{map_name: 4x4}", "{length: 12, spread: [0.5, 1]}"])
def test_numbers_and_names_are_taken(sick: Group, root: Path, value: str) -> None:  # noqa: F811
    assert requests.safe(Store(root), sick.id, [f"env.kwargs={value}"]) == sick.id


def test_a_store_that_cannot_be_written_to_is_served_for_reading(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    root: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    plain, opened = Path.mkdir, os.open

    def refuse(path: Path, *args: object, **options: object) -> None:
        if path.is_relative_to(root) and not path.exists():
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        plain(path, *args, **options)  # type: ignore[arg-type]

    def refuse_to_open(path: object, flags: int, *more: object, **options: object) -> int:
        if flags & os.O_CREAT and Path(str(path)).is_relative_to(root):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return opened(path, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(os, "open", refuse_to_open)
    monkeypatch.setenv(KEY, "")  # so that it is taken back at the end
    monkeypatch.delenv(KEY)
    before = sorted(path for path in root.rglob("*"))
    tokens = Tokens(Settings().tokens_path(root))
    tokens.prepare()
    assert tokens.csrf("a") == Tokens(Settings().tokens_path(root)).csrf("a")
    client: TestClient = serve(read_only=True)
    assert client.get(f"{API}/groups").json()["total"] == 1
    assert client.get(f"{API}/groups/{sick.id}/diagnosis").status_code == 200
    assert client.get(f"{API}/groups/{sick.id}/diagnosis").status_code == 200
    assert sorted(path for path in root.rglob("*")) == before
