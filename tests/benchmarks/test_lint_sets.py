"""The sets of planted faults: enough of every style, halves apart, and each fault one change that leaves Python and says its lines."""

import ast
from collections import Counter

import pytest

from benchmarks.lint import mutants, sets

LEAST = {
    "first": 130, "second": 70, "third": 180, "fourth": 500, "fifth": 270, "sixth": 380, "seventh": 650, "eighth": 280, "ninth": 190,
    "tenth": 370, "eleventh": 190, "twelfth": 209, "own": 310,
}  # fmt: skip
"""How many faults a set has at the least: none is lost on the way."""
SEALED = {
    "sixth": {"tutorial", "spinningup", "lightning"},
    "seventh": {"sb3", "spinningup", "tutorial"},
    "eighth": {"lightning", "sb3", "spinningup"},
    "ninth": {"agent", "spinningup", "cleanrl"},
    "eleventh": {"spinningup", "tutorial", "lightning"},
    "twelfth": {"agent", "cleanrl", "lightning"},
}
"""Which styles were sealed when a set was first looked at."""


def code_of(text: str) -> list[str]:
    """Lines without comments: a fault changes more than those."""
    return [code for line in text.splitlines() if (code := line.partition("#")[0].strip())]


@pytest.mark.parametrize("name", SEALED)
def test_sealed_halves_are_those_of_the_first_look(name: str) -> None:
    assert set(sets.SETS[name].sealed) == {f"{name}_{style}" for style in SEALED[name]}


def test_every_script_belongs_to_a_set_and_there_are_enough_of_them() -> None:
    known = {style for each in sets.SETS.values() for style in (*each.styles, *each.clean)}
    assert {path.parent.name for path in mutants.SCRIPTS.glob("*/*.py")} == known
    assert len(mutants.clean()) >= 40
    assert {script.partition("/")[0] for script in mutants.clean()} == known - mutants.SEALED
    assert set(LEAST) == set(sets.SETS)


@pytest.mark.parametrize("name", sets.SETS)
def test_the_halves_of_a_set_are_apart_and_its_faults_have_names_of_their_own(name: str) -> None:
    one = sets.SETS[name]
    assert not set(one.open) & set(one.sealed)
    assert {mutant.style for mutant in one.faults()} == set(one.styles)
    assert len(one.faults()) >= LEAST[name]
    assert len({half for half, _, _ in one.halves}) == len(one.halves)
    if name not in ("first", "second", "third", "fourth", "fifth", "own"):
        assert max(Counter((mutant.script, mutant.fault) for mutant in one.faults()).values()) == 1
        assert Counter(script.partition("/")[0] for script in {mutant.script for mutant in one.faults()}) == dict.fromkeys(one.styles, 3)


@pytest.mark.parametrize("name", sets.SETS)
def test_a_fault_is_one_change_that_leaves_python_and_says_its_lines(name: str) -> None:
    for mutant in sets.SETS[name].faults():
        clean = mutants.text_of(mutant.script)
        assert clean.count(mutant.right) == 1 or name in ("fourth", "own"), mutant
        assert code_of(mutant.right) != code_of(mutant.wrong), mutant
        ast.parse(mutant.text)
        assert mutant.lines, mutant
        assert mutant.lines <= set(range(1, mutant.text.count("\n") + 2)), mutant
        assert name == "own" or all(mark in mutant.text for mark in mutant.at), mutant


@pytest.mark.parametrize("name", [name for name, one in sets.SETS.items() if one.read in (sets.beside_texts, sets.with_reason)])
def test_texts_beside_a_fault_stand_in_its_script_and_every_reason_is_said(name: str) -> None:
    one = sets.SETS[name]
    assert all(len(mutant.lines) <= 12 for mutant in one.faults())
    for script, entries in one.entries().items():
        for fault, *why, right, wrong, texts in (entry if isinstance(entry[-1], list) else [*entry, []] for entry in entries):
            assert all(each.strip() for each in why), (script, fault)
            assert len(why) == (one.read is sets.with_reason), (script, fault)
            text = mutants.text_of(script).replace(right, wrong, 1)
            assert all(mark in text for mark in texts), (script, fault)


def test_half_of_the_first_set_was_held_out() -> None:
    assert len(mutants.DEVELOPMENT) == len(mutants.HELD_OUT) == 3
    for half in (mutants.DEVELOPMENT, mutants.HELD_OUT):
        assert sum(mutant.style in half for mutant in mutants.MUTANTS) >= 60
