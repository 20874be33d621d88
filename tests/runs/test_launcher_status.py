from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.config import Config
from rlclinic.errors import RunBusy
from rlclinic.runs import control, launcher_status, lease
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

COLUMNS = ("total_timesteps",)


@pytest.fixture
def run(store: Store, make_config: Callable[..., Config]) -> Run:
    return store.create_group([make_config()]).runs[0]


def test_a_run_without_a_final_status_gets_one_with_what_was_printed_last(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.status("running", 512, best_eval=7.0)
    printed = "".join(f"line {index}\n" for index in range(100))
    assert launcher_status.close(run.path, "failed", "killed by SIGSEGV", printed)
    assert (run.status.state, run.status.reason, run.status.env_steps, run.status.best_eval) == ("failed", "killed by SIGSEGV", 512, 7.0)
    lines = run.log.splitlines()
    assert lines[0].endswith("failed: killed by SIGSEGV")
    assert lines[-1] == "  | line 99"
    assert len(lines) == 1 + launcher_status.LAST_LINES


def test_a_request_to_a_process_that_is_gone_is_dropped_unless_another_worker_goes_on_with_its_job(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        with RunWriter(run.path, COLUMNS) as out:
            out.status("running", 512)
        control.ask(run.path, stop=True)

    die()
    launcher_status.queue(run.path)
    assert control.pending(run.path) is None
    die()
    monkeypatch.setenv(lease.VARIABLE, str(tmp_path / "deadline"))
    lease.extend(tmp_path / "deadline", lease.now(), 100.0)
    launcher_status.queue(run.path)
    with RunWriter(run.path, COLUMNS) as out:
        assert out.read_control() == {"stop": True}


def test_a_run_that_ended_by_itself_is_left_alone(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.status("finished", 512)
    assert not launcher_status.close(run.path, "failed", "no")
    assert run.status.state == "finished"
    assert run.log == ""


def test_a_run_that_another_process_took_over_is_left_alone(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.status("running", 1)
        assert not launcher_status.close(run.path, "failed", "no")
    assert run.status.state == "running"


def test_queueing_forgets_the_old_end_and_requests_to_the_old_process(run: Run) -> None:
    with RunWriter(run.path, COLUMNS) as out:
        out.status("stopped", 512, reason="asked to")
    control.ask(run.path, stop=True)
    launcher_status.queue(run.path)
    assert (run.status.state, run.status.reason, run.status.env_steps) == ("queued", None, 512)
    assert control.pending(run.path) is None


def test_a_run_that_is_being_written_cannot_be_queued(run: Run) -> None:
    with RunWriter(run.path, COLUMNS), pytest.raises(RunBusy, match="second writer"):
        launcher_status.queue(run.path)


def test_an_empty_launch_log_is_removed_and_a_full_one_kept(tmp_path: Path) -> None:
    path = launcher_status.launch_log(tmp_path)
    launcher_status.open_log(path).close()
    launcher_status.drop_empty(path)
    assert not path.exists()
    launcher_status.drop_empty(path)
    path.write_text("first\nsecond\n")
    launcher_status.drop_empty(path)
    assert launcher_status.read_log(path, 6) == "second\n"
    assert launcher_status.read_log(tmp_path / "none", 0) == ""
