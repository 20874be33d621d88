"""Somebody who guesses tokens, asks without end, or hopes that a log holds a secret."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.serve.http.security import access
from rlclinic.serve.http.security.access import AccessLog, Patience
from tests.serve.http.conftest import Serve, root, serve, sick  # noqa: F401 — fixtures

API = "/api/v1"


@pytest.fixture
def guarded(sick: Group, serve: Serve) -> TestClient:  # noqa: F811
    return serve(require_token=True)


def add(client: TestClient, scope: str = "write") -> str:
    made: str = client.app.state.context.tokens.add(scope, scope).token  # type: ignore[attr-defined]
    return made


def lines(client: TestClient, root: Path) -> list[dict[str, object]]:  # noqa: F811
    client.__exit__()  # what is not written yet is written at the end
    return [json.loads(line) for line in (root / "@server" / access.FILE).read_text().splitlines()]


def test_whoever_guesses_at_the_login_has_to_wait(guarded: TestClient) -> None:
    token = add(guarded)
    codes = [guarded.post(f"{API}/session", json={"token": f"rlc_{number}"}).status_code for number in range(15)]
    assert codes[: access.FREE_FAILURES] == [401] * access.FREE_FAILURES
    assert codes[-1] == 429
    answer = guarded.post(f"{API}/session", json={"token": token})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert guarded.get(f"/?token={token}", headers={"accept": "text/html"}).status_code == 429


def test_guessed_tokens_of_programs_are_locked_out_and_the_right_one_is_not(guarded: TestClient) -> None:
    token = add(guarded)
    codes = [guarded.get(f"{API}/runs", headers={"authorization": f"Bearer rlc_{number}"}).status_code for number in range(15)]
    assert codes[0] == 401
    assert codes[-1] == 429
    # Others may share the address: nobody can be kept out by somebody else's guesses.
    assert guarded.get(f"{API}/runs", headers={"authorization": f"Bearer {token}"}).status_code == 200


def test_a_mistyped_token_is_forgiven(guarded: TestClient) -> None:
    token = add(guarded)
    for _ in range(3):
        for number in range(5):
            assert guarded.post(f"{API}/session", json={"token": f"rlc_{number}"}).status_code == 401
        assert guarded.post(f"{API}/session", json={"token": token}).status_code == 200
        guarded.cookies.clear()


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, nobody earns another request between two."""
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: 1000.0, time=time.time))


@pytest.mark.usefixtures("no_time_passes")
def test_a_stranger_who_asks_without_end_is_told_to_wait(guarded: TestClient) -> None:
    codes = [guarded.get(f"{API}/health").status_code for _ in range(160)]
    assert codes[0] == 200
    assert codes[-1] == 429


@pytest.mark.usefixtures("no_time_passes")
def test_a_token_that_asks_too_often_is_told_to_wait(guarded: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlclinic.serve.http.security.guard.TOKEN_RATE", (1.0, 20.0))
    known = {"authorization": f"Bearer {add(guarded)}"}
    codes = [guarded.get(f"{API}/runs", headers=known).status_code for _ in range(30)]
    assert codes[0] == 200
    assert codes[-1] == 429


def test_the_log_says_who_asked_for_what_and_holds_no_secret(guarded: TestClient, root: Path) -> None:  # noqa: F811
    token = add(guarded)
    guarded.get(f"{API}/runs?q=hunter2", headers={"authorization": f"Bearer {token}"})
    guarded.post(f"{API}/session", json={"token": "rlc_wrongwrong"})
    guarded.get(f"/?token={token}", headers={"accept": "text/html"})
    guarded.cookies.clear()
    guarded.get(f"/runs/{token}")
    guarded.get(f"{API}/runs", headers={"authorization": "Bearer rlc_alsowrong"})
    seen = lines(guarded, root)
    text = (root / "@server" / access.FILE).read_text()
    assert not [secret for secret in (token, token[4:], "hunter2", "wrongwrong", "alsowrong") if secret in text]
    assert [(line["path"], line["status"], line["name"]) for line in seen][:2] == [
        (f"{API}/runs", 200, "token:write"),
        (f"{API}/session", 401, "nobody"),
    ]
    assert [line.get("why") for line in seen] == [None, "wrong token", None, None, "wrong token"]
    assert (root / "@server" / access.FILE).stat().st_mode & 0o077 == 0


def test_a_path_cannot_forge_a_line_of_the_log(tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "a" / access.FILE)
    log.add("::1", "nobody", "GET", '/x\n{"time": 1}\u202e' + "y" * 5_000, 404, 0.1)
    log.flush()
    (line,) = log.path.read_text().splitlines()
    assert len(line) < 600
    assert "\u202e" not in line


def test_a_flood_is_counted_and_a_log_that_is_full_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_WAITING", 5)
    monkeypatch.setattr(access, "MOST_BYTES", 100)
    log = AccessLog(tmp_path / access.FILE)
    for _ in range(3):
        for _ in range(8):
            log.add("::1", "nobody", "GET", "/", 401, 0.1)
        log.flush()
    written = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [line.get("left_out") for line in written] == [None] * 5 + [3]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_disk_that_cannot_be_written_to_ends_no_request() -> None:
    log = AccessLog(Path("/proc/nobody/access.jsonl"))
    log.add("::1", "nobody", "GET", "/", 401, 0.1)
    log.flush()


def test_addresses_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_ADDRESSES", 10)
    patience = Patience()
    for number in range(100):
        patience.fail(str(number))
        patience.wait_seconds(str(number), (1.0, 1.0))
    assert len(patience._failures) == len(patience._buckets) == 10
