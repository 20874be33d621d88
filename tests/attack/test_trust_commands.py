"""Code that was trusted can be seen and taken back; what was taken back asks again, wherever it lies."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlclinic import trust
from rlclinic.errors import Untrusted
from rlclinic.serve.cli.app import app
from tests.attack.planted import Planted

pytestmark = pytest.mark.usefixtures("project")


def rlclinic(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def listed() -> list[dict[str, Any]]:
    trusted: list[dict[str, Any]] = json.loads(rlclinic("trust", "list", "--json").stdout)["trusted"]
    return trusted


def test_what_is_trusted_is_listed_and_said_to_have_changed(planted: Planted) -> None:
    assert listed() == []
    assert rlclinic("trust", "add", planted.env).exit_code == 0
    assert not planted.was_run, "saying yes runs nothing"
    (entry,) = listed()
    assert (entry["named"], entry["unchanged"]) == (planted.env, True)
    Path(planted.env.rpartition(":")[0]).write_text("# another\n")
    assert [entry["unchanged"] for entry in listed()] == [False]
    assert "changed since" in rlclinic("trust", "list").stdout


@pytest.mark.parametrize("form", ["whole", "file", "relative"])
def test_what_is_taken_back_asks_again(planted: Planted, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trust.approve(planted.env)
    trust.check(planted.env)
    path = Path(planted.env.rpartition(":")[0])
    monkeypatch.chdir(path.parent)
    name = {"whole": planted.env, "file": str(path), "relative": path.name}[form]
    result = rlclinic("trust", "remove", name)
    assert result.exit_code == 0, result.stderr
    assert listed() == []
    with pytest.raises(Untrusted):
        trust.check(planted.env)


def test_a_copy_is_taken_back_with_what_let_it_in(planted: Planted, tmp_path: Path) -> None:
    path, _, inside = planted.env.rpartition(":")
    copy = tmp_path / "moved" / Path(path).name
    shutil.copytree(Path(path).parent, copy.parent)
    trust.approve(planted.env)
    trust.check(f"{copy}:{inside}")
    trust.approve("command: python train.py")
    assert rlclinic("trust", "remove", planted.env).exit_code == 0
    with pytest.raises(Untrusted):
        trust.check(f"{copy}:{inside}")
    assert [entry["code"] for entry in listed()] == ["command: python train.py"]


def test_what_is_not_trusted_cannot_be_taken_back_and_no_name_is_taken_for_code(planted: Planted) -> None:
    assert rlclinic("trust", "remove", "no.py:Such").exit_code == 3
    assert rlclinic("trust", "add", "CartPole-v1").exit_code == 2
    assert rlclinic("trust", "add", "no_such_file.py:Env").exit_code == 3
    assert listed() == []


def test_a_name_with_control_characters_is_shown_as_text(planted: Planted) -> None:
    trust.approve("command: echo \x1b[2J\u202e")
    shown = rlclinic("trust", "list").stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
