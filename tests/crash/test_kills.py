"""SIGKILL at any moment, then --resume: as if nothing had happened."""

import random
import signal
import time
from pathlib import Path

import pytest

from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from tests.crash import cohorts
from tests.launch.warm import Warm

KILLS = 20
Results = list[tuple[list[str], bytes]]


def resume(runs: list[Run], started: bool) -> list[object]:
    return [*(run.path for run in runs), *(["--resume"] if started else [])]


@pytest.mark.slow
def test_a_run_killed_at_20_random_moments_equals_one_that_was_not(warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path) -> None:
    moments, kills, chains = random.Random(2), 0, 0
    while kills < KILLS:
        runs, started = cohorts.create(tmp_path / f"runs{chains}", cohorts.config()), False
        code = None
        while code is None:
            child = warm.start(*resume(runs, started), printed=printed)
            started = True
            time.sleep(moments.uniform(0.0, 0.4) if kills < KILLS else 0.0)
            code = child.poll() if kills < KILLS else child.wait()
            if code is None:
                child.send_signal(signal.SIGKILL)
                code = child.wait()
                if code == -signal.SIGKILL:
                    kills, code = kills + 1, None
        assert code == 0, printed.read_text()
        cohorts.check_same(runs, undisturbed)
        chains += 1


@pytest.mark.slow
def test_a_run_killed_at_20_of_its_disk_operations_equals_one_that_was_not(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path
) -> None:
    """In the middle of a checkpoint, between a file and its name, before a row: where a random moment seldom falls."""
    runs = cohorts.create(tmp_path / "runs", cohorts.config())
    moments, started, code = random.Random(3), False, -signal.SIGKILL
    for _ in range(KILLS):
        fault = ("signal_at_change", str(tmp_path / "runs"), moments.randint(1, 120))
        code = warm.run(*resume(runs, started), printed=printed, fault=fault)
        started = True
        if code == 0:
            cohorts.check_same(runs, undisturbed)
            runs, started = cohorts.create(tmp_path / "runs", cohorts.config()), False
        else:
            assert code == -signal.SIGKILL, printed.read_text()
    assert warm.run(*resume(runs, started), printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)


def test_a_number_changed_while_running_is_changed_again_by_every_resume(warm: Warm, tmp_path: Path, printed: Path) -> None:
    """Killed before the first checkpoint, where the whole run starts again, and after it."""
    whole, killed = (cohorts.create(tmp_path / name, cohorts.config(), seeds=(0,))[0] for name in ("whole", "killed"))
    for run in (whole, killed):
        run.ask(numbers={"algo.ent_coef": 0.05})
    assert warm.run(whole.path, printed=printed) == 0, printed.read_text()
    for number, options in ((9, []), (60, ["--resume"])):
        fault = ("signal_at_change", str(killed.path), number)
        assert warm.run(killed.path, *options, printed=printed, fault=fault) == -signal.SIGKILL, printed.read_text()
        assert bool(killed.checkpoints) == (number == 60)
    assert warm.run(killed.path, "--resume", printed=printed) == 0, printed.read_text()
    assert killed.interventions == whole.interventions == [{"env_steps": 0, "set": {"algo.ent_coef": 0.05}}]
    assert set(killed.metrics["train/hp/ent_coef"]) == {0.05}
    assert "killed before its first checkpoint: it starts again" in killed.log
    cohorts.check_same([killed], [cohorts.result(whole)])


def test_a_fork_killed_before_its_first_checkpoint_starts_again_from_its_parent(warm: Warm, tmp_path: Path, printed: Path) -> None:
    store = Store(tmp_path / "runs")
    (parent,) = store.create_group([cohorts.config()]).runs
    assert warm.run(parent.path, printed=printed) == 0, printed.read_text()
    step = parent.checkpoints[-2].step
    (fork,) = store.create_group([cohorts.config()], parent=f"{parent.id}@{step}", extra={"start": "fork"}).runs
    fault = ("signal_at_change", str(fork.path), 9)
    assert warm.run(fork.path, printed=printed, fault=fault) == -signal.SIGKILL, printed.read_text()
    assert warm.run(fork.path, "--resume", printed=printed) == 0, printed.read_text()
    rows, policy = cohorts.result(parent)
    later = [row for row in rows[1:] if int(row.split(",")[0]) > step]
    cohorts.check_same([fork], [([rows[0], *later], policy)])
