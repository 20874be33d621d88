import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rlclinic.runs import disk, status_file
from rlclinic.runs.lock import HOST, started
from rlclinic.runs.status_file import Status

HERE = Status(state="running", heartbeat=time.time(), pid=os.getpid(), host=HOST, process_started=started(os.getpid()))


def test_a_status_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = replace(HERE, env_steps=5, best_eval=3.5, reason="because")
    status_file.write(tmp_path, written)
    assert status_file.read(tmp_path) == written


def test_what_is_no_number_is_left_out_so_that_the_file_stays_json(tmp_path: Path) -> None:
    status_file.write(tmp_path, replace(HERE, return_mean=float("nan"), fps=float("inf")))
    assert "NaN" not in (tmp_path / "status.json").read_text()
    assert status_file.read(tmp_path).return_mean is None


def test_a_run_whose_process_lives_is_running(tmp_path: Path) -> None:
    # A long iteration may leave the heartbeat old; on this host the process itself is asked.
    status_file.write(tmp_path, replace(HERE, heartbeat=time.time() - 3_600))
    assert status_file.read(tmp_path).state == "running"


def test_a_run_whose_process_is_gone_is_crashed(tmp_path: Path) -> None:
    status_file.write(tmp_path, replace(HERE, pid=2**22 + 1))
    found = status_file.read(tmp_path)
    assert found.state == "crashed"
    assert found.reason is not None
    assert str(2**22 + 1) in found.reason
    assert not found.live


def test_a_process_number_that_was_used_again_does_not_keep_a_run_alive(tmp_path: Path) -> None:
    assert HERE.process_started is not None
    status_file.write(tmp_path, replace(HERE, process_started=HERE.process_started + 1))
    assert status_file.read(tmp_path).state == "crashed"


@pytest.mark.parametrize(("silent", "state"), [(10.0, "running"), (130.0, "crashed")])
def test_a_run_on_another_host_is_judged_by_its_heartbeat(tmp_path: Path, silent: float, state: str) -> None:
    status_file.write(tmp_path, replace(HERE, host="elsewhere", heartbeat=time.time() - silent))
    assert status_file.read(tmp_path).state == state


def test_a_folder_without_a_status_waits_to_be_started(tmp_path: Path) -> None:
    assert status_file.read(tmp_path) == Status()
    assert Status().live


def test_a_damaged_status_is_a_failure_not_a_wait(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("{")
    assert status_file.read(tmp_path).state == "failed"


def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    disk.write_json(tmp_path / "status.json", {"state": "finished", "mood": "good"})
    assert status_file.read(tmp_path).state == "finished"
