"""The best comparable group: found by environment and algorithm, compared, and never made a cause."""

from pathlib import Path

import numpy as np
import pytest

from rlclinic.ops.diagnose import best_group, diagnose
from rlclinic.runs.history import History, make_series
from tests.diagnosis.stored import write_group

EVAL = "val/roll/ep_rew_mean"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_best_group_of_the_same_kind_is_compared() -> None:
    good = write_group("cp-healthy")
    write_group("cp-lr-x30")
    write_group("pd-healthy")
    sick = write_group("cp-lr-x100")
    found = diagnose.diagnose(sick.id).comparable
    assert found is not None
    assert (found.group, found.reached, found.seeds) == (good.id, 3, 3)
    assert [(each.setting, each.here) for each in found.differences] == [("algo.learning_rate", 0.1)]
    assert found.parts_at is not None
    assert 0 < found.parts_at < 50_000
    assert "3 of 3 seeds reached the threshold" in found.said
    text = (sick.path / "report.md").read_text()
    assert "does not say why" in text


def test_a_group_that_solved_it_needs_no_other() -> None:
    write_group("cp-healthy")
    assert diagnose.diagnose(write_group("cp-healthy").id).comparable is None


def test_a_worse_group_is_not_held_up_as_an_example() -> None:
    write_group("bug-advantage-sign")
    assert diagnose.diagnose(write_group("cp-lr-x30").id).comparable is None


def test_the_diagnosis_is_the_same_with_and_without_a_better_group() -> None:
    sick = write_group("cp-lr-x100")
    before = diagnose.diagnose(sick.id).diagnosis
    write_group("cp-healthy")
    report = diagnose.diagnose(sick.id)
    assert report.comparable is not None
    assert report.diagnosis == before


def curve(level: float, id: str = "a") -> History:
    steps = np.linspace(1_000, 100_000, 100)
    series = make_series(steps, np.where(steps < 40_000, 10.0, level) + 0.01 * np.arange(100), EVAL)
    assert series is not None
    return History(id=id, source="csv", series={EVAL: series})


def test_curves_part_where_the_other_stays_above() -> None:
    at = best_group.parting([curve(20.0)], [curve(200.0)])
    assert at == pytest.approx(40_000, abs=2_000)
    assert best_group.parting([curve(200.0)], [curve(20.0)]) is None
    assert best_group.parting([curve(200.0)], [curve(200.0)]) is None
    assert best_group.parting([], [curve(200.0)]) is None


def test_what_a_foreign_log_does_not_say_is_no_difference() -> None:
    here, there = {"algo.gamma": 0.9, "algo.n_steps": 8}, {"algo.gamma": 0.99, "net.hidden": [64]}
    assert [each.setting for each in best_group.differences(here, there, partial=True)] == ["algo.gamma"]
    assert [each.setting for each in best_group.differences(here, there)] == ["algo.gamma", "algo.n_steps", "net.hidden"]


def test_a_damaged_group_does_not_hide_the_others() -> None:
    good, broken = write_group("cp-healthy"), write_group("cp-healthy")
    (broken.path / "group.json").write_text('{"half": ')
    found = diagnose.diagnose(write_group("cp-lr-x100").id).comparable
    assert found is not None
    assert found.group == good.id
