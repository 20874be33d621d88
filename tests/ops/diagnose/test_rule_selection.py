"""[tool.rlclinic] of the nearest pyproject.toml switches rules off, or selects them; and the answer says so."""

from pathlib import Path

import pytest

from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose import diagnose, lint, rule_selection
from tests.diagnosis.stored import write_group


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inner = tmp_path / "project" / "experiments"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    # Whatever lies above the temporary folder must not be found.
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path / "project"


def rules_that_fired() -> set[str]:
    return {finding.rule for finding in diagnose.diagnose("@last").diagnosis.findings}


def test_ignored_rules_are_not_asked_and_the_report_says_so(folder: Path) -> None:
    write_group("cp-lr-x100")
    assert "LRN101" in rules_that_fired()
    (folder / "pyproject.toml").write_text('[tool.rlclinic]\nignore = ["LRN"]\n')
    assert "LRN101" not in rules_that_fired()
    found = diagnose.diagnose("@last").switched
    assert found is not None
    assert (found.ignore, found.file) == (["LRN"], str(folder / "pyproject.toml"))


def test_a_selection_holds_unless_another_is_asked_for(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.rlclinic]\nselect = ["POL"]\nignore = ["POL102"]\n')
    assert rule_selection.chosen()[:2] == (["POL"], ["POL102"])
    assert rule_selection.chosen(["ENT"], ["THR"])[:2] == (["ENT"], ["THR", "POL102"])


def test_lint_honours_it_too(folder: Path) -> None:
    assert lint.lint("CartPole-v1:ppo", ["algo.gamma=0.5"]).lint.findings[0].rule == "VAL208"
    (folder / "pyproject.toml").write_text('[tool.rlclinic]\nignore = ["VAL208"]\n')
    assert "VAL208" not in {finding.rule for finding in lint.lint("CartPole-v1:ppo", ["algo.gamma=0.5"]).lint.findings}


def test_a_project_without_a_word_about_us_changes_nothing(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.other]\nignore = ['LRN']\n")
    assert rule_selection.switched_here() is None


def test_a_file_that_cannot_be_read_is_named_and_not_used(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("not toml [")
    found = rule_selection.switched_here()
    assert found is not None
    assert (found.select, found.ignore) == ([], [])
    assert "cannot be read" in found.note


def test_a_rule_that_does_not_exist_is_an_error_with_the_file(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.rlclinic]\nignore = ["XYZ999"]\n')
    with pytest.raises(NotFound, match=r"pyproject\.toml, tool\.rlclinic\.ignore: no rule begins with 'XYZ999'"):
        rule_selection.chosen()


@pytest.mark.parametrize("value", ['"LRN"', "3", "[1]"])
def test_anything_but_a_list_of_names_is_an_error(folder: Path, value: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.rlclinic]\nignore = {value}\n")
    with pytest.raises(UsageError, match="is no list of rules"):
        rule_selection.chosen()
