"""The code of own environments: recorded with the run, found again from anywhere, and what has changed in it is said."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rlclinic
from rlclinic import own_code, trust
from rlclinic.config import files, set_values
from rlclinic.errors import NotFound
from rlclinic.ops.treat import sensitivity
from rlclinic.runs import env_code
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

ENV = "import gymnasium\nfrom helper import GOAL\n\nclass MyEnv(gymnasium.Env):\n    pass\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an environment, what it imports from beside it, and what it does not."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_env.py").write_text(ENV)
    (folder / "helper.py").write_text("import deeper\nGOAL = 5\n")
    (folder / "deeper.py").write_text("import json\n")
    (folder / "other.py").write_text("")
    monkeypatch.chdir(folder)
    return folder


def create(name: str = "my_env.py:MyEnv", root: str = "runs") -> Group:
    trust.approve(name)
    return Store(root).create_group([files.load(f"{name}:ppo").config])


def reread(group: Group, root: Path) -> Group:
    return Group(root / "@groups" / group.id)


def test_a_run_records_path_class_and_the_hash_of_every_file_that_its_environment_imports(project: Path) -> None:
    group = create()
    entry = json.loads((group.runs[0].path / "config.json").read_text())["env_code"]["my_env.py:MyEnv"]
    assert (entry["path"], entry["class"], entry["module"]) == (str(project / "my_env.py"), "MyEnv", None)
    assert list(entry["files"]) == ["my_env.py", "helper.py", "deeper.py"]
    assert env_code.hash_of(group.runs[0]) == env_code.hash_of(group) == entry["sha256"]
    assert group.record["env_code"]["my_env.py:MyEnv"] == entry


def test_registered_environments_record_nothing(project: Path) -> None:
    group = Store("runs").create_group([files.load("CartPole-v1:ppo").config])
    assert "env_code" not in group.runs[0].record
    assert env_code.hash_of(group) is None
    env_code.check_found(group)


def test_the_environment_is_found_from_another_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = create()
    assert Run(group.runs[0].path).config.env.id == "my_env.py:MyEnv"
    monkeypatch.chdir(tmp_path)
    assert reread(group, project / "runs").config.env.id == f"{project / 'my_env.py'}:MyEnv"


def test_the_same_file_name_elsewhere_is_not_taken_for_it(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = create()
    (tmp_path / "my_env.py").write_text("class MyEnv: pass\n")
    monkeypatch.chdir(tmp_path)
    assert reread(group, project / "runs").config.env.id == f"{project / 'my_env.py'}:MyEnv"


def test_a_project_that_was_moved_with_its_store_is_found(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = create()
    shutil.move(project, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    there = reread(group, tmp_path / "moved" / "runs")
    assert there.config.env.id == f"{tmp_path / 'moved' / 'my_env.py'}:MyEnv"
    assert env_code.list_changes(there) == []


def test_a_store_that_was_moved_alone_still_knows_the_file(project: Path, tmp_path: Path) -> None:
    group = create()
    shutil.move(project / "runs", tmp_path / "archive")
    assert reread(group, tmp_path / "archive").config.env.id == "my_env.py:MyEnv"


def test_a_change_in_an_imported_file_is_said_with_its_name(project: Path) -> None:
    group = create()
    (project / "other.py").write_text("changed = True\n")
    assert env_code.describe_changes(group, "it matters") is None
    (project / "deeper.py").write_text("changed = True\n")
    (project / "helper.py").write_text("import deeper\nimport other\nGOAL = 5\n")
    said = env_code.describe_changes(group, "it matters")
    assert said == f"helper.py has changed, deeper.py has changed, other.py is new since {group.id} was trained: it matters"


def test_a_study_of_a_group_says_what_has_changed_in_its_environment(project: Path) -> None:
    group, store = create(), Store(project / "runs")
    assert sensitivity.describe_changes(store, group.id, group.config) == []
    (project / "helper.py").write_text("GOAL = 5\n")
    (said,) = sensitivity.describe_changes(store, group.id, group.config)
    assert said.startswith("helper.py has changed")
    assert f"since {group.id} was trained: all runs train in the environment as it is today" in said
    elsewhere = set_values(group.config, ["env.id=CartPole-v1"])
    assert sensitivity.describe_changes(store, group.id, elsewhere) == []


def test_a_renamed_file_is_an_error_that_names_the_file_of_the_same_content_and_what_to_type(project: Path) -> None:
    group = create()
    (project / "my_env.py").rename(project / "renamed.py")
    with pytest.raises(NotFound) as raised:
        env_code.check_found(group)
    text = str(raised.value)
    assert str(project / "my_env.py") in text
    assert f"rlclinic evaluate {group.id} --env {project / 'renamed.py'}:MyEnv" in text
    assert f"rlclinic train {group.id}@last --set env.id={project / 'renamed.py'}:MyEnv" in text


def test_a_class_in_a_package_is_found_and_made_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    package = tmp_path / "project" / "own_package_of_a_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("SIZE = 3\n")
    (package / "envs.py").write_text("import gymnasium\nfrom .sizes import SIZE\n\nclass MyEnv(gymnasium.Env):\n    size = SIZE\n")
    monkeypatch.chdir(package.parent)
    group = create("own_package_of_a_test.envs:MyEnv")
    code = own_code.read_record(group.record)[0]
    assert (code.module, list(code.files)) == (
        "own_package_of_a_test.envs",
        [f"own_package_of_a_test/{name}.py" for name in ("envs", "__init__", "sizes")],
    )
    monkeypatch.chdir(tmp_path)
    name = reread(group, package.parent / "runs").config.env.id
    assert name == f"{package / 'envs.py'}:MyEnv"
    from rlclinic.training.envs import modules

    assert modules.import_home(name.rpartition(":")[0], name).MyEnv.size == 3


def test_what_a_damaged_or_strangers_record_says_about_code_harms_nothing(project: Path) -> None:
    group = create()
    file = group.runs[0].path / "config.json"
    record = json.loads(file.read_text())
    whole = record["env_code"]["my_env.py:MyEnv"]
    damages: list[Any] = [7, [], {"x": 3}, {"x": {"files": 3}}, {"x": {**whole, "path": "/dev/zero"}}, {"x": {**whole, "class": None}}]
    for damaged in damages:
        file.write_text(json.dumps({**record, "env_code": damaged}))
        run = Run(file.parent)
        assert run.config.env.id == "my_env.py:MyEnv"
        assert env_code.list_changes(run) == []
    file.write_text(json.dumps({**record, "env_code": {"my_env.py:MyEnv": {**whole, "path": "/nowhere/x.py", "from_store": "\0"}}}))
    assert Run(file.parent).config.env.id == "my_env.py:MyEnv"


def test_a_run_from_before_the_recording_reads_as_it_did(project: Path) -> None:
    group = create()
    file = group.runs[0].path / "config.json"
    record = json.loads(file.read_text())
    del record["env_code"]
    file.write_text(json.dumps(record))
    run = Run(file.parent)
    assert run.config.env.id == "my_env.py:MyEnv"
    assert env_code.hash_of(run) is None
    env_code.check_found(run)


def test_files_that_import_each_other_or_cannot_be_parsed_are_hashed_once(project: Path) -> None:
    (project / "deeper.py").write_text("import helper\nimport broken\n")
    (project / "broken.py").write_text("def (:\n")
    code = own_code.describe("my_env.py:MyEnv")
    assert code is not None
    assert list(code.files) == ["my_env.py", "helper.py", "deeper.py", "broken.py"]


def test_the_class_of_a_script_is_recorded_by_its_file() -> None:
    code = own_code.describe_object(rlclinic.train)
    assert code is not None
    assert code.is_object
    assert code.path.name == "python.py"
