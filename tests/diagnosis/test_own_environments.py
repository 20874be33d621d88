"""Environments as people write them, each with one fault: it is named, the line is named, and the test that is offered catches it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rlclinic.diagnosis.findings import Finding
from rlclinic.diagnosis.lint.env import lint_facts, source_lines
from rlclinic.ops.diagnose import lint
from rlclinic.report.document import render_compact
from rlclinic.report.lint import describe_env
from rlclinic.training.envs.examine import environment, play
from tests.diagnosis.own_environments import BOAT, FAULTS, LINTED, SHOP, Fault
from tests.diagnosis.test_environment_evidence import joined, sick


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(play, "RANDOM_STEPS", 700)
    monkeypatch.setattr(play, "CONSTANT_STEPS", 60)
    monkeypatch.setattr(play, "speed", lambda env: {"steps": 1_000.0, "seconds": 0.1})
    monkeypatch.setattr(environment, "PHASES", (*environment.PHASES[:6], ("scripted actions", 0.1)))
    monkeypatch.setattr(environment, "MOST_SEARCH", 0.4)
    return lambda source, **options: environment.examine(load(source), "own", 20.0, **options)


def load(source: str) -> type[Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names[name_of(source)]


def name_of(source: str) -> str:
    return "Boat" if "class Boat" in source else "Shop"


def passes(test: str, source: str) -> bool:
    """Whether a test that was offered passes for an environment."""
    module = ModuleType("own_env")
    setattr(module, name_of(source), load(source))
    sys.modules["own_env"] = module
    names: dict[str, Any] = {}
    try:
        exec(test, names)
        next(value for name, value in names.items() if name.startswith("test_"))()
    except AssertionError:
        return False
    finally:
        del sys.modules["own_env"]
    return True


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_of_an_own_environment_is_named_with_its_line_and_a_test_that_catches_it(name: str, examine: Callable[..., Any]) -> None:
    fault: Fault = FAULTS[name]
    source = fault.write()
    facts = examine(source, searches=fault.cause == "reward-sign")
    first = joined(replace(sick(), threshold=fault.threshold), facts).causes[0]
    assert first.id == fault.cause
    line = source_lines.find_lines(source, name_of(source), fault.cause)[0]
    assert line.text.startswith(fault.line)
    assert not line.look.startswith("one of")
    test = source_lines.write_test("own_env", name_of(source), fault.cause)
    if "..." not in test:
        assert passes(test, fault.sound), test
        assert not passes(test, source), test


@pytest.mark.parametrize("source", [BOAT, SHOP])
def test_sound_own_environments_are_not_blamed(source: str, examine: Callable[..., Any]) -> None:
    facts = examine(source)
    assert lint_facts(facts).findings == ()
    assert not joined(replace(sick(), threshold=20.0), facts).causes[0].moved_first.startswith("seen in the environment")


@pytest.mark.parametrize("name", list(LINTED))
def test_what_does_not_keep_from_learning_is_told_before_training(
    name: str, examine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, right, wrong, rule, line = LINTED[name]
    monkeypatch.setattr(play, "RANDOM_STEPS", 2_100)
    file = tmp_path / "own_env.py"
    file.write_text(sound.replace(right, wrong, 1))
    facts = examine(file.read_text())
    monkeypatch.setattr("rlclinic.ops.diagnose.examine_env.facts_of", lambda *args, **options: facts)
    found = lint.lint_env(f"{file}:{name_of(sound)}").lint
    told: Finding = next(finding for finding in found.findings if finding.rule == rule)
    number = next(place for place, text in enumerate(file.read_text().splitlines(), 1) if line in text)
    assert told.evidence[-1].series == f"code:{file}:{number}"
    assert f"own_env.py:{number}" in render_compact(describe_env(found))
