"""`kill -9` of the server at any moment: runs, rows and trainings do not notice."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.ops.jobs import models
from rlclinic.ops.runs import search
from rlclinic.ops.train.machine import usable_cores
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group
from tests.serve.http.processes import Server, wait_for


@pytest.mark.slow
def test_trainings_outlive_a_killed_server_and_the_next_one_finds_them(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    before = record_group(root)
    asked = {"ref": "CartPole-v1:ppo_zoo", "seeds": 2, "max_env_steps": 8_000, "changes": ["run.threads=1"]}
    with Server(root) as server:
        status, job = server.ask("POST", "/api/v1/trainings", asked, **{"Idempotency-Key": "night-1"})
        assert status == 202
        group = Store(root).group(job["refers"])
        server.kill()
    wait_for(lambda: all(run.status.state == "running" and len(run.metrics) for run in group.runs) or not group.live)
    rows = {run.id: run.metrics.values[: len(run.metrics)].copy() for run in group.runs}
    with Server(root) as server:
        assert server.ask("POST", "/api/v1/trainings", asked, **{"Idempotency-Key": "night-1"})[1]["refers"] == group.id
        wait_for(lambda: not group.live)
        status, listed = server.ask("GET", "/api/v1/groups?trials=true")
        wait_for(lambda: _state(server, group.id) == "finished")
        server.kill()
    assert status == 200
    assert {item["id"] for item in listed["items"]} == {group.id, before.id}
    assert [run.status.env_steps >= 8_000 for run in group.runs] == [True, True]
    for run in group.runs:
        kept = run.metrics.values[: len(rows[run.id])]
        assert kept.tobytes() == rows[run.id].tobytes()


def _state(server: Server, id: str) -> str:
    found = server.ask("GET", f"/api/v1/groups?q={id}")[1]["items"]
    return str(found[0]["state"]) if found else ""


def test_a_kill_while_the_index_is_written_leaves_one_that_can_be_used(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    record_group(root)
    with_index = search.reindex(root)
    record_group(root)
    code = f"""
import os, signal
from pathlib import Path

import pytest
from rlclinic.runs import store
from rlclinic.runs.database import index, index_rows
index_rows.group_row = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # in the middle of the transaction
index.Index(store.Store(Path({str(root)!r}))).refresh()
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (with_index.runs, search.reindex(root, full=False).runs) == (3, 6)


@pytest.mark.slow
def test_workers_end_with_a_killed_parent_and_free_the_port(tmp_path: Path) -> None:
    def is_free(port: int) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True

    root = tmp_path / "runs"
    record_group(root)
    with Server(root, "--workers", "2") as server:
        assert server.ask("GET", "/api/v1/runs")[1]["total"] == 3
        server.kill()
        wait_for(lambda: is_free(server.port))


@pytest.mark.slow
def test_what_waits_its_turn_outlives_the_server_and_begins_when_the_cores_are_free(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    asked = {"ref": "CartPole-v1:ppo_zoo", "max_env_steps": 2_000, "changes": ["run.threads=1"]}
    with Server(root) as server:
        first = server.ask("POST", "/api/v1/trainings", {**asked, "seeds": usable_cores()})[1]
        second = server.ask("POST", "/api/v1/trainings", {**asked, "seeds": 1, "seed": 500})[1]
        assert second["state"] == "queued"
        assert f"waits for training {first['refers']}" in second["reason"]
        server.kill()
    store = Store(root)
    wait_for(lambda: all(not job.live for job in models.everything(store)), 240)
    done = {job.id: job for job in models.everything(store)}
    assert [done[each["id"]].state for each in (first, second)] == ["finished", "finished"]
    assert done[second["id"]].started >= done[first["id"]].ended
