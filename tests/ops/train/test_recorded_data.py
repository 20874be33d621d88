"""Training on recorded data, as somebody at a terminal does."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlclinic.config import Config, load, to_record
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.data.evaluate import evaluate
from rlclinic.ops.data.requests import EvaluateRequest
from rlclinic.ops.train import suitability
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.ops.treat.trial import plan_trial
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.training.recordings import data_of

SMALL = [
    "--set",
    "net.hidden=[8,6]",
    "--set",
    "algo.batch_size=16",
    "--set",
    "run.eval_episodes=2",
    "--max-env-steps",
    "200",
    "--no-report",
]


def test_an_algorithm_that_learns_from_data_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none is named"):
        plan_training(TrainRequest(ref="Pendulum-v1:iql", runs_dir=tmp_path))
    with pytest.raises(NotFound, match="no dataset at"):
        plan_training(TrainRequest(ref="Pendulum-v1:iql", data="nowhere", runs_dir=tmp_path))


def test_an_algorithm_that_acts_takes_no_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="data"):
        plan_training(TrainRequest(ref="Pendulum-v1:sac", data=data_of("box"), runs_dir=tmp_path))


def test_the_place_of_the_data_is_kept_whole_wherever_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(data_of("box")).parent)
    planned = plan_training(TrainRequest(ref="Pendulum-v1:iql", data="data", seeds=2, runs_dir=tmp_path))
    assert {config.data.path for config in planned.configs if config.data} == {str(Path(data_of("box")).resolve())}


def test_data_of_another_environment_is_refused_before_a_run_is_made(tmp_path: Path) -> None:
    arguments = ["train", "CartPole-v1:bc", "--data", data_of("box"), *SMALL, "--runs-dir", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert "has observations of shape (3,), and CartPole-v1 gives (4,)" in answer.output.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_a_trial_on_data_of_another_environment_is_refused_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(configs: Sequence[Config]) -> tuple[int, str]:
        asked.extend(config.env.id for config in configs)
        return 0, "it does not fit"

    monkeypatch.setattr(suitability, "find_problem", refuse)
    config = yaml.safe_dump(to_record(load("CartPole-v1:bc", [f"data.path={data_of('box')}"]).config))
    (tmp_path / "mine.yaml").write_text(config)
    request = TrialRequest(targets=[str(tmp_path / "mine.yaml")], changes=["learning_rate=2e-3"], runs_dir=tmp_path / "runs")
    with pytest.raises(ConfigError, match="does not fit"):
        plan_trial(request)
    # Both arms learn from the same data: it is looked at once.
    assert asked == ["CartPole-v1"]


def test_a_group_is_trained_on_data_described_in_gradient_steps_and_evaluated_by_data(tmp_path: Path) -> None:
    arguments = ["train", "Pendulum-v1:iql", "--data", data_of("box"), "--seeds", "2", *SMALL, "--runs-dir", str(tmp_path)]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    runs = Store(tmp_path).runs()
    assert [run.status.state for run in runs] == ["finished"] * 2
    assert runs[0].record["recorded"]["transitions"] == 198
    status = CliRunner().invoke(app, ["status", "@last", "--runs-dir", str(tmp_path)]).output
    assert "200/200 gradient steps" in status
    found = evaluate(EvaluateRequest(data=data_of("box"), policy="@last", steps=20, runs_dir=tmp_path))
    assert {each.method for each in found.estimates} == {"fqe", "wis", "pdis", "dr"}
    assert all((each.value is None) == (each.refused is not None) for each in found.estimates)


def test_a_run_goes_from_data_to_the_environment_and_status_says_what_that_cost(tmp_path: Path) -> None:
    arguments = ["train", "Pendulum-v1:iql", "--data", data_of("box"), "--then-online", *SMALL, "--runs-dir", str(tmp_path)]
    answer = CliRunner().invoke(app, [*arguments, "--set", "data.offline_steps=100", "--set", "run.eval_every_env_steps=100"])
    assert answer.exit_code == 0, answer.output
    status = " ".join(CliRunner().invoke(app, ["status", "@last", "--runs-dir", str(tmp_path)]).output.split())
    assert "200/200 gradient and env steps" in status
    assert "going online cost" in status


def test_who_cannot_go_online_is_told_who_can(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bc learns from recorded data alone(.|\n)*cal_ql"):
        plan_training(TrainRequest(ref="Pendulum-v1:bc", data=data_of("box"), then_online=True, runs_dir=tmp_path))


@pytest.mark.parametrize("name", ["bc", "td3_bc", "iql", "awac", "cql", "cal_ql", "rlpd"])
def test_every_algorithm_has_general_settings_that_normalize_by_the_data(name: str) -> None:
    config = load(f"Hopper-v5:{name}").config
    assert config.algo.name == name
    assert config.env.normalize_obs
    assert config.env.n_envs == 1
