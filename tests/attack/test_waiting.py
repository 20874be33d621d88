"""Many who ask for the same slow answer, and some who leave: it is made once, and who would not wait is told when to ask again."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.serve.http.routes import diagnose
from tests.serve.http.conftest import Serve, root, serve, sick  # noqa: F401 — fixtures


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every diagnosis that is made, which takes two seconds each."""
    names: list[str] = []
    plain = diagnose._diagnose

    def slowly(owner: Any, *others: Any) -> Any:
        names.append(owner.id)
        time.sleep(2.0)
        return plain(owner, *others)

    monkeypatch.setattr(diagnose, "_diagnose", slowly)
    return names


def test_who_would_not_wait_is_told_when_to_ask_again_and_it_is_made_once(sick: Group, serve: Serve, made: list[str]) -> None:  # noqa: F811
    client: TestClient = serve()
    path = f"/api/v1/groups/{sick.id}/diagnosis"
    began = time.monotonic()
    early = client.get(path, headers={"prefer": "wait=1"})
    assert time.monotonic() - began < 1.9
    assert (early.status_code, early.json()["state"]) == (202, "being made")
    assert int(early.headers["retry-after"]) >= 1
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.get(path), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert made == [sick.id]
    assert client.get(path, headers={"prefer": "wait=1"}).status_code == 200


def test_a_hundred_thousand_askers_cannot_make_the_queue_longer(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    made: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rlclinic.serve.http.cache.MOST_PENDING", 1)
    client: TestClient = serve()
    first = threading.Thread(target=client.get, args=(f"/api/v1/runs/{sick.runs[0].id}/diagnosis",))
    first.start()
    while not made:
        time.sleep(0.01)
    began = time.monotonic()
    answer = client.get(f"/api/v1/runs/{sick.runs[1].id}/diagnosis", headers={"prefer": "wait=9"})
    assert (answer.status_code, time.monotonic() - began < 1.5) == (202, True)
    first.join()
    assert made == [sick.runs[0].id]


def test_a_failure_is_told_to_all_who_wait_and_tried_again_later(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rlclinic.errors import RunError

    client: TestClient = serve()
    plain = diagnose._diagnose

    def fail(*_: Any) -> Any:
        time.sleep(0.5)
        raise RunError("the disk is on fire")

    monkeypatch.setattr(diagnose, "_diagnose", fail)
    path = f"/api/v1/groups/{sick.id}/diagnosis"
    with ThreadPoolExecutor(3) as pool:
        assert [answer.status_code for answer in pool.map(lambda _: client.get(path), range(3))] == [409] * 3
    monkeypatch.setattr(diagnose, "_diagnose", plain)
    assert client.get(path).status_code == 200
