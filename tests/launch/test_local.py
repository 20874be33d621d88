import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.errors import RunBusy
from rlclinic.launch import local
from rlclinic.runs.lock import started
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tests.launch.pretended"
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Children import the stand-in from the checkout; whatever a failing test leaves behind is ended by its own number."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    begun: list[subprocess.Popen[bytes]] = []
    spawn = local._spawn

    def remember(*arguments: object) -> "subprocess.Popen[bytes]":
        begun.append(spawn(*arguments))  # type: ignore[arg-type]
        return begun[-1]

    monkeypatch.setattr(local, "_spawn", remember)
    yield
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    base = Config.model_validate({"env": {"id": "CartPole-v1"}})
    return Store(tmp_path / "runs").create_group([base.model_copy(update={"seed": seed}) for seed in range(3)]).runs


def begin(pretend: str, cohorts: list[list[Run]], monkeypatch: pytest.MonkeyPatch, **options: object) -> local.Launch:
    monkeypatch.setenv("PRETEND", pretend)
    return local.start([[run.path for run in cohort] for cohort in cohorts], module=MODULE, **options)  # type: ignore[arg-type]


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def facts(run: Run) -> list[str]:
    return (run.path / "facts").read_text().split("\n")


def running(run: Run) -> bool:
    return run.status.state == "running" and (run.path / "facts").exists() and len(facts(run)) == 6


def test_cohorts_train_in_processes_of_their_own_with_one_thread_each(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("finish", [runs[:2], runs[2:]], monkeypatch, parallel=2)
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["finished"] * 3
    assert launch.failed == []
    pids = [facts(run)[0] for run in runs]
    assert pids[0] == pids[1] != pids[2]
    assert facts(runs[0])[2:4] == ["1", "1"]
    assert facts(runs[0])[5] == f"{runs[0].path.resolve()} {runs[1].path.resolve()}"
    assert not (runs[0].path / "launch.log").exists()


def test_what_a_process_prints_is_kept(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    begin("talk", [runs], monkeypatch).wait(PATIENCE)
    assert (runs[0].path / "launch.log").read_text() == "done"


def test_no_more_processes_than_asked_for_train_at_a_time(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("finish", [[run] for run in runs], monkeypatch, parallel=1)
    most = 0
    while launch.poll():
        most = max(most, len(launch.running))
        time.sleep(0.02)
    assert most == 1
    assert [run.status.state for run in runs] == ["finished"] * 3


@pytest.mark.parametrize("when", ["raise early", "raise"])
def test_a_process_that_raises_leaves_its_traceback_in_every_run(runs: list[Run], monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    launch = begin(when, [runs], monkeypatch)
    assert launch.wait(PATIENCE)
    assert len(launch.failed) == 1
    for run in runs:
        assert run.status.state == "failed"
        assert run.status.reason == "ended with exit code 1 and no final status: ValueError: no such thing"
        assert "Traceback" in run.log
        assert "ValueError: no such thing" in run.log


def test_a_crash_in_native_code_is_named_by_its_signal(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    begin("segfault", [runs[:1]], monkeypatch).wait(PATIENCE)
    assert runs[0].status.reason is not None
    assert runs[0].status.reason.startswith("killed by SIGSEGV")
    assert "Segmentation fault" in runs[0].log


def test_one_cohorts_death_leaves_the_others_to_finish(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("wait", [runs[:1], runs[1:]], monkeypatch, parallel=2)
    until(lambda: all(running(run) for run in runs))
    os.kill(int(facts(runs[0])[0]), signal.SIGKILL)
    until(lambda: launch.poll() and len(launch.running) == 1)
    assert runs[0].status.state == "failed"
    assert "SIGKILL" in (runs[0].status.reason or "")
    assert runs[1].status.state == "running"
    launch.stop()
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["failed", "stopped", "stopped"]


def test_stopping_lets_processes_finish_their_work_and_drops_those_that_wait(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("wait", [[run] for run in runs], monkeypatch, parallel=2)
    until(lambda: all(running(run) for run in runs[:2]))
    launch.stop()
    assert launch.wait(PATIENCE)
    assert [run.status.state for run in runs] == ["stopped"] * 3
    assert runs[2].status.reason == "stopped before it started"
    assert [cohort.returncode for cohort in launch.ended if cohort.process is not None] == [0, 0]


def test_a_process_that_will_not_stop_is_killed_when_patience_ends(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("deaf", [runs[:1]], monkeypatch)
    until(lambda: running(runs[0]))
    launch.stop(patience=0.2)
    assert launch.wait(PATIENCE)
    assert runs[0].status.state == "stopped"
    assert "a resume goes on from the last one" in (runs[0].status.reason or "")


def test_aborting_kills_a_process_and_its_workers_at_once(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("worker", [runs[:1]], monkeypatch)
    until(lambda: running(runs[0]))
    pid, worker = (int(number) for number in facts(runs[0])[:2])
    launch.abort()
    assert not launch.poll()
    assert started(pid) is None
    until(lambda: started(worker) is None)
    assert runs[0].status.state == "stopped"


def test_a_worker_does_not_outlive_the_process_that_started_it(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = begin("worker", [runs[:1]], monkeypatch)
    until(lambda: running(runs[0]))
    pid, worker = (int(number) for number in facts(runs[0])[:2])
    os.kill(pid, signal.SIGKILL)
    assert launch.wait(PATIENCE)
    until(lambda: started(worker) is None)


def test_a_resume_is_passed_on_and_a_death_before_its_first_word_is_recorded(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    begin("finish", [runs[:1]], monkeypatch).wait(PATIENCE)
    begin("finish", [runs[:1]], monkeypatch, resume=True).wait(PATIENCE)
    assert facts(runs[0])[5].endswith(" --resume")
    assert runs[0].status.state == "finished"
    begin("raise early", [runs[:1]], monkeypatch, resume=True).wait(PATIENCE)
    assert runs[0].status.state == "failed"


def test_a_run_that_is_being_written_is_refused_before_anything_starts(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(runs[1].path, ["total_timesteps"]), pytest.raises(RunBusy, match=runs[1].id):
        begin("finish", [[run] for run in runs], monkeypatch)
    assert [run.status.state for run in runs] == ["queued"] * 3


LAUNCHER = """
import sys
from rlclinic.launch import local
launch = local.start([sys.argv[2:]], module=sys.argv[1], detach={detach})
print("begun", flush=True)
if not {detach}:
    launch.wait(60)
"""


def launcher(runs: list[Run], *, detach: bool) -> "subprocess.Popen[str]":
    code = LAUNCHER.format(detach=detach)
    command = [sys.executable, "-c", code, MODULE, *(str(run.path) for run in runs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_stop_when_their_launcher_dies_however_it_dies(runs: list[Run], monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setenv("PRETEND", "wait")
    process = launcher(runs[:2], detach=False)
    until(lambda: running(runs[0]) and running(runs[1]))
    child = int(facts(runs[0])[0])
    process.send_signal(number)
    process.communicate()
    until(lambda: started(child) is None)
    assert [run.status.state for run in runs[:2]] == ["stopped", "stopped"]


def test_detached_runs_outlive_their_launcher_and_their_deaths_are_recorded(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRETEND", "wait")
    process = launcher(runs[:1], detach=True)
    assert process.communicate()[0] == ""
    assert process.returncode == 0
    until(lambda: running(runs[0]))
    child = int(facts(runs[0])[0])
    assert os.getsid(child) != os.getsid(0)
    os.kill(child, signal.SIGKILL)
    until(lambda: runs[0].status.state == "failed")
    assert "SIGKILL" in (runs[0].status.reason or "")


def test_the_supervisor_of_detached_runs_passes_a_stop_on(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRETEND", "wait")
    launcher(runs[:1], detach=True).communicate()
    until(lambda: running(runs[0]))
    supervisor = int(Path(f"/proc/{facts(runs[0])[0]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: runs[0].status.state == "stopped")
    until(lambda: started(supervisor) is None)


def test_trainings_keep_the_memory_that_they_free_unless_somebody_has_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert all(int(local.environment(1)[name]) >= 32 << 20 for name in names)
    monkeypatch.setenv(names[1], "4096")
    assert local.environment(1)[names[1]] == "4096"


def test_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= local.available_cores() <= (os.cpu_count() or 1)
