"""The table of where bugs sit: every cause in it exists, and so does every place of ours that it names."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from rlclinic.diagnosis import causes, engine
from rlclinic.ops.diagnose import bug_locations
from tests.diagnosis import recorded

ROOT = Path(__file__).resolve().parents[3]


def defined(path: Path) -> set[str]:
    """Functions of a module, and methods as Class.method."""
    tree = ast.parse(path.read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


BUGS = {id: cause.bug for id, cause in causes.known().items() if cause.bug is not None}


@pytest.mark.parametrize("cause", BUGS)
def test_a_bug_names_places_that_exist(cause: str) -> None:
    bug = BUGS[cause]
    file, function, look = bug.rlclinic
    assert function in defined(ROOT / file)
    assert all([look, bug.fix, bug.check, bug.own, *bug.sb3, *bug.cleanrl])


def test_what_lies_in_the_code_says_where() -> None:
    """One kind of fault, and one place that knows where to look for it."""
    code = {id for id, cause in causes.known().items() if cause.kind == "fault of code"}
    assert code - BUGS.keys() == {"entropy-sign"}


@pytest.mark.parametrize("name", ["bug-advantage-sign", "bug-value-loss-sign", "bug-dead-surrogate", "bug-clipped-action-stored"])
def test_a_planted_bug_is_suspected_first(name: str) -> None:
    recipe, histories = recorded.load(name)
    found = bug_locations.find_suspects(engine.diagnose(histories), "rlclinic train g1 --seeds 1")
    assert found[0].cause == recipe["cause"]
    assert found[0].reproduce == "rlclinic train g1 --seeds 1 --max-env-steps 20000"


def test_a_run_of_sb3_is_pointed_to_its_own_files() -> None:
    histories = [replace(each, source="sb3") for each in recorded.histories("bug-advantage-sign")]
    found = bug_locations.find_suspects(engine.diagnose(histories), None)
    assert [place.code for place in found[0].places] == ["Stable-Baselines3", "your own script"]
    assert found[0].reproduce.startswith("assert ")


def test_a_healthy_group_suspects_nothing() -> None:
    assert bug_locations.find_suspects(engine.diagnose(recorded.histories("cp-healthy")), None) == []
