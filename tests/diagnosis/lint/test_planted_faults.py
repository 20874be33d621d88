"""Planted faults of benchmarks/lint: each is one edit of a clean script, and most are found on their line."""

import ast
from pathlib import Path

import pytest

from benchmarks.lint import mutants, second
from benchmarks.lint.__main__ import alarms, check, is_found
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import lint_code
from rlclinic.diagnosis.lint.code.reading.roles import Names
from rlclinic.errors import UsageError


def test_faults_name_checks_that_exist() -> None:
    known = {each.id for each in checks.checks("COD")}
    assert {mutant.fault for mutant in mutants.MUTANTS} <= set(mutants.FAULTS)
    assert {id for accepted in mutants.FAULTS.values() for id in accepted} <= known


@pytest.mark.parametrize("script", mutants.clean())
def test_no_check_crashes_on_a_clean_script_or_raises_an_alarm(script: str) -> None:
    checked = check(script, mutants.text_of(script))
    assert checked.crashes == []
    if not script.startswith("twelfth_"):  # looked at once; its alarms are not mended yet
        assert [f"{each.rule}: {each.text}" for each in alarms(checked.findings)] == []


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.loop)])
def test_planted_faults_of_the_development_styles_are_found_on_their_line(every: int) -> None:
    planted = [mutant for mutant in mutants.MUTANTS if mutant.style in mutants.DEVELOPMENT][::every]
    missed = [f"{mutant.script}: {mutant.fault}" for mutant in planted if not is_found(mutant)]
    assert len(missed) <= 0.05 * len(planted), missed


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("workers/ddqn_learner", "mask-inverted"),
        ("workers/a2c_runner", "advantage-with-gradient"),
        ("fabric/sac_fabric", "copied-the-wrong-way"),
    ],
)
def test_names_of_the_authors_own_are_understood_by_the_flow_of_their_values_and_findings_say_them(script: str, fault: str) -> None:
    mutant = next(each for each in second.MUTANTS if (each.script, each.fault) == (script, fault))
    assert is_found(mutant)
    texts = [f"{each.text} {each.remedies[0].text}" for each in check(script, mutant.text).findings]
    assert not [text for text in texts if "_terminated" in text or "_target_net" in text or "_advantage" in text]


def test_a_name_with_two_meanings_keeps_its_own() -> None:
    tree = ast.parse("x, r, stop, late, _ = env.step(a)\nstop = r\nloss.backward()")
    assert "stop_terminated" not in Names(tree).original
    tree = ast.parse("x, r, stop, late, _ = env.step(a)\nloss.backward()")
    assert Names(tree).original["stop_terminated"] == "stop"


def test_expressions_of_a_thousand_terms_and_functions_that_call_themselves_leave_the_names_as_they_are() -> None:
    deep = "x = " + " + ".join(["reward"] * 3000) + "\nloss.backward()\n"
    assert check("deep", "def f(x):\n    return f(g(x))\ndef g(x):\n    return f(x)\ny = f(1)\nloss.backward()\n").crashes == []
    with pytest.raises(UsageError, match="not Python that can be read"):
        check("deep", deep)


def test_what_is_said_of_a_file_of_tests_is_a_note(tmp_path: Path) -> None:
    mutant = next(each for each in second.MUTANTS if each.fault == "mask-inverted")
    for name in ("train.py", "test_train.py"):
        (tmp_path / name).write_text(mutant.text)
    assert {each.severity.value for each in lint_code(str(tmp_path / "train.py")).findings} >= {"high"}
    assert {each.severity.value for each in lint_code(str(tmp_path / "test_train.py")).findings} == {"low"}


def test_ends_at_time_limits_are_said_once_for_a_folder(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text(mutants.text_of("cleanrl/ppo_discrete"))
    notes = [each for each in lint_code(str(tmp_path)).findings if each.rule == "COD101"]
    assert [each.severity.value for each in notes] == ["low"]
    assert notes[0].text.endswith("(and in 2 more files)")
