"""SIGTERM and SIGINT: a checkpoint, the status "stopped", and a resume that equals a run that never stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.runs.record import Run
from tests.crash import cohorts
from tests.launch.warm import ROOT, Warm

Results = list[tuple[list[str], bytes]]


def check_stopped(runs: list[Run]) -> None:
    for run in runs:
        assert run.status.state == "stopped", run.log
        assert run.status.reason == "asked to stop"
        assert 0 < run.status.env_steps < 3072
        assert run.checkpoint("@last").step == run.status.env_steps, "the checkpoint is of the moment it stopped"
        assert run.checkpoint("@last").valid


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stopped_run_is_resumed_as_if_it_had_never_stopped(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path, name: str
) -> None:
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    fault = ("signal_at_change", str(tmp_path / "runs"), 150, name)
    assert warm.run(*(run.path for run in runs), printed=printed, fault=fault) == 0, printed.read_text()
    check_stopped(runs)
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)


def test_a_run_with_several_iterations_to_a_row_stops_and_resumes_exactly(warm: Warm, tmp_path: Path, printed: Path) -> None:
    """A2C iterates every 20 env steps and writes a row every 260: a stop must not fall between two rows."""
    made = cohorts.config(algo={"name": "a2c", "n_steps": 5}, run={"checkpoint_every_env_steps": 600, "eval_episodes": 0})
    whole, parts = (cohorts.create(tmp_path / name, made) for name in ("whole", "parts"))
    assert warm.run(*(run.path for run in whole), printed=printed) == 0, printed.read_text()
    fault = ("signal_at_change", str(tmp_path / "parts"), 60, "SIGTERM")
    assert warm.run(*(run.path for run in parts), printed=printed, fault=fault) == 0, printed.read_text()
    check_stopped(parts)
    assert warm.run(*(run.path for run in parts), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(parts, [cohorts.result(run) for run in whole])


def test_a_second_signal_ends_it_at_once_and_the_last_checkpoint_stands(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path
) -> None:
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    fault = ("signal_at_change", str(tmp_path / "runs"), 150, "SIGINT", 2)
    assert warm.run(*(run.path for run in runs), printed=printed, fault=fault) == 128 + signal.SIGINT
    assert all(run.status.state == "crashed" for run in runs), "it did not have the time to say anything"
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)


def test_members_that_a_kill_left_at_different_steps_all_stop_when_asked(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path
) -> None:
    """They resume one after the other; a stop during the first one's turn must not leave the second one's status as it was."""
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    fault = ("signal_at_change", str(runs[1].path / "checkpoints"), 40, "SIGKILL")
    assert warm.run(*(run.path for run in runs), printed=printed, fault=fault) == -signal.SIGKILL
    assert runs[0].checkpoints[-1].step > runs[1].checkpoints[-1].step
    fault = ("signal_at_change", str(runs[0].path), 30, "SIGTERM")
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed, fault=fault) == 0, printed.read_text()
    assert [run.status.state for run in runs] == ["stopped", "stopped"]
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)


def test_the_module_trains_from_the_command_line_and_resuming_what_is_finished_changes_nothing(
    undisturbed: Results, tmp_path: Path
) -> None:
    """`python -m rlclinic.training`, cold: what the other tests fork, typed out."""
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    command = [sys.executable, "-m", "rlclinic.training", *(str(run.path) for run in runs)]
    for options in ([], ["--resume"]):
        done = subprocess.run([*command, *options], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        cohorts.check_same(runs, undisturbed)
