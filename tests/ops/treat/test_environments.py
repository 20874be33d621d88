"""`trial --envs`: configs moved to other environments, what cannot be tried there, a real trial from end to end, and keeping its winner."""

import contextlib
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlclinic.config import load
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.train import suitability
from rlclinic.ops.treat import adopt, arms
from rlclinic.ops.treat.trial import TrialRequest, extend_trial, plan_trial, resume_trial, run_trial
from rlclinic.runs.store import Store
from rlclinic.serve.http.security.requests import confine
from tests.treatment.pretended_training import pretend

MINE = """
import gymnasium as gym
import numpy as np


class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.obs = 0, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.obs, {}

    def step(self, action):
        reward, self.steps = float((self.obs[0] > 0) == bool(action)), self.steps + 1
        self.obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.obs, reward, self.steps >= 10, False, {}


class Broken(Env):
    def __init__(self):
        raise RuntimeError("no simulator here")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Environments are made in this process: to start another takes longer than the test."""

    def run(command: list[str], *, input: str, **_: object) -> subprocess.CompletedProcess[str]:
        printed = io.StringIO()
        monkeypatch.setattr(sys, "stdin", io.StringIO(input))
        with contextlib.redirect_stdout(printed):
            importlib.import_module(command[-1]).main()
        return subprocess.CompletedProcess(command, 0, printed.getvalue(), "")

    monkeypatch.setattr(suitability.subprocess, "run", run)
    return folder


def ask(*targets: str, envs: str, **options: object) -> TrialRequest:
    return TrialRequest(targets=list(targets), envs=envs.split(","), **options)


# ── arms ──


def test_a_config_is_moved_with_its_algorithm_and_network_and_leaves_its_task_behind(here):
    resolved = arms.resolve(ask("CartPole-v1:ppo_zoo", envs="CartPole-v1,Acrobot-v1,my.py:Env", changes=["learning_rate=7e-4"]))
    home, acrobot, mine = (control.config for control, _ in resolved.environments)
    assert home == load("CartPole-v1:ppo_zoo").config
    own = load("Acrobot-v1:ppo").config
    assert (acrobot.algo, acrobot.net) == (home.algo, home.net)
    assert (acrobot.spec, acrobot.run.max_env_steps, acrobot.run.eval_every_env_steps) == (
        own.spec,
        own.run.max_env_steps,
        own.run.eval_every_env_steps,
    )
    assert acrobot.env.n_envs == home.env.n_envs
    assert mine.env.id == "my.py:Env"
    assert {arm.changes for _, others in resolved.environments for arm in others} == {("algo.learning_rate=0.0007",)}


def test_configs_of_different_environments_are_compared_where_they_are_told_to(here):
    resolved = arms.resolve(ask("CartPole-v1:ppo_zoo", "Acrobot-v1:ppo", envs="MountainCar-v0,CartPole-v1"))
    for control, (other,) in resolved.environments:
        assert control.config.env == other.config.env.model_copy(
            update={name: getattr(control.config.env, name) for name in arms._OF_THE_AGENT}
        )
        assert control.config.run.max_env_steps == other.config.run.max_env_steps
        assert other.config.algo == load("Acrobot-v1:ppo").config.algo


def test_a_variant_by_name_is_each_environments_own(here):
    plan = plan_trial(ask(":ppo", ":a2c", envs="CartPole-v1,Acrobot-v1")).plan
    for each in plan.environments:
        assert each.control.config.algo == load(f"{each.env_id}:ppo").config.algo
        assert each.treatments[0].config.algo == load(f"{each.env_id}:a2c").config.algo
    assert [each.threshold for each in plan.environments] == [
        load(f"{env}:ppo").config.spec.threshold for env in ("CartPole-v1", "Acrobot-v1")
    ]
    assert plan.threshold is None
    assert plan.max_env_steps == 2 * 32 * sum(each.budget for each in plan.environments)


# ── refusals, all of them before anything is trained ──


@pytest.mark.parametrize(
    ("targets", "envs", "options", "error", "what"),
    [
        ([":dqn", ":ppo"], "CartPole-v1,Pendulum-v1", {}, ConfigError, "takes actions of kind box"),
        (["CartPole-v1:dqn"], "CartPole-v1,Pendulum-v1", {"changes": ["gamma=0.9"]}, ConfigError, "Leave it out: --envs CartPole-v1"),
        ([":ppo", ":a2c"], "CartPole-v1,CartPole-v1", {}, UsageError, "named twice"),
        (["CartPole-v1:ppo"], "my.py:Env,./my.py:Env", {"changes": ["gamma=0.9"]}, UsageError, "named twice"),
        (["CartPole-v1:ppo"], "CartPole-v1,my.py:Broken", {"changes": ["gamma=0.9"]}, ConfigError, "no simulator here"),
        (["CartPole-v1:ppo"], "CartPole-v1,my.py:Absent", {"changes": ["gamma=0.9"]}, ConfigError, "Absent"),
        (["CartPole-v1:ppo"], "CartPole-v1,CartPoel-v1", {"changes": ["gamma=0.9"]}, NotFound, "CartPole-v1"),
        (["CartPole-v1:ppo"], "CartPole-v1,my.py:Env", {"changes": ["gamma=0.9"], "outcome": "steps"}, UsageError, "--outcome return"),
        (["CartPole-v1:ppo"], "CartPole-v1,Acrobot-v1", {"changes": ["gamma=0.9"], "threshold": 100.0}, UsageError, "each environment"),
        ([":ppo", "CartPole-v1:ppo_zoo"], "CartPole-v1,Acrobot-v1", {}, UsageError, "own variant"),
        ([":ppo"], "CartPole-v1,Acrobot-v1", {}, UsageError, "nothing to try"),
        ([], "CartPole-v1,Acrobot-v1", {"command": "python x.py {seed}"}, UsageError, "--run"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_what_to_type(here, targets, envs, options, error, what):
    with pytest.raises(error, match=re.escape(what)) as refused:
        plan_trial(ask(*targets, envs=envs, **options))
    assert len(str(refused.value).splitlines()) >= 2
    assert not (here / "runs").exists()


def test_a_variant_of_no_environment_is_refused(here):
    with pytest.raises(UsageError, match="none is named"):
        plan_trial(TrialRequest(targets=[":ppo", ":a2c"]))


def test_without_a_threshold_everywhere_the_final_return_decides(here):
    plan = plan_trial(ask("CartPole-v1:ppo", envs="CartPole-v1,my.py:Env", changes=["learning_rate=7e-4"])).plan
    assert plan.outcome == "return"
    assert [each.threshold for each in plan.environments] == [475, None]


@pytest.mark.parametrize("env_id", ["my.py:Env", "./my.py:Env", "os:Env"])
def test_a_caller_from_elsewhere_names_no_environment_by_its_code(here, env_id):
    with pytest.raises(UsageError):
        confine(Store("runs"), ask("CartPole-v1:ppo", envs=f"CartPole-v1,{env_id}", changes=["gamma=0.9"]))
    confine(Store("runs"), ask(":ppo", ":a2c", envs="CartPole-v1,Acrobot-v1"))


# ── real training ──

TINY = {"max_env_steps": 1024, "per_look": 2, "looks": 2, "outcome": "return", "seed0": 50}


def test_two_configs_are_trained_and_judged_on_three_environments(folder):
    preview = plan_trial(ask("CartPole-v1:ppo_zoo", envs="CartPole-v1,Acrobot-v1,my.py:Env", changes=["learning_rate=1e-5"], **TINY))
    assert preview.max_env_steps == 3 * 2 * 4 * 1024
    result = run_trial(preview, jobs=2)
    trial = result.trial
    assert trial.state == "finished"
    assert [each.env_id for each in trial.environments] == ["CartPole-v1", "Acrobot-v1", "my.py:Env"]
    assert {arm.failed for each in trial.environments for arm in each.arms} == {0}
    runs = {run.id: run.config.env.id for run in Store("runs").runs()}
    for each in trial.environments:
        assert {runs[run] for arm in each.arms for run in arm.runs} == {each.env_id}
        assert each.arms[0].final is not None
    assert Path(result.files[1]).read_text().count("<svg") >= 5
    assert "--envs CartPole-v1,Acrobot-v1,my.py:Env" in trial.context["typed"]


# ── afterwards ──


def steered(help_by_environment: dict[str, float]):
    import numpy as np

    def behaviour(config):
        noise = np.random.default_rng(config.seed).standard_normal()
        factor = help_by_environment.get(config.env.id, 1.0) if config.algo.learning_rate == 1e-3 else 1.0
        share = 0.6 * factor * float(np.exp(0.15 * noise))
        return share if share <= 1 else None

    return behaviour


def made(monkeypatch: pytest.MonkeyPatch, help_by_environment: dict[str, float], **options: object):
    # Returns of what pretends to train lie between 20 and 500.
    folder = Path("config/environments")
    folder.mkdir(parents=True)
    run = "{max_env_steps: 20000, eval_every_env_steps: 1000}"
    for env_id in help_by_environment:
        variant = f"ppo:\n  env: {{id: {env_id}}}\n  algo: {{name: ppo, learning_rate: 1e-2}}\n  run: {run}\n"
        (folder / f"{env_id}.yaml").write_text(f"spec: {{threshold: 475}}\n{variant}")
    monkeypatch.setattr(suitability, "check", lambda configs: None)
    pretend(monkeypatch, steered(help_by_environment))
    preview = plan_trial(ask(":ppo", envs=",".join(help_by_environment), changes=["learning_rate=1e-3"], **options))
    return run_trial(preview)


def test_the_winner_becomes_a_variant_of_every_environment_with_its_evidence(here, monkeypatch):
    result = made(monkeypatch, {"CartPole-v1": 0.5, "Acrobot-v1": 0.6})
    trial = result.trial
    assert trial.verdict == "adopt"
    assert str(result.next[0]) == f"rlclinic adopt {trial.id} --as mine"
    shown = adopt.adopt(trial.id, "mine", dry_run=True)
    assert not shown.written
    assert shown.refs == ["CartPole-v1:mine", "Acrobot-v1:mine"]
    kept = adopt.adopt(trial.id, "mine")
    assert kept.written
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        config = load(f"{env_id}:mine").config
        assert (config.algo.learning_rate, config.env.id, config.run.stop_at_threshold) == (1e-3, env_id, False)
        text = Path(f"config/environments/{env_id}.yaml").read_text()
        assert f"adopted from trial {trial.id}" in text
        assert "over CartPole-v1, Acrobot-v1:" in text
    with pytest.raises(UsageError, match="already in"):
        adopt.adopt(trial.id, "mine")
    with pytest.raises(UsageError, match="was not tried"):
        adopt.adopt(trial.id, "Pendulum-v1:mine")
    assert adopt.adopt(trial.id, "Acrobot-v1:own").refs == ["Acrobot-v1:own"]
    with pytest.raises(NotFound):
        load("CartPole-v1:own")


def test_a_name_that_one_environment_already_has_writes_none_of_them(here, monkeypatch):
    trial = made(monkeypatch, {"CartPole-v1": 0.5, "Acrobot-v1": 0.6}).trial
    adopt.adopt(trial.id, "Acrobot-v1:mine")
    before = Path("config/environments/CartPole-v1.yaml").read_text()
    with pytest.raises(UsageError, match="Acrobot-v1:mine is already"):
        adopt.adopt(trial.id, "mine")
    assert Path("config/environments/CartPole-v1.yaml").read_text() == before


def test_what_helps_here_and_hurts_there_can_be_kept_only_where_it_helps(here, monkeypatch):
    result = made(monkeypatch, {"CartPole-v1": 0.4, "Acrobot-v1": 1.6})
    trial = result.trial
    assert trial.verdict == "mixed"
    assert str(result.next[0]) == f"rlclinic adopt {trial.id} --as CartPole-v1:mine"
    for refused in ("mine", "Acrobot-v1:mine"):
        with pytest.raises(UsageError, match="HELPS HERE, HURTS THERE"):
            adopt.adopt(trial.id, refused)
    assert adopt.adopt(trial.id, "CartPole-v1:mine").refs == ["CartPole-v1:mine"]


def test_an_undecided_trial_is_extended_in_every_environment(here, monkeypatch):
    trial = made(monkeypatch, {"CartPole-v1": 0.97, "Acrobot-v1": 0.97}, looks=1, per_look=4).trial
    assert trial.verdict == "undecided"
    longer = extend_trial(TrialRequest(extend=trial.id, seeds=4))
    assert longer.max_env_steps == 2 * trial.max_env_steps
    ended = resume_trial(trial.id).trial
    assert [arm.n for each in ended.environments for arm in each.arms] == [8, 8, 8, 8]
