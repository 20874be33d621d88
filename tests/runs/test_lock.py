import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlclinic.errors import RunBusy
from rlclinic.runs.lock import HOST, Lock, started

HOLD = """
import os, sys, time
from pathlib import Path
from rlclinic.runs.lock import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def hold(folder: Path, code: str = HOLD) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_second_writer_is_refused_and_told_who_holds_the_run(tmp_path: Path) -> None:
    process = hold(tmp_path)
    try:
        with pytest.raises(RunBusy) as caught:
            Lock(tmp_path)
    finally:
        end(process)
    assert f"process {process.pid} on {HOST}" in str(caught.value)
    assert f"rlclinic stop {tmp_path.name}" in str(caught.value)


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    end(hold(tmp_path))
    assert (tmp_path / "lock").exists()
    Lock(tmp_path).release()


def test_a_second_lock_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first = Lock(tmp_path)
    with pytest.raises(RunBusy, match=f"process {os.getpid()}"):
        Lock(tmp_path)
    first.release()
    Lock(tmp_path).release()


def test_a_forked_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    process = hold(tmp_path, HOLD.replace("time.sleep", "if os.fork() == 0: print(os.getpid(), flush=True)\ntime.sleep"))
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        with pytest.raises(RunBusy):
            Lock(tmp_path)
        end(process)
        Lock(tmp_path).release()
        assert started(child) is not None
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_is_known_by_its_start_and_gone_when_it_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    first = started(process.pid)
    assert first is not None
    assert first == started(process.pid)
    process.kill()
    deadline = time.monotonic() + 10
    while started(process.pid) is not None:  # killed but not waited for: a zombie is no longer alive
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.wait()
    assert started(process.pid) is None


MANY = """
import resource, sys
from pathlib import Path
from rlclinic.runs.lock import Lock
resource.setrlimit(resource.RLIMIT_NOFILE, (32, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
folders = [Path(sys.argv[1]) / str(index) for index in range(64)]
for folder in folders:
    folder.mkdir()
print(len([Lock(folder) for folder in folders]))
"""


def test_a_large_cohort_may_hold_more_locks_than_a_shell_allows_open_files(tmp_path: Path) -> None:
    shown = subprocess.run([sys.executable, "-c", MANY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert shown.stdout == "64\n", shown.stderr
