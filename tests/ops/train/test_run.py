"""The processes here run tests.ops.fake_trainer instead of rlclinic.training; everything around them is real."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.launch import local
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.train import run
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.report.models import LiveGroup, TrainResult
from rlclinic.runs.store import Store

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def fake_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    start = local.start
    monkeypatch.setattr(local, "start", lambda cohorts, **how: start(cohorts, **{**how, "module": "tests.ops.fake_trainer"}))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def train(root: Path, watch: run.TrainingWatch | None = None, say: run.Say | None = None, **request: object) -> TrainResult:
    asked = {"ref": "CartPole-v1:ppo_zoo", "max_env_steps": 1024, "jobs": 2, **request}
    return run.train(plan_training(TrainRequest(runs_dir=root, **asked)), watch, say)  # type: ignore[arg-type]


def when(condition: Callable[[], bool], action: Callable[[], None]) -> threading.Thread:
    """Do something from another thread as soon as a condition holds."""

    def wait() -> None:
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def is_running(root: Path) -> bool:
    return any(run.status.state == "running" for run in Store(root).runs())


def test_a_group_is_trained_reported_and_shown_on_the_way(root: Path) -> None:
    shown: list[LiveGroup] = []
    result = train(root, watch=shown.append, seeds=3, name="mine")
    assert result.report is not None
    assert (result.report.verdict, result.report.n_reached, result.signal, result.failed) == ("SOLVED", 3, None, [])
    assert [Path(file).name for file in result.files] == ["report.md", "report.html", "solution.yaml", "diagnosis.json", "curve.png"]
    assert shown[-1].state == "finished"
    assert Store(root).group(result.group).label == "mine"


def test_a_config_that_is_trained_again_remembers_whose_it_was(root: Path) -> None:
    first = train(root)
    again = train(root, ref=first.group, changes=["algo.gamma=0.9"])
    assert Store(root).group(again.group).record["repeats"] == first.group
    assert Store(root).group(again.group).parent is None
    assert "repeats" not in Store(root).group(first.group).record


def test_it_ends_with_what_the_diagnosis_found(root: Path) -> None:
    result = train(root, seeds=3)
    assert result.finding is not None
    assert result.finding.cause in ("healthy", "too-early")
    assert result.finding.command == f"rlclinic diagnose {result.group} --runs-dir {root}"
    assert (Store(root).group(result.group).path / "diagnosis.json").exists()


def test_without_a_report_nothing_is_written_beside_the_runs(root: Path) -> None:
    result = train(root, report=False)
    assert result.files == []
    assert result.report is not None
    assert result.report.verdict == "SOLVED"
    assert [file.name for file in Store(root).group(result.group).path.iterdir()] == ["group.json"]


def test_seeds_are_spread_over_the_jobs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[list[Path]]] = []
    real = local.start
    monkeypatch.setattr(local, "start", lambda cohorts, **how: (seen.append([list(c) for c in cohorts]), real(cohorts, **how))[1])
    train(root, seeds=4, jobs=2, report=False)
    assert [len(cohort) for cohort in seen[0]] == [2, 2]


def test_the_first_signal_stops_after_a_checkpoint(root: Path) -> None:
    said: list[str] = []
    when(lambda: is_running(root), lambda: os.kill(os.getpid(), signal.SIGINT))
    result = train(root, say=said.append, name="slow", seeds=2)
    assert result.signal == "SIGINT"
    assert result.failed == []
    assert {run.status.state for run in Store(root).runs()} == {"stopped"}
    assert said == ["stopping after a checkpoint; once more aborts"]
    assert result.report is not None
    assert result.report.next == [f"rlclinic train --resume {result.group} --runs-dir {root}"]


def test_a_signal_while_processes_are_starting_is_a_stop_and_no_failure(root: Path) -> None:
    when(lambda: bool(Store(root).runs()), lambda: os.kill(os.getpid(), signal.SIGINT))
    result = train(root, name="slow", seeds=2)
    assert (result.signal, result.failed) == ("SIGINT", [])
    assert {run.status.state for run in Store(root).runs()} == {"stopped"}


def test_the_second_signal_aborts(root: Path) -> None:
    def terminate() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    said: list[str] = []
    when(lambda: is_running(root), terminate)
    when(lambda: bool(said), terminate)
    result = train(root, say=said.append, name="stubborn")
    assert result.signal == "SIGTERM"
    assert ["stopping" in said[0], "aborting" in said[1]] == [True, True]
    assert Store(root).runs()[0].status.state == "stopped"


def test_signals_are_back_to_what_they_were_afterwards(root: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    train(root, report=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_failed_run_is_named_with_its_reason(root: Path) -> None:
    result = train(root, name="broken")
    assert result.failed == result.runs
    assert result.report is not None
    assert result.report.verdict == "FAILED"
    assert result.report.seeds[0].reason == "reward is NaN\n  look at it"


def test_a_process_that_dies_without_a_word_counts_as_failed(root: Path) -> None:
    result = train(root, name="crash")
    assert result.failed == result.runs
    assert result.report is not None
    assert "the simulator is on fire" in str(result.report.seeds[0].reason)


def test_a_run_whose_death_could_not_be_written_down_counts_as_failed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer that is killed while the disk is full leaves a run that still says that it waits."""
    monkeypatch.setattr(local.launcher_status, "close", lambda *_: False)
    result = train(root, name="crash")
    assert result.failed == result.runs
    assert {run.status.state for run in Store(root).runs()} == {"queued"}


def test_resumed_runs_go_on_in_their_own_group(root: Path) -> None:
    when(lambda: is_running(root), lambda: os.kill(os.getpid(), signal.SIGINT))
    stopped = train(root, name="slow", seeds=2, report=False)
    group = Store(root).group(stopped.group)
    path = group.path / "group.json"
    for file in (path, *(member.path / "config.json" for member in group.runs)):
        file.write_text(file.read_text().replace('"slow"', '"fast"'))
    resumed = train(root, ref=None, max_env_steps=None, resume=stopped.group)
    assert (resumed.group, resumed.runs) == (stopped.group, stopped.runs)
    assert {run.status.state for run in Store(root).runs()} == {"finished"}


def test_detached_training_returns_at_once_and_can_be_asked_to_stop(root: Path) -> None:
    from rlclinic.ops.status import status

    result = train(root, name="slow", detach=True)
    assert result.detached
    assert result.report is None
    deadline = time.monotonic() + 20
    while not is_running(root) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert status.get_training_status(None, root).groups[0].id == result.group
    run = Store(root).runs()[0]
    assert run.status.pid is not None
    os.kill(run.status.pid, signal.SIGTERM)
    while run.status.live and time.monotonic() < deadline:
        time.sleep(0.05)
    assert run.status.state == "stopped"


FARM = """
import gymnasium, numpy

class Farm(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, int(self.np_random.integers(0, 3))
        return self.see(), {}

    def see(self):
        return numpy.array([self.x / 10, self.t / 100], numpy.float32)

    def step(self, action):
        self.t, self.x = self.t + 1, max(0, self.x + int(action) - 1)
        reward = 0.2 * (self.x <= 2) + (self.x >= 10)
        return self.see(), float(reward), self.x >= 10, self.t >= 100, {"is_success": self.x >= 10}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "farm.py").write_text(FARM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examine(project: Path, **request: object) -> tuple[list[str], list[str]]:
    """The rules that found something before a training, and what was said."""
    said: list[str] = []
    asked = {"max_env_steps": 4096, "runs_dir": project / "runs", **request}
    findings = run.examine_own_environment(plan_training(TrainRequest(**asked)), said.append)  # type: ignore[arg-type]
    return [finding.rule for finding in findings], said


def test_an_own_environment_is_looked_at_before_it_is_trained_on(project: Path) -> None:
    rules, said = examine(project, ref="farm.py:Farm:ppo")
    assert "ENV214" in rules
    assert said[0].startswith("HIGH     ENV214")
    assert "fix: " in said[1]
    assert "rlclinic lint --env farm.py:Farm" in said[-1]
    assert "--no-lint-env" in said[-1]


def test_what_cannot_be_made_is_refused_before_a_group_is_made(project: Path) -> None:
    """Training would fail for the same reason, half a minute later and with a failed group in the store."""
    with pytest.raises(NotFound, match=r"there is no class or function Barn in farm\.py"):
        run.train(plan_training(TrainRequest(ref="farm.py:Barn:ppo", max_env_steps=4096, runs_dir=project / "runs")))
    (project / "torn.py").write_text("def f(:\n")
    with pytest.raises(ConfigError, match="SyntaxError"):
        run.train(plan_training(TrainRequest(ref="torn.py:Barn:ppo", max_env_steps=4096, runs_dir=project / "runs")))
    assert not list((project / "runs").glob("g*"))


def test_code_that_was_trained_on_before_is_looked_at_again_only_if_it_has_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def lint_env(target: str, kwargs: object, *, seconds: float) -> object:
        looked.append(target)
        raise UsageError("it is looked at")

    monkeypatch.setattr(run.lint, "lint_env", lint_env)
    group, _ = run.create_group(plan_training(TrainRequest(ref="farm.py:Farm:ppo", max_env_steps=4096, runs_dir=project / "runs")))
    assert examine(project, ref=group.id) == ([], [])
    assert looked == []
    (project / "farm.py").write_text(FARM + "\n# changed\n")
    assert examine(project, ref=group.id)[1] == ["farm.py:Farm could not be examined before training: it is looked at"]
    assert looked == ["farm.py:Farm"]
    examine(project, ref="farm.py:Farm:ppo", lint_env=False)
    examine(project, ref="CartPole-v1:ppo")
    assert looked == ["farm.py:Farm"]


def test_training_of_an_own_environment_ends_with_what_a_diagnosis_says_of_both(project: Path) -> None:
    def read_kept(result: TrainResult) -> dict[str, Any]:
        return json.loads((project / "runs" / "@groups" / result.group / "diagnosis.json").read_text())

    said: list[str] = []
    sick = {"ref": "farm.py:Farm:ppo", "max_env_steps": 4096, "changes": ["spec.threshold=2000"]}
    result = train(project / "runs", say=said.append, **sick)
    report = diagnose.diagnose(result.group, project / "runs", own_env=True, write=False)
    assert report.diagnosis.witness is not None
    assert read_kept(result)["witness"] | {"seconds": 0} == report.diagnosis.witness.model_dump(mode="json") | {"seconds": 0}
    assert "looking at farm.py:Farm: what is wrong may lie there" in said
    said.clear()
    assert read_kept(train(project / "runs", say=said.append, **sick, lint_env=False))["witness"] is None
    assert not said
