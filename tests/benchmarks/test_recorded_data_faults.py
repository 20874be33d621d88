"""The look at planted faults of recorded data and imitation: which of them count, and what is an alarm."""

from typing import Any

import pytest

from benchmarks.recorded_data import faults
from rlclinic.diagnosis import causes


def seen(cause: str, named: str, ends: list[float], algorithm: str = "iql", severity: str = "high", kind: str = "fault of settings") -> Any:
    cell = {"task": "glide", "algorithm": algorithm, "cause": cause}
    return {"cell": cell, "named": named, "causes": [(named, severity, kind)], "ends": ends}


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
        seen("too-conservative", "healthy", [-5.0]),
        seen("", "healthy", [-5.0], severity="low", kind="nothing wrong"),
        seen("", "offline-values-run-away", [-50.0]),
        seen("", "offline-values-run-away", [-50.0], severity="medium"),
        {"cell": {"task": "glide", "algorithm": "iql", "cause": ""}, "error": "it broke"},
    ]
    counted, planted, alarms = faults.to_rows(looks)
    assert counted["value"] == pytest.approx(50.0)
    assert planted["value"] == pytest.approx(100 / 3)
    assert alarms["value"] == pytest.approx(100 / 3)
    assert "unknown" in counted["note"]
    low, high = counted["interval"]
    assert 0 < low < 50 < high < 100
    assert [row["better"] for row in faults.to_rows(looks[3:])] == ["lower"]
