"""Ranks on machines of their own (network and process namespaces): the same bytes as on one, and a cut link ends both sides by name."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from tests.servers import namespaces
from tests.servers.namespaces import Host
from tests.training.cohorts import assert_same_run
from tests.training.parallel.test_ranks import config_of

APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Without this, a namespace sees the processes of this machine, and with them the memory that ranks of one machine share."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    if not namespaces.can_be_made():
        (pytest.fail if os.environ.get("RLCLINIC_CI") else pytest.skip)(namespaces.MISSING)
    with namespaces.hosts(1) as (made,):
        yield made


@contextmanager
def started(host: Host | None, run: Run, **more: str) -> Iterator[list["subprocess.Popen[str]"]]:
    """Rank 0 here, rank 1 there; without another machine both here."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    address = "127.0.0.1" if host is None else host.here
    begun = []
    for rank in range(2):
        command = [sys.executable, "-m", *(["rlclinic.training", str(run.path)] if rank == 0 else ["rlclinic.training.parallel"])]
        command = host.command([*APART, *command]) if rank and host is not None else command
        group = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": str(port)}
        begun.append(subprocess.Popen(command, env={**os.environ, **group, **more}, stderr=subprocess.PIPE, text=True))
    try:
        yield begun
    finally:
        for process in begun:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def test_ranks_on_two_machines_train_the_run_of_one_machine_to_the_byte(host: Host, tmp_path: Path) -> None:
    found = []
    for number, place in enumerate((None, host)):
        (run,) = Store(tmp_path / str(number)).create_group([config_of(2, 3)]).runs
        with started(place, run) as processes:
            told = [process.communicate(timeout=200)[1] for process in processes]
            assert [process.returncode for process in processes] == [0, 0], told
        found.append(run)
    assert_same_run(found[1], found[0])


def test_a_cut_link_between_ranks_is_named_and_both_sides_end(host: Host, tmp_path: Path) -> None:
    config = config_of(2, 3)
    config = config.model_copy(update={"run": config.run.model_copy(update={"max_env_steps": 2_000_000})})
    (run,) = Store(tmp_path).create_group([config]).runs
    with started(host, run, RLCLINIC_RANK_LOST_SECONDS="4") as processes:
        deadline = time.monotonic() + 120
        while not (run.status.env_steps or 0) > 500:
            assert all(process.poll() is None for process in processes)
            assert time.monotonic() < deadline
            time.sleep(0.1)
        host.cut()
        cut = time.monotonic()
        try:
            assert [process.wait(60) for process in processes] == [1, 1]
        finally:
            host.mend()
        assert time.monotonic() - cut < 45
        assert "rank 1: collective broken" in (processes[1].stderr.read() if processes[1].stderr else "")
    assert "rank 1 was not heard of for" in (run.status.reason or "")
