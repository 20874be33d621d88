from importlib import metadata
from pathlib import Path

import pytest

from rlclinic import plugins


def install(folder: Path, name: str) -> None:
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[rlclinic.tried]\n{name} = {name}:thing\n")


def test_a_package_that_is_installed_while_the_process_runs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not plugins.entry_points(group="rlclinic.tried")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("first", "second"):
        install(tmp_path, name)
        assert name in {entry.name for entry in plugins.entry_points(group="rlclinic.tried")}
    monkeypatch.undo()
    assert not plugins.entry_points(group="rlclinic.tried")


def test_installed_packages_are_not_looked_through_for_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.entry_points(group="rlclinic.algorithms")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: pytest.fail("they were looked through again"))
    plugins.entry_points(group="rlclinic.algorithms")
