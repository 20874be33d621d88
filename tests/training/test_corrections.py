"""Runs begun before a defect was corrected: they go on as they began, or are refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlclinic.config import corrections
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, saved, train


@contextmanager
def before_any_correction() -> Iterator[None]:
    """Train as it was done when no correction had been made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corrections, "CORRECTIONS", {})
        patch.setattr(assembly, "CORRECTIONS", {})
        yield


def interrupted(folder: Path, kind: str, env_steps: int = 150) -> Run:
    run = Store(folder / "runs").create_group([make_config(kind, run={"checkpoint_every_env_steps": 100})]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([run], callback=interrupt_at(env_steps))
    return Run(run.path)


def test_an_a2c_run_begun_with_the_old_rmsprop_resumes_and_forks_with_it(tmp_path: Path) -> None:
    with before_any_correction():
        whole = train(tmp_path / "old", [make_config("a2c", run={"checkpoint_every_env_steps": 100})])[0]
        old = interrupted(tmp_path / "cut", "a2c")
    fork = train(tmp_path / "cut", [old.config], parent=f"{old.id}@{old.checkpoints[-1].step}", start="fork")[0]
    train_runs([old], resume=True)
    assert_same_run(whole, old)
    assert saved(whole) == saved(fork)
    anew = train(tmp_path / "new", [old.config])[0]
    assert saved(anew) != saved(whole)


def test_an_old_run_without_a_checkpoint_starts_again_with_every_correction(tmp_path: Path) -> None:
    with before_any_correction():
        run = Store(tmp_path / "runs").create_group([make_config("a2c")]).runs[0]
    assert not run.corrections
    train_runs([run], resume=True)
    assert Run(run.path).corrections == set(corrections.CORRECTIONS)
    assert saved(run) == saved(train(tmp_path, [run.config])[0])


def test_a_run_whose_old_meaning_is_no_longer_known_is_refused_and_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted(tmp_path, "a2c")
    kept = saved(run)
    monkeypatch.setitem(corrections.CORRECTIONS, "later", corrections.Correction("two was three", lambda config, skips: True))
    with pytest.raises(assembly.RunError, match="begun when two was three"):
        train_runs([run], resume=True)
    assert saved(run) == kept
