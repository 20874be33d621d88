"""`new env`: what it writes passes its own tests and trains as it is, nothing is overwritten, and bad input says what to type."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rlclinic
from rlclinic.config import load
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose.requests import NewEnvRequest
from rlclinic.ops.tasks import scaffold
from rlclinic.ops.tasks.new_env import read_space, write_environment
from rlclinic.serve.cli.app import app

OPTIONS = {
    "reacher": {"difficulty": "0..1"},
    "point_mass": {"obs": "dict:3", "action": "discrete:5", "difficulty": "1..10", "terms": "goal,progress,effort,comfort"},
    "walk2d": {"obs": "discrete:12", "action": "box:2", "terms": "task,time,safety"},
    "short_line": {"obs": "discrete:5", "action": "discrete:4", "terms": "task", "difficulty": "0..1"},  # chance gets there, too
}
NAMES = {"reacher": "Reacher", "point_mass": "PointMass", "walk2d": "Walk2d", "short_line": "ShortLine"}


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(folder: str, **options: str) -> None:
    write_environment(NewEnvRequest(name=NAMES.get(folder, "Task"), to=Path(folder), **(options or OPTIONS[folder])))


def test_what_is_written_passes_its_own_tests() -> None:
    for folder in OPTIONS:
        write(folder)
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OPTIONS], capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stdout
    assert "failed" not in outcome.stdout
    assert int(outcome.stdout.split(" passed")[0].split()[-1]) > 40


def test_the_tests_fail_where_the_environment_is_changed_for_the_worse() -> None:
    write("reacher")
    path = Path("reacher/reacher.py")
    path.write_text(path.read_text().replace("0.8 * self.difficulty", "0.8 * (1 - self.difficulty)"))
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "reacher"], capture_output=True, text=True, check=False
    )
    assert "1 failed" in outcome.stdout
    assert "test_a_higher_difficulty_is_harder" in outcome.stdout


@pytest.mark.parametrize("folder", ["reacher", "walk2d"])
def test_it_trains_as_it_is_and_logs_its_terms(folder: str) -> None:
    write(folder)
    config = load(f"{folder}/{folder}.yaml", ["run.max_env_steps=1024", "algo.n_epochs=1", "run.eval_every_env_steps=1024"]).config
    run = rlclinic.train(config).runs[0]
    logged = (run.path / "metrics.csv").read_text().splitlines()[0]
    for term in (OPTIONS[folder].get("terms") or "task,progress,safety").split(","):
        assert f"train/terms/{term}/return" in logged


def test_linting_it_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    write("reacher")
    monkeypatch.syspath_prepend("reacher")
    from reacher import Reacher  # type: ignore[import-not-found]  # written just now

    found = rlclinic.lint_env(Reacher, seconds=2.0)
    assert [finding.text for finding in found.findings] == []
    for name in ("reacher", "reacher_terms"):
        sys.modules.pop(name)


OBS = ["box:1", "box:2", "box:3", "box:5", "box:9", "box:40", "dict:4", "image:12", "image:36", "discrete:4", "discrete:30"]
ACTION = ["box:1", "box:2", "box:7", "discrete:2", "discrete:3", "discrete:4", "discrete:9"]
CHOICES = ["multidiscrete:3", "multidiscrete:2x2", "multidiscrete:2x3x2", "multidiscrete:5x4x3x2"]


@pytest.mark.parametrize("obs", OBS)
@pytest.mark.parametrize("action", ACTION + CHOICES)
def test_every_combination_of_spaces_can_be_played(obs: str, action: str) -> None:
    spaces = (
        read_space("obs", obs, ("box", "dict", "image", "discrete")),
        read_space("action", action, ("box", "discrete", "multidiscrete")),
    )
    design = scaffold.Design("Task", *spaces, (0.0, 2.0), ("task", "progress", "effort"))
    files = scaffold.write(design, "task")
    spoken: dict[str, object] = {}
    exec(files["task_terms.py"], spoken)
    body = files["task.py"].replace("from task_terms import make_rewards, measure", "")
    exec(body, spoken)
    env = spoken["Task"](difficulty=1.0)  # type: ignore[operator]
    obs_now, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(20):
        assert env.observation_space.contains(obs_now), obs_now
        obs_now, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert np.isfinite(reward)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        if terminated or truncated:
            obs_now, _ = env.reset()
    # The scripted policy of its tests reaches the goal.
    tests = files["test_task.py"]
    exec(tests[tests.index("def go_to_goal") : tests.index("def go_at_random")], spoken)
    for seed in range(5):
        env.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step(spoken["go_to_goal"](env))  # type: ignore[operator]
            ended = terminated or truncated
        assert terminated
    compile(tests, "test_task.py", "exec")


def test_nothing_is_overwritten() -> None:
    write("reacher")
    mine = Path("reacher/reacher_terms.py")
    mine.write_text("mine")
    for name in ("reacher.py", "reacher.yaml", "test_reacher.py"):
        Path("reacher", name).unlink()
    with pytest.raises(UsageError, match=r"reacher_terms\.py is there already"):
        write("reacher")
    assert mine.read_text() == "mine"
    assert not Path("reacher/reacher.py").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"obs": "box:0"}, "from 1 to 1,000"),
        ({"obs": "video:84"}, "no space"),
        ({"obs": "image:4"}, "from 12 to 256"),
        ({"obs": "multidiscrete:3x3"}, "no space"),
        ({"action": "multidiscrete:3x1"}, "2 to 100"),
        ({"action": "multidiscrete:3x"}, "no space"),
        ({"action": "image:36"}, "no space"),
        ({"obs": "box"}, "no space"),
        ({"action": "dict:2"}, "no space"),
        ({"action": "discrete:1"}, "from 2"),
        ({"obs": "discrete:3"}, "nothing to learn"),
        ({"obs": "discrete:4", "action": "discrete:9"}, "One step would do the task from everywhere"),
        ({"difficulty": "1..0"}, "does not rise"),
        ({"difficulty": "hard"}, "0..1"),
        ({"terms": "task,task"}, "twice"),
        ({"terms": "task,"}, "name of a term"),
        ({"terms": "task,lambda"}, "name of a term"),
        ({"terms": "task,measure"}, "name of a term"),
    ],
)
def test_bad_input_says_what_to_type_and_writes_nothing(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write("task", **options)
    assert not Path("task").exists()


@pytest.mark.parametrize("name", ["Random", "Queue", "Numpy", "Yaml", "Test"])
def test_a_name_whose_file_would_hide_a_module_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"hides the module {name.lower()}(?s:.*)Try: {name}Task"):
        write_environment(NewEnvRequest(name=name))
    assert not Path(name.lower()).exists()


@pytest.mark.parametrize("name", ["Class", "While", "Lambda"])
def test_a_name_whose_file_would_be_a_word_of_python_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"a word of Python(?s:.*)Try: {name}Task"):
        write_environment(NewEnvRequest(name=name))
    assert not Path(name.lower()).exists()


@pytest.mark.parametrize(("name", "offered"), [("my reacher", "MyReacher"), ("Reacher-v0", "Reacher"), ("3d_arm", "DArm"), ("", "Reacher")])
def test_a_name_that_is_no_class_is_answered_with_one(name: str, offered: str) -> None:
    with pytest.raises(UsageError, match=f"Try: {offered}"):
        write_environment(NewEnvRequest(name=name))


def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no folder far/away"):
        write_environment(NewEnvRequest(name="Task", to=Path("far/away/task")))


def test_the_command_says_what_to_do_next() -> None:
    outcome = CliRunner().invoke(app, ["new", "env", "Reacher", "--obs", "box:8", "--action", "box:2", "--json"])
    assert outcome.exit_code == 0, outcome.output
    said = json.loads(outcome.stdout)
    assert said["env"] == "reacher/reacher.py:Reacher"
    assert "rlclinic lint --env reacher/reacher.py:Reacher" in said["next"]
