"""Planted faults of benchmarks/lint: each is one edit of a clean script, and most are found on their line."""

import ast
from pathlib import Path

import pytest
import yaml

from benchmarks.lint import fifth, fourth, mutants, own, second, seventh, sixth, third
from benchmarks.lint.__main__ import alarms, check, is_found
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.code import lint_code
from rlclinic.diagnosis.lint.code.reading.roles import Names
from rlclinic.errors import UsageError


def test_there_are_scripts_of_six_styles_and_enough_faults_in_both_halves() -> None:
    assert len(mutants.clean()) >= 40
    sets = (second.STYLES, third.STYLES, fourth.STYLES, fifth.STYLES, sixth.STYLES, sixth.CLEAN, seventh.STYLES, seventh.CLEAN, own.STYLES)
    styles = {*mutants.DEVELOPMENT, *mutants.HELD_OUT, *(style for one in sets for style in one)}
    assert {script.partition("/")[0] for script in mutants.clean()} == styles
    assert len(mutants.DEVELOPMENT) == len(mutants.HELD_OUT) == 3
    for half in (mutants.DEVELOPMENT, mutants.HELD_OUT):
        assert sum(mutant.style in half for mutant in mutants.MUTANTS) >= 60


@pytest.mark.parametrize("style", [*mutants.DEVELOPMENT, *mutants.HELD_OUT, *third.STYLES])
def test_a_fault_is_one_edit_that_leaves_python_and_says_its_line(style: str) -> None:
    for mutant in (*mutants.MUTANTS, *third.load()):
        if mutant.style == style:
            assert mutants.text_of(mutant.script).count(mutant.right) == 1, mutant
            ast.parse(mutant.text)
            assert mutant.lines, mutant
            assert all(mutant.text.count(mark) in (1, 2) for mark in mutant.at), mutant


def test_faults_of_the_fourth_set_change_their_script_and_leave_python() -> None:
    for mutant in fourth.load():
        assert mutant.right in mutants.text_of(mutant.script), mutant
        ast.parse(mutant.text)
        assert mutant.lines, mutant
        assert all(mark in mutant.text for mark in mutant.at), mutant


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


def test_faults_of_the_fifth_set_are_one_edit_each_and_leave_python() -> None:
    for mutant in fifth.load():
        assert mutants.text_of(mutant.script).count(mutant.right) == 1, mutant
        ast.parse(mutant.text)
        assert mutant.lines <= set(range(1, mutant.text.count("\n") + 2)), mutant


def test_faults_of_the_sixth_set_are_one_edit_each_change_their_script_and_leave_python() -> None:
    names = [(mutant.script, mutant.fault) for mutant in sixth.load()]
    assert len(names) == len(set(names)) >= 220
    assert set(sixth.SEALED) == {"sixth_tutorial", "sixth_spinningup", "sixth_lightning"}
    for mutant in sixth.load():
        clean = mutants.text_of(mutant.script)
        assert clean.count(mutant.right) == 1, mutant
        assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(clean)), mutant
        assert mutant.lines <= set(range(1, mutant.text.count("\n") + 2)), mutant
        assert len(mutant.lines) <= 12, mutant


def test_texts_beside_a_fault_of_the_sixth_set_stand_in_its_script() -> None:
    for script, entries in yaml.safe_load(sixth.FILE.read_text()).items():
        for fault, right, wrong, *marks in entries:
            text = mutants.text_of(script).replace(right, wrong, 1)
            assert all(mark in text for mark in (marks[0] if marks else ())), (script, fault)


def test_faults_of_the_seventh_set_are_one_edit_each_change_their_script_and_leave_python() -> None:
    names = [(mutant.script, mutant.fault) for mutant in seventh.load()]
    assert len(names) == len(set(names)) >= 350
    assert set(seventh.SEALED) == {"seventh_sb3", "seventh_spinningup", "seventh_tutorial"}
    for mutant in seventh.load():
        clean = mutants.text_of(mutant.script)
        assert clean.count(mutant.right) == 1, mutant
        assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(clean)), mutant
        assert mutant.lines <= set(range(1, mutant.text.count("\n") + 2)), mutant
        assert len(mutant.lines) <= 12, mutant


def test_texts_beside_a_fault_of_the_seventh_set_stand_in_its_script() -> None:
    for script, entries in yaml.safe_load(seventh.FILE.read_text()).items():
        for fault, right, wrong, *marks in entries:
            text = mutants.text_of(script).replace(right, wrong, 1)
            assert all(mark in text for mark in (marks[0] if marks else ())), (script, fault)
