"""Algorithms of other packages: losses only, and everything that ours have."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from rlclinic import plugins
from rlclinic.config import ALGORITHMS, Config, algorithms, from_record, load, to_record
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, table, train

DECLARED = {"policy_gradient": "PolicyGradientConfig", "conservative": "ConservativeConfig"}
ALGO: dict[str, dict[str, Any]] = {
    "policy_gradient": {"name": "policy_gradient", "n_steps": 16, "squash": 1.5},
    "conservative": {
        "name": "conservative", "buffer_size": 200, "learning_starts": 40, "batch_size": 16, "train_freq": 8, "gradient_steps": 3
    },
}  # fmt: skip
EACH = pytest.mark.parametrize("name", DECLARED)


def declare(monkeypatch: pytest.MonkeyPatch, declared: dict[str, str]) -> None:
    entries = [EntryPoint(name, value, algorithms.ENTRY_POINTS) for name, value in declared.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: entries if group == algorithms.ENTRY_POINTS else [])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, {name: f"tests.training.plugin.config:{config}" for name, config in DECLARED.items()})


def config_of(name: str, seed: int = 0, **algo: Any) -> Config:
    return from_record(
        {
            "env": {"id": "CartPole-v1", "n_envs": 2, "max_episode_steps": 20},
            "algo": {**ALGO[name], **algo},
            "net": {"hidden": [8, 6]},
            "run": {"max_env_steps": 400, "eval_episodes": 2, "checkpoint_every_env_steps": 90},
            "seed": seed,
        }
    )


@EACH
def test_settings_of_another_package_are_read_checked_and_stored_like_ours(name: str) -> None:
    config = config_of(name)
    assert from_record(to_record(config)) == config
    assert load(f"CartPole-v1:{name}", ["algo.learning_rate=0.5"]).config.algo.learning_rate == 0.5
    assert list(ALGORITHMS)[-2:] == list(DECLARED)
    with pytest.raises(ConfigError, match=r"algo.gamma=3[\s\S]*must be"):
        config_of(name, gamma=3)
    with pytest.raises(ConfigError, match=r"algo\.lerning_rate is no setting"):
        config_of(name, lerning_rate=3)


@EACH
def test_an_algorithm_with_losses_only_trains_by_reference_and_logs_its_columns(tmp_path: Path, name: str) -> None:
    runs = train(tmp_path, [config_of(name, seed) for seed in (0, 1)])
    assert [run.status.state for run in runs] == ["finished"] * 2
    assert Run(runs[0].path).record["engine"]["kind"] == "reference"
    last = table(runs[0])[-1]
    for column in ("train/loss/policy",) if name == "policy_gradient" else ("train/loss/td", "train/loss/conservative"):
        assert last[column], column
    assert any(last[column] for column in last if column.startswith("train/sentinel/"))


@EACH
def test_its_members_learn_as_they_would_alone_and_resume_as_if_never_stopped(tmp_path: Path, name: str) -> None:
    configs = [config_of(name, seed, learning_rate=1e-3 * (1 + seed)) for seed in (0, 1)]
    together, alone = train(tmp_path / "both", configs), train(tmp_path / "one", configs[1:])
    assert_same_run(together[1], alone[0])
    broken: list[Run] = []

    def stop(row: dict[str, Any]) -> None:
        broken[:] = [row["run"]]
        interrupt_at(250)(row)

    with pytest.raises(Interrupted):
        train(tmp_path / "one", configs[1:], callback=stop)
    assert train_runs(broken, resume=True)
    assert_same_run(broken[0], alone[0])


@EACH
def test_its_numbers_reach_its_loss(tmp_path: Path, name: str) -> None:
    changes = {"policy_gradient": {"squash": 0.01}, "conservative": {"caution": 5.0}}[name]
    one, other = train(tmp_path, [config_of(name), config_of(name, **changes)])
    assert table(one)[-1] != table(other)[-1]


def test_programs_that_are_kept_between_runs_are_refused_to_it(tmp_path: Path) -> None:
    config = config_of("policy_gradient")
    compiled = config.model_copy(update={"run": config.run.model_copy(update={"engine": "compiled"})})
    with pytest.raises(ConfigError, match=r"run\.engine=reference"):
        train(tmp_path, [compiled])


def test_ours_come_first_whatever_another_package_calls_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, {"ppo": "tests.training.plugin.config:PolicyGradientConfig"})
    assert ALGORITHMS["ppo"].__name__ == "PPOConfig"
    assert list(ALGORITHMS).count("ppo") == 1


@pytest.mark.parametrize(
    ("value", "says"), [("no_such_module:X", "cannot be loaded"), ("json:loads", "no class derived from OnPolicySettings")]
)
def test_a_package_that_is_broken_says_so_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, value: str, says: str) -> None:
    declare(monkeypatch, {"broken": value})
    assert load("CartPole-v1:ppo").config.algo.name == "ppo"
    with pytest.raises(ConfigError, match=says):
        load("CartPole-v1:broken")


def test_its_settings_need_no_torch() -> None:
    code = "import sys; import tests.training.plugin.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
