"""What one diagnosis says to watch, the next one of a run made from it checks unasked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlclinic.diagnosis.findings import Watch
from rlclinic.ops.diagnose import diagnose, watch_list
from rlclinic.runs.history import make_series
from rlclinic.runs.record import Group
from tests.diagnosis import recorded
from tests.diagnosis.stored import write_group

KL = "train/metrics/kl_divergence"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sick_parent() -> Group:
    parent = write_group("cp-lr-x100")
    diagnose.diagnose(parent.id)
    return parent


@pytest.mark.parametrize("how", ["parent", "parent run", "repeats"])
def test_a_child_is_checked_against_its_parents_watches(how: str) -> None:
    parent = sick_parent()
    about = {
        "parent": {"parent": parent.id},
        "parent run": {"parent": f"{parent.runs[0].id}@1000"},
        "repeats": {"extra": {"repeats": parent.id}},
    }[how]
    child = write_group("cp-healthy", **about)
    found = diagnose.diagnose(child.id)
    assert found.watched is not None
    assert (found.watched.source, found.watched.cause) == (parent.id, "policy step too large")
    assert [check.held for check in found.watched.checks] == [True, True]
    assert found.watched.checks[0].said.startswith("KL <= 0.03: held, 0.0")
    assert f"watched since {parent.id}" in (child.path / "report.md").read_text()


def test_a_child_that_repeats_the_fault_is_told_that_it_did_not_hold() -> None:
    parent = sick_parent()
    found = diagnose.diagnose(write_group("cp-lr-x100", parent=parent.id).id)
    assert found.watched is not None
    assert found.watched.checks[0].held is False


def test_without_a_parent_or_its_diagnosis_nothing_is_claimed() -> None:
    undiagnosed = write_group("cp-lr-x100")
    assert diagnose.diagnose(write_group("cp-healthy", parent=undiagnosed.id).id).watched is None
    assert diagnose.diagnose(write_group("cp-healthy", parent="gone@100").id).watched is None
    assert diagnose.diagnose(write_group("cp-healthy").id).watched is None


def test_a_damaged_diagnosis_of_the_parent_is_passed_over() -> None:
    parent = sick_parent()
    (parent.path / "diagnosis.json").write_text('{"half": ')
    assert diagnose.diagnose(write_group("cp-healthy", parent=parent.id).id).watched is None


def test_half_time_means_half_of_the_budget() -> None:
    history = recorded.histories("cp-healthy")[0]
    steps = np.linspace(0, 50_000, 101)
    series = make_series(steps, np.where(np.abs(steps - 25_000) < 4_000, 0.9, 0.1), KL)
    assert series is not None
    history = replace(history, series={KL: series}, max_env_steps=50_000)
    assert watch_list.check(Watch(series=KL, text="KL at half time", above=0.5), [history]).held is True
    assert watch_list.check(Watch(series=KL, text="KL in the first half", above=0.5), [history]).held is False
    assert watch_list.check(Watch(series=KL, text="KL", above=0.5), [history]).measured == pytest.approx(0.1)
    assert watch_list.check(Watch(series="train/loss/value", text="loss", above=0.5), [history]).held is None
