"""A worker on another machine whose network is cut: it stops writing before its time is over, another one goes on, and nobody is lost."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlclinic.ops.jobs import models, pool, start
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.store import Store
from tests.servers import namespaces, postgres
from tests.servers.namespaces import Host
from tests.servers.postgres import PASSWORD

LEASE = 3.0
WORK = "from benchmarks import cluster; cluster.work({root!r})"


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Host, postgres.Server]]:
    """Another machine, and a database here that it reaches over the network."""
    if not namespaces.can_be_made():
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(namespaces.MISSING)
    if postgres.find_binaries() is None:
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(postgres.MISSING)
    with namespaces.hosts(1) as (host,), postgres.serve([host.here]) as server:
        yield host, server


def lines(store: Store) -> list[list[str]]:
    file = store.root / "did"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def test_a_cut_link_ends_the_writer_within_its_lease_and_another_machine_goes_on(
    place: tuple[Host, postgres.Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, server = place
    store = Store(tmp_path / "runs")
    for name, value in {"RLCLINIC_DB": server.url, "RLCLINIC_LEASE_SECONDS": str(LEASE)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(start, "WORKER", "tests.ops.jobs.pretended_job")
    connections.migrate(store)
    request = TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=1, runs_dir=store.root)
    job = start.start_training(request, hypothesis="400 steps")
    command = host.command([sys.executable, "-c", WORK.format(root=str(store.root))])
    assert PASSWORD not in " ".join(command)
    there = subprocess.Popen(command, env={**os.environ, "RLCLINIC_DB": server.reach(host.here)})
    here = pool.Worker(store, cores=2)
    try:
        deadline = time.monotonic() + 60
        while len(lines(store)) < 5:
            assert there.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        cut = time.time()
        host.cut()
        while not any(line[1] != "1" for line in lines(store)):
            assert time.monotonic() < deadline
            here._step()
            time.sleep(0.02)
        # The first has written for less than its lease, and nothing once the second had begun.
        first, second = ([float(line[3]) for line in lines(store) if line[1] == number] for number in ("1", "2"))
        assert max(first) < cut + LEASE
        assert max(first) < min(second)
        # The cut is mended: who was away finds out, and writes nothing more.
        host.mend()
        time.sleep(LEASE)
        here._step()
        assert max(float(line[3]) for line in lines(store) if line[1] == "1") == max(first)
        assert there.poll() is None
        assert [(row.attempt, row.losses, row.failures) for row in job_queue.list_rows(store)] == [(2, 1, 0)]
        assert (models.load(store, job.id) or job).live
    finally:
        host.mend()
        for child in here.children:
            pool.kill_session(child.process.pid)
            child.process.wait()
        there.terminate()
        there.wait(60)
        connections.forget()
