"""The benchmark of healthy but slow SB3 configs goes on where it was stopped, and counts what it says it counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.treatment import slow_sb3

SAID = {"prescriptions": [{"number": 1, "title": "n_steps 5 → 20", "changes": {"algo.n_steps": 20}, "held_back": None}]}


def test_a_trial_that_has_ended_is_kept_until_another_change_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    codes = iter([1, 0, 0])

    def spawn(words: list[str], log: Path) -> int:
        started.append(words)
        log.write_text("note\n" + json.dumps({"trial": {"verdict": "undecided", "arms": [{"name": "control"}]}}))
        return next(codes)

    monkeypatch.setattr(slow_sb3, "spawn", spawn)
    assert slow_sb3.try_first(tmp_path, "a2c_cartpole", SAID, 8)["verdict"] is None, "it failed, and is no verdict"
    for _ in range(2):
        assert slow_sb3.try_first(tmp_path, "a2c_cartpole", SAID, 8)["verdict"] == "undecided"
    assert len(started) == 2
    other: dict[str, Any] = {"prescriptions": [{**SAID["prescriptions"][0], "changes": {"algo.n_steps": 40}}]}
    slow_sb3.try_first(tmp_path, "a2c_cartpole", other, 8)
    assert len(started) == 3


def test_longer_training_is_passed_over_for_a_change_that_a_trial_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longer = {"number": 1, "title": "max_env_steps", "changes": {"run.max_env_steps": 9}, "held_back": None}
    assert slow_sb3.try_first(tmp_path, "a2c_cartpole", {"prescriptions": [longer]}, 8)["tried"] is False
    started: list[list[str]] = []

    def spawn(words: list[str], log: Path) -> int:
        started.append(words)
        log.write_text("")
        return 1

    monkeypatch.setattr(slow_sb3, "spawn", spawn)
    slow_sb3.try_first(tmp_path, "a2c_cartpole", {"prescriptions": [longer, {**SAID["prescriptions"][0], "number": 2}]}, 8)
    assert started[0][started[0].index("--rx") + 1] == "2"


def test_what_is_held_back_and_rejected_is_no_harm() -> None:
    tried = {"given": "x", "tried": True}
    result = {
        "held": {**tried, "verdict": "reject", "held_back": True},
        "harm": {**tried, "verdict": "reject", "held_back": False},
        "fine": {**tried, "verdict": "adopt", "held_back": False},
        "longer": {"given": "y", "tried": False},
        "nothing": {"given": None},
    }
    assert [row["value"] for row in slow_sb3.count(result)] == [1, 1, 1, 3, 1]
    assert slow_sb3.count(result)[0]["bar"] == 0
