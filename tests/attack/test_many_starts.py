"""Many starts at once, two servers on one store, and workers that are killed: nothing runs twice, nothing is lost, few processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.errors import UsageError
from rlclinic.ops.jobs import models, progress, start
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.runs.database import job_queue
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.ops.jobs.test_start import Processes, kill, processes, two_cores  # noqa: F401 — fixtures

SLEEPER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from rlclinic.ops.jobs import models, start, worker\n"
    "from rlclinic.runs.store import Store\n"
    "def work(store, job):\n"
    "    with (store.root / 'did').open('a') as file:\n"
    "        file.write(job.id + chr(10))\n"
    "    time.sleep(float({seconds}))\n"
    "    return worker.Ending('finished', None, 'slept')\n"
    "start.WORKER, start.machine.usable_cores = 'sleeper', lambda: 2\n"
    "worker._WORK = dict.fromkeys(worker._WORK, work)\n"
    "sys.exit(worker.main())\n"
)


def training(root: Path, seed: int) -> TrainRequest:
    return TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=2, seed=seed, runs_dir=root)


@pytest.mark.usefixtures("two_cores")
def test_twenty_five_starts_are_one_process_and_twenty_four_rows(tmp_path: Path, processes: Processes) -> None:  # noqa: F811
    root = tmp_path / "runs"
    made = [start.start_training(training(root, 10 * number)) for number in range(25)]
    assert len(processes.commands) == 1
    assert [job.state for job in made] == ["starting"] + ["queued"] * 24
    assert [row.state for row in job_queue.list_rows(Store(root))] == ["claimed"] + ["queued"] * 24
    assert progress.get_progress(str(made[24].refers), root).state == "queued"


@pytest.mark.usefixtures("two_cores")
def test_the_queue_is_bounded(tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(start, "MOST_WAITING", 2)
    for number in range(3):
        start.start_training(training(tmp_path / "runs", 10 * number))
    with pytest.raises(UsageError, match="2 jobs wait already"):
        start.start_training(training(tmp_path / "runs", 90))


@pytest.mark.usefixtures("two_cores")
def test_the_next_begins_when_one_was_killed_which_is_said_to_be_lost(tmp_path: Path, processes: Processes) -> None:  # noqa: F811
    root = tmp_path / "runs"
    first, second = start.start_training(training(root, 0)), start.start_training(training(root, 10))
    assert start.dispatch(Store(root)) == []
    kill(root, first)
    assert start.dispatch(Store(root)) == [second.id]
    assert [row.state for row in job_queue.list_rows(Store(root))] == ["lost", "claimed"]
    assert progress.get_progress(str(first.refers), root).state == "crashed"


@pytest.mark.usefixtures("two_cores")
def test_what_waited_is_queued_again_when_the_queue_was_removed(tmp_path: Path, processes: Processes) -> None:  # noqa: F811
    root = tmp_path / "runs"
    first, second = start.start_training(training(root, 0)), start.start_training(training(root, 10))
    (root / "@jobs" / job_queue.FILE).unlink()
    third = start.start_training(training(root, 20))
    kill(root, first)
    assert start.dispatch(Store(root)) == [second.id]
    assert third.state == "queued"


def test_jobs_follow_each_other_by_themselves_and_two_dispatchers_run_none_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "runs"
    _sleep_instead(tmp_path, monkeypatch, 0.3)
    made = [start.start_training(training(root, 10 * number)) for number in range(3)]
    again = "import pathlib, sys; from rlclinic.ops.jobs import start; from rlclinic.runs import store; start.WORKER = 'sleeper'; "
    again += "start.dispatch(store.Store(pathlib.Path(sys.argv[1])))"
    others = [subprocess.Popen([sys.executable, "-c", again, str(root)]) for _ in range(2)]
    assert all(other.wait(60) == 0 for other in others)
    _wait(lambda: all(job.state == "finished" for job in models.everything(Store(root))))
    assert (root / "did").read_text().split() == [job.id for job in made]
    # Nobody keeps them as zombies, in a server that lives on.
    _wait(lambda: not any(Path(f"/proc/{job.pid}").exists() for job in models.everything(Store(root))))


def test_a_worker_that_is_killed_is_noticed_and_the_next_one_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "runs"
    _sleep_instead(tmp_path, monkeypatch, 60)
    first, second = start.start_training(training(root, 0)), start.start_training(training(root, 10))
    _wait(lambda: (root / "did").exists())
    os.kill(int(first.pid or 0), signal.SIGKILL)
    _wait(lambda: start.dispatch(Store(root)) == [second.id])
    assert progress.get_progress(first.id, root).state == "crashed"
    _wait(lambda: len((root / "did").read_text().split()) == 2)
    told = models.load(Store(root), second.id)
    assert told is not None
    # Asked through the queue, as from another machine: the worker hears of it when it says that it is alive.
    assert job_queue.ask_stop(Store(root), second.id) == "claimed"
    _wait(lambda: not Path(f"/proc/{told.pid}").exists())


def _sleep_instead(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Workers that sleep: real processes, and nothing is trained."""
    (folder / "sleeper.py").write_text(SLEEPER.replace("{seconds}", str(seconds)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setattr(start, "WORKER", "sleeper")
    monkeypatch.setattr(start.machine, "usable_cores", lambda: 2)


def _wait(look: object, seconds: float = 60.0) -> None:
    assert callable(look)
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("after", ["asked again", "a server looks"])
def test_a_start_that_was_killed_after_its_claim_and_before_its_process_begins_later(
    tmp_path: Path,
    processes: Processes,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    after: str,
) -> None:
    root = tmp_path / "runs"

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as killed:
        killed.setattr(start, "_launch", die)
        with pytest.raises(SystemExit):
            start.start_training(training(root, 0), idempotency_key="one")
    assert processes.commands == []
    (row,) = job_queue.list_rows(Store(root))
    assert row.state == "claimed", "nobody holds it, and it was nobody's turn any more"
    if after == "asked again":
        again = start.start_training(training(root, 0), idempotency_key="one")
        assert (again.repeated, again.state) == (True, "starting")
    else:
        assert start.dispatch(Store(root)) == [row.id]
    assert len(processes.commands) == 1


@pytest.mark.usefixtures("two_cores")
def test_a_worker_begins_what_waits_behind_one_that_was_killed(tmp_path: Path, processes: Processes) -> None:  # noqa: F811
    root = tmp_path / "runs"
    first, second = (start.start_training(training(root, 10 * number)) for number in range(2))
    assert (first.state, second.state) == ("starting", "queued")
    kill(root, first)
    began = start.work_off(Store(root))
    assert next(began) == second.id
    assert len(processes.commands) == 2


def test_a_worker_of_an_empty_queue_ends_when_it_is_told_to(tmp_path: Path) -> None:
    assert list(start.work_off(Store(tmp_path / "runs"), until_empty=True)) == []
    result = CliRunner().invoke(app, ["worker", "--until-empty", "--runs-dir", str(tmp_path / "runs")])
    assert (result.exit_code, result.stdout) == (0, "")
