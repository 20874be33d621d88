"""Many who ask for the same slow answer, and some who leave: it is made once, and who would not wait is told when to ask again."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rlclinic.ops.runs.search import outcomes
from rlclinic.runs.database.index import Index
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.http import peers
from rlclinic.serve.http.cache import Answers
from rlclinic.serve.http.peers import PeerTable
from rlclinic.serve.http.routes import diagnose
from tests.serve.http.conftest import Serve, root, serve, sick  # noqa: F401 — fixtures
from tests.serve.mcp.stores import ran

ANOTHER_WORKER = """
import sys
from pathlib import Path
from rlclinic.runs.database.index import Index
from rlclinic.runs.store import Store
from rlclinic.serve.http.cache import Answers

answers = Answers(Index(Store(Path(sys.argv[1]))))
assert answers._claims.take(repr("kept")) and answers._claims.take(repr("killed"))
print("claimed", flush=True)
input()
answers._index.keep(repr("kept"), answers._mark("as it is"), b"made elsewhere")
answers._claims.give_back(repr("kept"))
print("kept", flush=True)
input()
"""


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


def test_of_two_workers_one_makes_an_answer_and_a_killed_one_leaves_it_to_the_other(root: Path) -> None:  # noqa: F811
    root.mkdir()
    made: list[str] = []
    command = [sys.executable, "-c", ANOTHER_WORKER, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin
        assert worker.stdout
        assert worker.stdout.readline() == "claimed\n"
        answers = Answers(Index(Store(root)))

        def make() -> bytes:
            made.append("here")
            return b"made here"

        async def ask() -> tuple[bytes, bytes]:
            assert worker.stdin
            assert worker.stdout
            kept, killed = (asyncio.create_task(answers.get(key, "as it is", make, keep=True, heavy=True)) for key in ("kept", "killed"))
            await asyncio.sleep(0.2)
            assert not kept.done()
            assert not killed.done()
            assert not made
            print(file=worker.stdin, flush=True)
            assert worker.stdout.readline() == "kept\n"
            first = await asyncio.wait_for(kept, 5)
            assert not killed.done()
            assert not made
            worker.kill()
            return first.body, (await asyncio.wait_for(killed, 5)).body

        assert ran(ask) == (b"made elsewhere", b"made here")
    assert made == ["here"]


def test_what_people_wait_for_at_another_worker_is_made_by_an_idle_one(
    sick: Group,  # noqa: F811
    serve: Serve,  # noqa: F811
    root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client: TestClient = serve()
    wanted = root / "@index" / "wanted"
    wanted.mkdir()
    (wanted / "no-such-group").touch()
    (wanted / sick.id).touch()
    until = time.monotonic() + 20
    while list(wanted.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(wanted.iterdir()) == []
    monkeypatch.setattr(diagnose, "_diagnose", lambda *_: pytest.fail("it was not made"))
    assert client.get(f"/api/v1/groups/{sick.id}/diagnosis").status_code == 200


def test_a_hundred_who_ask_at_once_have_the_other_groups_read_once(
    sick: Group,  # noqa: F811
    root: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, read = Index(Store(root)), []
    index.refresh()

    def slowly(*asked: Any) -> Any:
        read.append(asked)
        time.sleep(0.2)
        return outcomes(*asked)

    monkeypatch.setattr(peers, "outcomes", slowly)
    table = PeerTable(index)

    async def ask() -> list[peers.Peers]:
        return await asyncio.gather(*(table.of(sick.env_id, sick.algo) for _ in range(100)))

    assert len({id(answer) for answer in ran(ask)}) == len(read) == 1
