"""The whole loop as it is typed, from a sick config to a YAML that trains. Minutes long: `pytest -m loop`; `make test` leaves it out."""

from pathlib import Path

import pytest

from benchmarks.treatment import loop
from rlclinic.config import files


@pytest.mark.slow
@pytest.mark.loop
@pytest.mark.parametrize("name", list(loop.CASES))
def test_a_sick_config_ends_as_an_adopted_one(name: str, tmp_path: Path) -> None:
    case = loop.CASES[name]
    said = loop.run(case, tmp_path)
    assert [each.code for each in said] == [0] * len(loop.commands(case)), said[-1].out
    assert "NOT SOLVED" in said[0].out
    assert "CAUSE 1" in said[1].out
    assert "ADOPT rx1" in said[3].out
    adopted = files.load(f"{case.env}:cured", search=tmp_path / "config" / "environments").config
    sick = files.load(str(tmp_path / "sick.yaml")).config
    assert adopted.env.id == sick.env.id
    assert adopted.algo.learning_rate != sick.algo.learning_rate
    assert "# adopted from trial" in loop.adopted_yaml(tmp_path)


def test_the_page_says_what_was_typed_and_what_was_adopted() -> None:
    said = [loop.Said(line, f"answer to {line}", 0, 1.0) for line in loop.commands(loop.CASES["lander"])]
    page = loop.page({"lander": said}, {"lander": "cured: {}"})
    assert page.count("### `rlclinic ") == len(said)
    assert "answer to diagnose @last" in page
    assert "cured: {}" in page
    assert "0.1 minutes" in page
