"""`rlclinic lint` as it is typed: three things to look at, one at a time, results on stdout, exit codes for scripts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlclinic.serve.cli.app import app
from tests.diagnosis import examined_envs
from tests.diagnosis.broken_twins import SCRIPTS, TWINS, broken

ENVS = str(Path(examined_envs.__file__))


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    twin = next(each for each in TWINS if each.id == "COD402")
    path = tmp_path / "train.py"
    path.write_text(broken(twin))
    return path


def test_a_script_is_answered_with_file_line_source_and_fix(script: Path) -> None:
    result = rlclinic("lint", "--code", str(script))
    assert result.exit_code == 0
    line = next(place for place, text in enumerate(script.read_text().splitlines(), 1) if "optimizer.step()" in text)
    assert f"HIGH     {script}:{line}  COD402 gradients-cleared-before-step" in result.stdout
    assert "| optimizer.step()" in result.stdout
    assert "fix: zero_grad(), backward(), step(), in this order." in result.stdout
    assert "rlclinic rules COD402" in result.stdout


def test_a_script_can_fail_a_build(script: Path) -> None:
    assert rlclinic("lint", "--code", str(script), "--fail-on", "high").exit_code == 5
    assert rlclinic("lint", "--code", str(script), "--fail-on", "high", "--ignore", "COD402").exit_code == 0
    assert rlclinic("lint", "--code", str(SCRIPTS), "--fail-on", "low").exit_code == 0


def test_a_project_switches_checks_off_in_its_own_file(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    (script.parent / "pyproject.toml").write_text('[tool.rlclinic]\nignore = ["COD402", "SET110", "ENV2", "THR"]\n')
    assert "nothing found" in rlclinic("lint", "--code", "train.py").stdout
    assert "SET110" not in rlclinic("lint", "CartPole-v1:ppo", "--set", "run.max_env_steps=5000").stdout
    (script.parent / "pyproject.toml").write_text('[tool.rlclinic]\nignore = ["XYZ"]\n')
    assert rlclinic("lint", "--code", "train.py").exit_code == 3


def test_json_holds_what_the_text_says(script: Path) -> None:
    told = json.loads(rlclinic("lint", "--code", str(script), "--json").stdout)["lint"]
    (finding,) = told["findings"]
    assert (finding["rule"], finding["severity"]) == ("COD402", "high")
    assert finding["evidence"][0]["series"].startswith(f"code:{script}:")


def test_where_a_mistake_was_written_and_where_it_is_felt_are_one_finding(script: Path) -> None:
    told = json.loads(rlclinic("lint", "--code", str(script), "--json").stdout)["lint"]
    assert [[place["text"] for place in each["evidence"]] for each in told["findings"]] == [["optimizer.step()", "optimizer.zero_grad()"]]
    lines = rlclinic("lint", "--code", str(script)).stdout.splitlines()
    assert sum("COD402" in line for line in lines) == 2, "the finding, and where to read of it"
    assert any(line.strip().startswith(f"| {script}:") and line.endswith("  optimizer.zero_grad()") for line in lines)


def test_a_script_that_is_no_python_ends_with_2_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = (\n")
    result = rlclinic("lint", "--code", str(tmp_path / "bad.py"))
    assert result.exit_code == 2
    assert "bad.py:1 is not Python" in result.stderr
    assert result.stdout == ""


def test_an_environment_is_answered_with_returns_scales_and_speed() -> None:
    result = rlclinic("lint", "--env", f"{ENVS}:LargeReward", "--seconds", "8", "--fail-on", "medium")
    assert result.exit_code == 5
    for part in ("ENV309 reward-scale", "observation    Box(", "action         Discrete(3)", "steps/s", "random", "action 2", "[0]"):
        assert part in result.stdout


def test_arguments_reach_the_environment() -> None:
    told = json.loads(rlclinic("lint", "--env", "FrozenLake-v1", "--env-arg", "is_slippery=false", "--seconds", "8", "--json").stdout)[
        "lint"
    ]
    assert {finding["rule"] for finding in told["findings"]} >= {"ENV205"}  # without slipping there is no chance left


def test_an_environment_registered_by_a_module_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(ENVS).read_text() + '\n\ngym.register("Line-v0", Walk, max_episode_steps=30)\n'
    (tmp_path / "line_envs.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    for target in ("line_envs:Line-v0", "line_envs:Walk", "line_envs.py:Walk"):
        result = rlclinic("lint", "--env", target, "--seconds", "8")
        assert result.exit_code == 0, result.stderr
        assert f"{target}: nothing found" in result.stdout


def test_an_unknown_environment_ends_with_3() -> None:
    result = rlclinic("lint", "--env", "CartPoel-v1", "--seconds", "8")
    assert result.exit_code == 3
    assert "CartPole-v1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to look at was given"),
        (["CartPole-v1:ppo", "--env", "CartPole-v1"], "different things to look at"),
        (["train.py"], "rlclinic lint --code train.py"),
        (["--env", "CartPole-v1", "--set", "algo.gamma=0.9"], "--set changes settings"),
        (["CartPole-v1:ppo", "--env-arg", "a=1"], "--env-arg is for --env"),
        (["--env", "CartPole-v1", "--env-arg", "nonsense"], "no KEY=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_type(arguments: list[str], message: str) -> None:
    result = rlclinic("lint", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("id", "name"), [("COD201", "log-prob-of-clipped-action"), ("ENV111", "observation-aliased"), ("SET101", "threshold-of-another-task")]
)
def test_rules_explains_a_check_by_id_and_by_name(id: str, name: str) -> None:
    by_id, by_name = rlclinic("rules", id), rlclinic("rules", name)
    assert by_id.exit_code == 0
    assert by_id.stdout == by_name.stdout
    for part in (f"{id} {name}", "Why it hurts", "When it is fine", "Fix", "References"):
        assert part in by_id.stdout


def test_rules_lists_the_checks_beside_the_rules() -> None:
    listed = rlclinic("rules").stdout
    assert all(id in listed for id in ("POL101", "COD101", "ENV101", "SET101"))


BLOCKED = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "gymnasium", "scipy", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from rlclinic.serve.cli.app import main
sys.argv = ["rlclinic", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize("arguments", [["CartPole-v1:ppo"], ["--code", str(SCRIPTS)]], ids=["settings", "code"])
def test_settings_and_scripts_are_looked_at_where_nothing_heavy_is_installed(arguments: list[str]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, "lint", *arguments], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "nothing found" in outcome.stdout


def test_an_environment_without_gymnasium_says_what_to_install() -> None:
    from rlclinic.errors import ConfigError
    from rlclinic.ops.diagnose import examine_env

    died = "ModuleNotFoundError: No module named 'gymnasium'"
    with pytest.raises(ConfigError, match=r"pip install .rlclinic\[train\]"):
        examine_env._read("", died, "CartPole-v1", 5.0, False, 1)
