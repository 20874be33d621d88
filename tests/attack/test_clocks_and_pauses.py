"""A clock that jumps and a process that is paused: a run that lives is not called dead, and its rows go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlclinic.errors import RunBusy
from rlclinic.runs import lock, status_file
from rlclinic.runs.lock import Lock
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group

WRITES = """
import sys, time
from rlclinic.runs.writer import RunWriter
with RunWriter(sys.argv[1], ["time", "total_timesteps"], 0) as writer:
    for step in range(1, 10_000):
        writer.row({"time": 1.0, "total_timesteps": step})
        writer.status("running", step)
        writer.flush()
        time.sleep(0.02)
"""


@pytest.mark.parametrize("jump", [-10 * 365 * 86_400, 10 * 365 * 86_400])
def test_a_clock_that_jumps_makes_no_live_run_of_this_machine_crashed(tmp_path: Path, jump: float) -> None:
    started = lock.started(os.getpid())
    said = {"state": "running", "pid": os.getpid(), "host": lock.HOST, "process_started": started, "env_steps": 5}
    status_file.write(tmp_path, status_file.Status(heartbeat=time.time() + jump, **said))
    assert status_file.read(tmp_path).state == "running"
    assert status_file.read(tmp_path).silent_seconds >= 0


def test_a_run_whose_process_is_paused_is_still_its_own_and_goes_on(tmp_path: Path) -> None:
    (run,) = record_group(tmp_path / "runs", seeds=(0,)).runs
    with subprocess.Popen([sys.executable, "-c", WRITES, str(run.path)], env={**os.environ}) as process:
        try:
            end = time.monotonic() + 30
            while run.status.env_steps in (0, 10_240) and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            before = run.status
            assert before.state == "running"
            with pytest.raises(RunBusy):
                Lock(run.path)
            assert [each.id for each in Store(tmp_path / "runs").runs()] == [run.id]
            process.send_signal(signal.SIGCONT)
            while run.status.env_steps <= before.env_steps and time.monotonic() < end:
                time.sleep(0.05)
            assert run.status.env_steps > before.env_steps
        finally:
            process.kill()
    assert run.status.state == "crashed"
    steps = run.metrics["total_timesteps"].tolist()
    assert steps == list(range(1, len(steps) + 1))
    Lock(run.path).release()
