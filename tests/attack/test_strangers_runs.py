"""A stranger's run folder or log names code: it is run only after an explicit yes. A user's own runs need none."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlclinic import own_code, trust
from rlclinic.errors import Untrusted
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from rlclinic.treatment.trial import arms, conduct
from tests.attack.planted import Planted, plant
from tests.ops.recorded import add_checkpoint, record_group

SMALL = ["--set", "env.n_envs=2", "--set", "algo.n_steps=32", "--set", "algo.batch_size=64", "--max-env-steps", "128"]
TRIED = ("--set", "algo.gamma=0.9", "--yes")


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def strangers_group(planted: Planted) -> str:
    """A group in ./runs that somebody else made: its config names their code."""
    group = record_group(Path("runs"), seeds=(0, 1), state="stopped")
    for file in [run.path / "config.json" for run in group.runs] + [group.path / "group.json"]:
        record = json.loads(file.read_text())
        record["env"]["id"] = planted.env
        file.write_text(json.dumps(record))
    for member in group.runs:
        add_checkpoint(member.path, 10_240, best=True)
    return group.id


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "{group}"),
        ("play", "{group}", "--render", "none"),
        ("train", "{group}"),
        ("train", "--resume", "{group}"),
        ("train", "{group}-s0@10240"),
        ("trial", "{group}", "--set", "algo.learning_rate=1e-4", "--yes"),
        ("optimize", "{group}", "--budget", "1000000", "--yes"),
        ("sensitivity", "{group}", "--yes"),
        ("diagnose", "{group}"),
        ("lint", "{group}"),
        ("prescribe", "{group}"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_a_strangers_run_names_is_not_run_unasked(planted: Planted, words: tuple[str, ...]) -> None:
    group = strangers_group(planted)
    result = run(*(word.format(group=group) for word in words))
    assert not planted.was_run, result.output
    if words[0] not in ("diagnose", "lint", "prescribe"):
        assert result.exit_code == 2, result.output
        assert "--trust" in result.output


@pytest.mark.usefixtures("project")
def test_an_explicit_yes_runs_it_and_is_remembered(planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("train", planted.env, *SMALL).exit_code == 0
    monkeypatch.setenv("RLCLINIC_STATE", str(tmp_path / "another user"))
    monkeypatch.setenv("RLCLINIC_APPROVED", "[]")
    assert run("evaluate", "@last", "-n", 1).exit_code == 2
    assert run("evaluate", "@last", "-n", 1, "--trust").exit_code == 0
    assert run("evaluate", "@last", "-n", 1).exit_code == 0


@pytest.mark.usefixtures("project")
def test_code_that_a_log_names_is_not_run_by_training_what_was_imported(planted: Planted, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    lines = ["global_step,charts/episodic_return", *(f"{step},{step / 100}" for step in range(1000, 20_000, 1000))]
    (log / "progress.csv").write_text("\n".join(lines))
    settings = {"env_id": planted.env, "algo": "ppo", "learning_rate": 3e-4, "num_envs": 2, "total_timesteps": 20_000, "seed": 1}
    (log / "args.json").write_text(json.dumps(settings))
    imported = run("import", log)
    assert imported.exit_code == 0, imported.output
    for words in (("train", "@last"), ("trial", "@last", *TRIED), ("trial", log, *TRIED)):
        result = run(*words)
        assert result.exit_code != 0
        assert f"train {planted.file}" not in result.output  # a command that would run it if somebody typed it
        assert not planted.was_run


def test_own_runs_ask_nothing_also_after_the_code_was_edited_and_the_project_moved(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = plant(project, "own")
    trained = run("train", "own.py:Env", *SMALL)
    assert trained.exit_code == 0, trained.output
    assert run("evaluate", "@last", "-n", 1).exit_code == 0
    own.file.write_text(own.file.read_text() + "\n# edited\n")
    assert run("evaluate", "@last", "-n", 1).exit_code == 0
    assert run("train", "@last", *SMALL).exit_code == 0
    own.file.write_text(own.file.read_text().replace("\n# edited\n", ""))
    shutil.move(project, tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    for name in [name for name in sys.modules if name == "own"]:
        del sys.modules[name]
    trust.check("own.py:Env")


@pytest.mark.usefixtures("project")
def test_the_same_name_in_a_strangers_folder_is_other_code(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(project, "own")
    trust.approve("own.py:Env")
    theirs = plant(tmp_path / "theirs", "own")
    monkeypatch.chdir(tmp_path / "theirs")
    with pytest.raises(Untrusted):
        trust.check("own.py:Env")
    assert not theirs.was_run


@pytest.mark.usefixtures("project")
def test_a_command_in_a_strangers_trial_is_not_run_by_resuming_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    made = arms.commands(f"touch {mark} {{seed}} {{x}}", ["x=1", "x=2"])
    plan = conduct.plan(made[0], made[1:], outcome="return", per_look=2, looks=1)
    with pytest.raises(Untrusted):
        conduct.run(Store("runs"), plan)
    assert not mark.exists()


def test_a_server_that_is_read_only_runs_not_even_what_was_approved(project: Path) -> None:
    plant(project, "own")
    trust.approve("own.py:Env")
    with trust.limited(trust.Limits(run=False, folders=(project,))), pytest.raises(Untrusted, match="read-only"):
        trust.check("own.py:Env")


def test_a_home_that_cannot_be_written_to_still_runs_what_was_typed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCLINIC_STATE", "/proc/nowhere")
    plant(project, "own")
    trust.approve("own.py:Env")
    trust.check("own.py:Env")


def test_modules_in_a_virtual_environment_of_the_project_are_not_the_projects(project: Path) -> None:
    file = project / ".venv" / "lib" / "site-packages" / "pip.py"
    limits = trust.Limits(folders=(project.resolve(),))
    assert not limits.allow(file)
    assert limits.allow(project / "envs" / "mine.py")


def test_importing_is_refused_where_the_names_module_is(planted: Planted) -> None:
    from rlclinic.training.envs import modules

    with pytest.raises(Untrusted):
        modules.import_home(str(planted.file), planted.env)
    assert not planted.was_run


def test_a_package_with_the_same_empty_init_is_other_code(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in ((project, "mine"), (tmp_path / "theirs", "evil")):
        plant(folder / name, "envs")
        (folder / name / "__init__.py").write_text("")
    trust.approve("mine.envs:Env")
    monkeypatch.chdir(tmp_path / "theirs")
    with pytest.raises(Untrusted):
        trust.check("evil.envs:Env")


@pytest.mark.parametrize("beside", ["helper.py", "gzip.py", "gzip/__init__.py", "gzip.so"])
def test_a_copy_of_approved_code_among_a_strangers_files_is_other_code(project: Path, tmp_path: Path, beside: str) -> None:
    """What it imports is looked for beside it first."""
    own = plant(project, "own")
    (project / "helper.py").write_text("x = 1\n")
    trust.approve("own.py:Env")
    theirs = tmp_path / "theirs"
    shutil.copytree(project, theirs)
    trust.check(f"{theirs / own.file.name}:Env")
    (theirs / beside).parent.mkdir(exist_ok=True)
    (theirs / beside).write_text("import os\n")
    with pytest.raises(Untrusted):
        trust.check(f"{theirs / own.file.name}:Env")


def test_a_run_that_says_where_its_code_lies_now_has_it_run_no_sooner(project: Path, tmp_path: Path) -> None:
    own = plant(project, "own")
    trust.approve("own.py:Env")
    theirs = plant(tmp_path / "theirs", "own")
    group = strangers_group(own)
    files = [run.path / "config.json" for run in group_runs(group)] + [Path("runs") / "@groups" / group / "group.json"]
    for file in files:
        record = json.loads(file.read_text())
        record["env"]["id"] = "own.py:Env"
        code = {"path": str(theirs.file), "from_store": "../own.py", "module": None, "class": "Env", "sha256": "x", "files": {}}
        file.write_text(json.dumps(record | {"env_code": {"own.py:Env": code}}))
    for words in (
        ("evaluate", group),
        ("train", "--resume", group),
        ("diagnose", group),
        ("runs", "list"),
        ("sensitivity", group, "--yes"),
    ):
        run(*words)
        assert not theirs.was_run, words


def group_runs(group: str) -> Any:
    return Store("runs").group(group).runs


def test_code_beside_a_strangers_run_is_not_parsed_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    follow = own_code._list_imports
    monkeypatch.setattr(own_code, "_list_imports", lambda content, *where: (sizes.append(len(content)), [*follow(content, *where)])[1])
    for number in range(40):
        (tmp_path / f"m{number}.py").write_text(f"import m{number + 1}\nx = [" + "1," * 5_000 + "]\n")
    (tmp_path / "m0.py").write_text("import m1\n")
    (tmp_path / "large.py").write_text("import m0\nx = [" + "1," * 500_000 + "]\n")
    for name in ("m0", "large"):
        described = own_code.describe_file(f"{name}.py:Env", tmp_path / f"{name}.py", None, "Env")
        assert described.files
        assert sum(sizes) <= own_code.MOST_PARSED
        sizes.clear()
