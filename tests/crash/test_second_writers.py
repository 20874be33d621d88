"""Two processes on one run: the second is told so and changes nothing, the first goes on."""

from pathlib import Path

import pytest

from rlclinic.errors import RunBusy
from rlclinic.runs.record import Run
from rlclinic.runs.writer import RunWriter
from tests.crash import cohorts
from tests.launch.warm import Child, Warm

Results = list[tuple[list[str], bytes]]


def paused(warm: Warm, runs: list[Run], folder: Path) -> Child:
    """A training process that stands still in the middle of its run until folder/gate is there."""
    reached, gate = folder / "reached", folder / "gate"
    child = warm.start(
        *(run.path for run in runs), printed=folder / "first", fault=("pause_at_change", str(runs[0].path), 60, str(gate), str(reached))
    )
    while not reached.exists():
        assert child.poll(0.01) is None, (folder / "first").read_text()
    return child


def contents(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}


def test_a_second_process_is_refused_and_the_first_one_goes_on(warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path) -> None:
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    first = paused(warm, runs, tmp_path)
    before = [contents(run) for run in runs]
    for options in ([], ["--resume"]):
        assert warm.run(*(run.path for run in runs), *options, printed=printed) == 1
    said = printed.read_text()
    assert f"run {runs[0].id} is being written by process {first.pid}" in said
    assert "would mix two histories in one metrics.csv" in said
    assert f"rlclinic stop {runs[0].id}" in said
    assert "Traceback" not in said
    assert [contents(run) for run in runs] == before
    (tmp_path / "gate").touch()
    assert first.wait() == 0, (tmp_path / "first").read_text()
    cohorts.check_same(runs, undisturbed)


def test_members_that_nobody_else_writes_to_train_without_the_busy_one(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path
) -> None:
    busy, free = cohorts.create(tmp_path / "runs", cohorts.config())
    first = paused(warm, [busy], tmp_path)
    assert warm.run(busy.path, free.path, printed=printed) == 1
    assert f"run {busy.id} is being written by process {first.pid}" in printed.read_text()
    cohorts.check_same([free], undisturbed[1:])
    (tmp_path / "gate").touch()
    assert first.wait() == 0, (tmp_path / "first").read_text()
    cohorts.check_same([busy], undisturbed[:1])


def test_a_run_that_cannot_be_started_leaves_no_lock_behind(tmp_path: Path) -> None:
    """In one process, too: the lock of a member whose cohort could not be put together is given back."""
    from rlclinic.errors import NotFound
    from rlclinic.training.__main__ import train_runs

    (run,) = cohorts.create(tmp_path / "runs", cohorts.config(env={"id": "Nowhere-v0"}), seeds=(0,))
    with pytest.raises(NotFound, match="Nowhere-v0"):
        train_runs([run])
    with RunWriter(run.path, ["total_timesteps"], offset=0), pytest.raises(RunBusy, match="is being written by"):
        RunWriter(run.path, ["total_timesteps"])
