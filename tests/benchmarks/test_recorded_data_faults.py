"""The look at planted faults of recorded data and imitation: which of them count, and what is an alarm."""

from typing import Any

import numpy as np
import pytest

from benchmarks.recorded_data import faults
from rlclinic.config import load
from rlclinic.diagnosis import causes
from rlclinic.training import envs
from rlclinic.training.data import collection


def seen(cause: str, named: str, ends: list[float], algorithm: str = "iql", severity: str = "high", kind: str = "fault of settings") -> Any:
    cell = {"task": "glide", "algorithm": algorithm, "cause": cause}
    return {"cell": cell, "named": named, "causes": [(named, severity, kind)], "mentioned": [named], "ends": ends}


def test_every_planted_fault_is_a_cause_and_is_planted_in_every_environment_that_it_fits() -> None:
    cells = list(faults.list_cells(faults.TASKS, 1))
    planted = {cell.cause for cell in cells if cell.cause}
    assert planted <= set(causes.known())
    for cause in planted - {"horizon-leaks"}:
        assert {cell.task for cell in cells if cell.cause == cause} == set(faults.TASKS)


def test_a_fault_counts_where_no_seed_gets_there_and_some_sound_one_does() -> None:
    fault, reached = seen("too-conservative", "unknown", [-50.0, -40.0]), [seen("", "healthy", [-10.0, -90.0])]
    assert faults.hurts(fault, reached)
    assert faults.hurts(fault, [])
    assert not faults.hurts(fault, [seen("", "unknown", [-50.0, -90.0])])
    assert not faults.hurts(seen("too-conservative", "healthy", [-50.0, -10.0]), reached)
    assert faults.hurts(seen("mixture-scored", "mixture-scored", []), reached)


def test_shares_are_of_those_that_count_and_an_alarm_is_a_fault_at_high() -> None:
    looks = [
        seen("too-conservative", "too-conservative", [-50.0]),
        seen("too-conservative", "unknown", [-50.0]),
        seen("too-conservative", "healthy", [-5.0], severity="low", kind="nothing wrong"),
        seen("", "healthy", [-5.0], severity="low", kind="nothing wrong"),
        seen("", "offline-values-run-away", [-50.0]),
        seen("", "offline-values-run-away", [-50.0], severity="medium"),
        {"cell": {"task": "glide", "algorithm": "iql", "cause": ""}, "error": "it broke"},
    ]
    counted, planted, mentioned, well, alarms, broken = faults.to_rows(looks)
    assert mentioned["value"] == 0.0
    assert "(1 groups)" in mentioned["what"]
    assert counted["value"] == pytest.approx(50.0)
    assert planted["value"] == pytest.approx(100 / 3)
    assert alarms["value"] == pytest.approx(100 / 3)
    assert "(2 groups)" in well["what"], "a planted setting that did no harm, and a group without a fault"
    assert well["value"] == pytest.approx(0.0)
    assert (broken["value"], broken["note"]) == (1, "glide iql []")
    assert "unknown" in counted["note"]
    low, high = counted["interval"]
    assert 0 < low < 50 < high < 100
    assert [row["better"] for row in faults.to_rows(looks[3:6])] == ["lower", "lower"]


def test_an_alarm_where_every_seed_does_well_is_false_whatever_was_planted() -> None:
    harmless = seen("too-conservative", "too-conservative", [-5.0, -6.0])
    assert faults.does_well(harmless)
    assert [row["value"] for row in faults.to_rows([harmless]) if row["what"].startswith("alarms")] == [100.0]
    for cause, ends in (("mixture-scored", [-5.0]), ("labels-are-own-actions", [-5.0]), ("too-conservative", [-5.0, -50.0]), ("", [])):
        assert not faults.does_well(seen(cause, cause, ends))


def test_what_was_looked_at_once_is_for_development_since() -> None:
    assert set(faults.FIRST_LOOK) <= set(faults.DEVELOPMENT)
    assert not set(faults.TASKS) & set(faults.DEVELOPMENT)


@pytest.mark.parametrize("name", [*faults.TASKS, *faults.UNSEEN])
def test_the_expert_of_a_task_is_good_enough_and_half_of_it_is_not(name: str) -> None:
    task = faults.EVERY[name]
    env = envs.make(load(task.env, task.settings).config.env, [0], 4)
    try:
        for act, least, most in ((task.expert, task.threshold, float("inf")), (f"{task.expert}_undecided", -float("inf"), task.threshold)):
            plays = collection.play_with(f"{task.home}:{act}", env)
            returns = [float(each.rewards.sum()) for each in collection.record(env, plays, 60, 0.0, 0)]
            assert least < np.mean(returns) < most
    finally:
        env.close()
