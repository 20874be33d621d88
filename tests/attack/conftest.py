"""What a stranger may try: nothing of theirs is trusted here, and what they planted leaves a mark when it runs."""

from pathlib import Path

import pytest

from tests.attack.planted import Planted, plant


@pytest.fixture(autouse=True)
def _a_user_who_has_approved_nothing(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLCLINIC_TRUST", raising=False)
    monkeypatch.setenv("RLCLINIC_APPROVED", "[]")
    monkeypatch.setenv("RLCLINIC_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """A stranger's environment, outside of the working folder."""
    return plant(tmp_path / "elsewhere")
