"""How loud laws may speak: what they have shown decides, and what nobody counted is a note."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lint import precedents as benchmark
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import linter, precedents
from rlclinic.diagnosis.lint.code.precedents import Precedent
from rlclinic.diagnosis.lint.code.reading.sources import Source


def test_what_was_named_often_and_never_wrongly_is_sure_and_one_alarm_takes_much_away() -> None:
    def sure(alarms: int, true: int, found: int) -> float:
        return precedents.confidence(Precedent(alarms, true, found), files=400, faults=800)

    assert sure(0, 0, 0) == 0
    assert sure(0, 0, 1) <= precedents.CLEAR < sure(0, 0, 2) < precedents.LOUD < sure(0, 0, 6)
    assert sure(1, 0, 6) < precedents.LOUD < sure(1, 1, 6)


def test_a_law_without_precedent_is_a_note_and_the_others_speak_up_to_their_check(monkeypatch: pytest.MonkeyPatch) -> None:
    check = checks.find("COD401")
    script = linter.parse(Source("train.py", check.wrong))
    laws = {spot.law: Precedent(found=50) for spot in linter.heard(check, script)}
    monkeypatch.setattr(precedents, "counted", lambda: precedents.Counted(400, 800, laws))
    assert {each.severity for each in linter.examine(check, script)} == {check.severity}
    monkeypatch.setattr(precedents, "counted", lambda: precedents.Counted(400, 800, {}))
    assert {each.severity for each in linter.examine(check, script)} == {Severity.LOW}


def test_counts_are_of_laws_that_exist_and_every_law_has_a_name_of_its_own() -> None:
    laws = [law for check in checks.checks("COD") for law in linter.laws_of(check)]
    assert len(laws) == len(set(laws))
    assert set(precedents.counted().laws) <= set(laws)


def test_the_page_shows_what_was_counted() -> None:
    assert benchmark.table() in benchmark.PAGE.read_text()


def test_alarms_are_false_until_somebody_has_read_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"file": "a/x.py", "trains": True, "heard": [{"law": "COD501", "severity": "high"}, {"law": "COD103", "severity": "low"}]},
        {"file": "a/y.py", "trains": False, "heard": [{"law": "COD501", "severity": "high"}]},
        {"fault": ["third", "s", "f", "w"], "found": ["COD501"]},
    ]
    monkeypatch.setattr(benchmark, "HERE", tmp_path)
    (tmp_path / "verdicts.yaml").write_text(json.dumps({"COD501": ["a/y.py"]}))
    assert benchmark.tally(rows) == {"files": 1, "read": 2, "faults": 1, "laws": {"COD501": {"alarms": 2, "true": 1, "found": 1}}}
