"""Planted faults of benchmarks/lint: each is one edit of a clean script, and most are found on their line."""

import ast
from pathlib import Path

import pytest

from benchmarks.lint import mutants, second
from benchmarks.lint.__main__ import alarms, check, is_found
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import lint_code


def test_there_are_scripts_of_six_styles_and_enough_faults_in_both_halves() -> None:
    assert len(mutants.clean()) >= 40
    assert {script.partition("/")[0] for script in mutants.clean()} == {*mutants.DEVELOPMENT, *mutants.HELD_OUT, *second.STYLES}
    assert len(mutants.DEVELOPMENT) == len(mutants.HELD_OUT) == 3
    for half in (mutants.DEVELOPMENT, mutants.HELD_OUT):
        assert sum(mutant.style in half for mutant in mutants.MUTANTS) >= 60


@pytest.mark.parametrize("style", [*mutants.DEVELOPMENT, *mutants.HELD_OUT])
def test_a_fault_is_one_edit_that_leaves_python_and_says_its_line(style: str) -> None:
    for mutant in mutants.MUTANTS:
        if mutant.style == style:
            assert mutants.text_of(mutant.script).count(mutant.right) == 1, mutant
            ast.parse(mutant.text)
            assert mutant.lines, mutant
            assert all(mutant.text.count(mark) in (1, 2) for mark in mutant.at), mutant


def test_faults_name_checks_that_exist() -> None:
    known = {each.id for each in checks.checks("COD")}
    assert {mutant.fault for mutant in mutants.MUTANTS} <= set(mutants.FAULTS)
    assert {id for accepted in mutants.FAULTS.values() for id in accepted} <= known


@pytest.mark.parametrize("script", mutants.clean())
def test_no_check_crashes_on_a_clean_script_and_those_of_the_development_styles_raise_no_alarm(script: str) -> None:
    checked = check(script, mutants.text_of(script))
    assert checked.crashes == []
    if script.partition("/")[0] in mutants.DEVELOPMENT:
        assert [f"{each.rule}: {each.text}" for each in alarms(checked.findings)] == []


def test_planted_faults_of_the_development_styles_are_found_on_their_line() -> None:
    planted = [mutant for mutant in mutants.MUTANTS if mutant.style in mutants.DEVELOPMENT]
    missed = [f"{mutant.script}: {mutant.fault}" for mutant in planted if not is_found(mutant)]
    assert len(missed) <= 0.05 * len(planted), missed


def test_ends_at_time_limits_are_said_once_for_a_folder(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text(mutants.text_of("cleanrl/ppo_discrete"))
    notes = [each for each in lint_code(str(tmp_path)).findings if each.rule == "COD101"]
    assert [each.severity.value for each in notes] == ["low"]
    assert notes[0].text.endswith("(and in 2 more files)")
