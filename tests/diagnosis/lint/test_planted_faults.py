"""Planted faults of benchmarks/lint: each is one edit of a clean script, and most are found on their line."""

import ast

import pytest

from benchmarks.lint import mutants
from rlclinic.diagnosis.lint import checks


def test_there_are_scripts_of_six_styles_and_enough_faults_in_both_halves() -> None:
    assert len(mutants.clean()) >= 40
    assert {script.partition("/")[0] for script in mutants.clean()} == {*mutants.DEVELOPMENT, *mutants.HELD_OUT}
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
