"""Working ahead: groups that have ended are diagnosed before anybody asks; groups that train are not."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlclinic.runs.record import Group
from rlclinic.serve.http import cache, prefetch
from rlclinic.serve.http.peers import PeerTable
from rlclinic.serve.http.routes import diagnose
from tests.ops.recorded import flat, record_group, rising
from tests.serve.http.conftest import Serve
from tests.serve.http.processes import wait_for


def kept(client: TestClient) -> list[str]:
    with client.app.state.context.index.connection() as connection:  # type: ignore[attr-defined]
        return [str(key) for (key,) in connection.exec_driver_sql("select key from answer")]


def test_groups_that_have_ended_are_diagnosed_ahead(sick: Group, root: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(cache, "LONG_SECONDS", 0.0)
    training = record_group(root, state="running", share_done=0.5)
    damaged = record_group(root)
    (damaged.runs[0].path / "config.json").unlink()
    client = serve(prepare=True)
    wait_for(lambda: any(sick.id in key for key in kept(client)))
    monkeypatch.setattr(diagnose, "_diagnose", lambda *_: pytest.fail("it was not prepared"))
    assert client.get(f"/api/v1/groups/{sick.id}/diagnosis").status_code == 200
    assert not any(training.id in key for key in kept(client))


def test_a_diagnosis_is_made_again_when_a_better_group_has_come(
    client: TestClient, sick: Group, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlclinic.serve.http.peers.SECONDS", 0.0)
    assert client.get(f"/api/v1/groups/{sick.id}/diagnosis").json()["comparable"] is None
    better = record_group(root, returns=rising)
    client.app.state.context.watch.look()  # type: ignore[attr-defined]
    found = client.get(f"/api/v1/groups/{sick.id}/diagnosis").json()["comparable"]
    assert found["group"] == better.id


def test_peers_are_what_looking_through_the_store_finds(client: TestClient, sick: Group, root: Path) -> None:
    from rlclinic.ops.diagnose import best_group
    from rlclinic.ops.runs import ranking

    record_group(root, returns=flat)
    record_group(root, returns=rising)
    here = client.app.state.context  # type: ignore[attr-defined]
    here.watch.look()
    peers = PeerTable(here.index)._read("CartPole-v1", "ppo")
    by_index = best_group.best_of(Group(sick.path), peers.outcomes)
    by_folders = best_group.best_of(Group(sick.path), [ranking.outcome(group) for group in best_group.candidates(Group(sick.path))])
    assert by_index is not None
    assert by_folders is not None
    assert (by_index.group.id, by_index.rank) == (by_folders.group.id, by_folders.rank)
