"""Laws are tested by what they see; how loud they may speak is another matter, and has tests of its own (test_precedents.py)."""

import pytest

from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.code import precedents


@pytest.fixture(autouse=True)
def every_law_has_its_precedent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.module.__name__.rpartition(".")[2] != "test_precedents":
        monkeypatch.setattr(precedents, "ceiling", lambda law: Severity.HIGH)
