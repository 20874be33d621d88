"""An environment that reports success is solved by success: trained, evaluated, listed and reported."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rlclinic
from rlclinic import readers
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.runs.listing import list_runs
from rlclinic.report.group import describe_group, headline, markdown
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app as command_line

ENV = '''
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Shift(gym.Env):
    """Ten steps that pay one each, whatever is done; `success` says whether the work was done, too."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, key="is_success", done=1.0, silent=False):
        self.key, self.share, self.silent = key, done, silent

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken, self.works = 0, self.np_random.uniform() < self.share
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken += 1
        ends = self.taken >= 10
        info = {self.key: bool(self.works)} if ends and (self.works or not self.silent) else {}
        return np.zeros(1, np.float32), 1.0, ends, False, info
'''


def train(folder: Path, *more: str, threshold: str = "5") -> Group:
    (folder / "shift.py").write_text(ENV)
    changes = [
        f"spec.threshold={threshold}", "env.n_envs=2", "algo.n_steps=32", "algo.batch_size=32", "net.hidden=[4]", "run.max_env_steps=256",
        "run.eval_every_env_steps=64", "run.eval_episodes=10", *more,
    ]  # fmt: skip
    return rlclinic.train(f"{folder / 'shift.py'}:Shift", overrides=changes, runs_dir=folder / "runs")


@pytest.mark.parametrize("key", ["is_success", "success"])
@pytest.mark.parametrize(
    ("threshold", "done", "verdict", "episodes"),
    [
        ("5", 0.0, "NOT SOLVED", 0),
        ("5", 1.0, "SOLVED", 30),
        ("none", 1.0, "SOLVED", 30),
        ("none", 0.0, "NOT SOLVED", 0),
        ("50", 1.0, "NOT SOLVED", 30),
    ],
    ids=["farmed", "both", "success alone", "no success alone", "success without the return"],
)  # fmt: skip
def test_a_farmed_reward_solves_nothing(tmp_path: Path, key: str, threshold: str, done: float, verdict: str, episodes: int) -> None:
    group = train(tmp_path, f"env.kwargs.key={key}", f"env.kwargs.done={done}", threshold=threshold)
    summary = group.summary
    assert summary.verdict == verdict
    assert summary.success is not None
    assert (summary.success.successes, summary.success.episodes) == (episodes, 30)
    assert summary.required_success == 0.9
    assert ("without the success" in summary.note) == (threshold == "5" and done == 0.0)
    assert group.runs[0].status.success_rate == done
    assert (group.runs[0].status.threshold_reached_at is None) == (verdict != "SOLVED")
    assert diagnose.diagnose(group.id, tmp_path / "runs").diagnosis.verdict == verdict


def test_success_is_on_every_face(tmp_path: Path) -> None:
    group = train(tmp_path, "env.kwargs.done=0.6", "spec.success=0.3")
    report = describe_group(group)
    rate = group.runs[0].status.success_rate
    assert report.success is not None
    assert (report.verdict, report.required_success) == ("SOLVED", 0.3)
    assert report.success.low is not None
    assert f"reached 5 and 30 % success · success {report.success.successes} of 30 episodes (" in headline(report)
    assert "| success |" in markdown(report)
    listed = list_runs(tmp_path / "runs").runs[0]
    assert (listed.success_rate, listed.lost) == (rate, False)
    shown = CliRunner().invoke(command_line, ["runs", "show", group.id, "--runs-dir", str(tmp_path / "runs")]).stdout
    assert "success" in shown
    found = diagnose.diagnose(group.id, tmp_path / "runs").diagnosis.facts
    assert (found.success, found.required_success, found.lost) == (report.success, 0.3, 0)


def test_evaluate_requires_the_success_too(tmp_path: Path) -> None:
    group = train(tmp_path, "env.kwargs.done=0.0")
    words = ["evaluate", group.runs[0].id, "--episodes", "10", "--runs-dir", str(tmp_path / "runs"), "--require-threshold"]
    scored = CliRunner().invoke(command_line, [*words, "--json"])
    assert scored.exit_code == 4
    result = json.loads(scored.stdout)
    assert (result["success_rate"], result["required_success"], result["passed"]) == (0.0, 0.9, False)
    assert "success of 90 % missed" in CliRunner().invoke(command_line, words).stdout


def test_an_episode_without_a_report_is_no_success_where_others_report(tmp_path: Path) -> None:
    groups = [train(tmp_path, "env.kwargs.done=0.6", f"env.kwargs.silent={silent}") for silent in ("false", "true")]
    rates = [group.runs[0].metrics.series("val/roll/success_rate")[1].tolist() for group in groups]
    assert rates[0] == rates[1]
    assert 0 < rates[0][-1] < 1


@pytest.mark.parametrize("workers", [0, 2])
def test_success_is_the_same_from_workers(tmp_path: Path, workers: int) -> None:
    group = train(tmp_path, "env.kwargs.done=1.0", "env.kwargs.key=success", f"env.workers={workers}")
    assert group.summary.verdict == "SOLVED"
    assert group.runs[0].metrics.last("train/roll/success_rate") == 1.0


@pytest.mark.parametrize(("successes", "verdict"), [([0, 9, 10], "SOLVED"), ([0, 2, 1], "NOT SOLVED")])
def test_success_in_the_log_of_stable_baselines3_is_required_too(tmp_path: Path, successes: list[int], verdict: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    rows = [f"{step},{400 + step / 100}" for step in range(1_000, 10_001, 1_000)]
    (folder / "progress.csv").write_text("\n".join(["time/total_timesteps,rollout/ep_rew_mean", *rows]) + "\n")
    flags = np.array([[True] * count + [False] * (10 - count) for count in successes])
    np.savez(folder / "evaluations.npz", timesteps=[2_000, 6_000, 10_000], results=np.full((3, 10), 490.0), successes=flags)
    histories = readers.read(folder, threshold=475.0)
    read = diagnose.diagnose(str(folder), tmp_path / "runs", threshold=475.0).diagnosis
    group = readers.import_runs(histories, Store(tmp_path / "runs"))[0].group
    assert group is not None
    assert {read.verdict, group.verdict, diagnose.diagnose(group.id, tmp_path / "runs").diagnosis.verdict} == {verdict}
    assert read.facts.success is not None
    assert (read.facts.success.successes, read.facts.success.episodes) == (sum(successes), 30)
