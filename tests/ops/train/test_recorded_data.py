"""Training on recorded data, as somebody at a terminal does."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rlclinic.config import Config, load, to_record
from rlclinic.errors import ConfigError, NotFound, UsageError
from rlclinic.ops.data.evaluate import evaluate, rank
from rlclinic.ops.data.requests import EvaluateRequest
from rlclinic.ops.runs.policy import pick_checkpoint
from rlclinic.ops.train import suitability
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.ops.treat.trial import plan_trial, run_trial
from rlclinic.report.format import step_unit
from rlclinic.report.models import PolicyEstimate, PolicyEvaluation
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


def test_the_arms_of_a_trial_learn_from_the_same_data_with_fresh_seeds(tmp_path: Path) -> None:
    arguments = ["train", "Pendulum-v1:iql", "--data", data_of("box"), "--seeds", "2", *SMALL, "--runs-dir", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    first = {run.id: run.seed for run in Store(tmp_path).runs()}
    request = TrialRequest(targets=["@last"], changes=["algo.beta=3"], looks=1, per_look=2, outcome="return", runs_dir=tmp_path)
    result = run_trial(plan_trial(request), tmp_path, jobs=1)
    assert result.trial.state == "finished"
    arms = [run for run in Store(tmp_path).runs() if run.id not in first]
    assert sorted(run.config.algo.beta for run in arms) == [3.0, 3.0, 30.0, 30.0]  # type: ignore[union-attr]
    assert {run.status.state for run in arms} == {"finished"}
    assert {run.config.data.path for run in arms if run.config.data} == {str(Path(data_of("box")).resolve())}
    assert len({run.record["recorded"]["fingerprint"] for run in arms}) == 1
    assert not {run.seed for run in arms} & set(first.values())
    assert len({run.seed for run in arms}) == 4


def test_a_trial_on_recorded_data_counts_gradient_steps_wherever_it_speaks(tmp_path: Path) -> None:
    arguments = ["train", "Pendulum-v1:iql", "--data", data_of("box"), "--seeds", "2", *SMALL, "--runs-dir", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    asked = ["trial", "@last", "--set", "algo.beta=3", "--looks", "1", "--per-look", "2", "--outcome", "return", "--yes", "--jobs", "1"]
    answer = CliRunner().invoke(app, [*asked, "--runs-dir", str(tmp_path)])
    text = answer.output
    assert answer.exit_code == 0, text
    assert "≤ 800 gradient steps" in text  # the cost before
    assert "800 of 800 gradient steps, 4 runs" in text  # and what was used
    assert "env steps" not in text
    [report] = tmp_path.glob("@trials/*/report.md")
    assert "Return against gradient steps" in report.read_text()
    assert "env steps" not in report.read_text()
    page = CliRunner().invoke(app, ["runs", "show", "@last", "--runs-dir", str(tmp_path)]).output
    assert "gradient steps" in page


def test_what_a_budget_counts_is_said_by_the_whole_config() -> None:
    data = f"data.path={data_of('box')}"
    alone = load("Pendulum-v1:cal_ql", [data]).config
    both = load("Pendulum-v1:cal_ql", [data, "data.then_online=true"]).config
    online = load("Pendulum-v1:rlpd", [data]).config
    acting = load("Pendulum-v1:sac").config
    units = ["gradient steps", "gradient and env steps", "env steps", "env steps"]
    configs = [alone, both, online, acting]
    assert [config.step_unit for config in configs] == units
    assert [step_unit(config.algo.name, to_record(config)) for config in configs] == units
    assert step_unit("Pendulum-v1:rlpd") == "env steps"
    assert step_unit("Pendulum-v1:iql") == "gradient steps"
    assert step_unit(None) == "env steps"


def test_a_long_training_on_recorded_data_asks_about_gradient_steps(tmp_path: Path) -> None:
    planned = plan_training(TrainRequest(ref="Pendulum-v1:iql", data=data_of("box"), max_env_steps=10**9, seeds=8, runs_dir=tmp_path))
    assert planned.question is not None
    assert "= 8G gradient steps" in planned.question


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


def test_what_is_evaluated_by_data_alone_was_not_chosen_by_playing(tmp_path: Path) -> None:
    """The last checkpoint of the first seed, whichever did best in the environment; a checkpoint that is named is taken."""
    arguments = ["train", "Pendulum-v1:bc", "--data", data_of("box"), "--seeds", "3", "--seed", "1", *SMALL, "--runs-dir", str(tmp_path)]
    often = ["--set", "run.eval_every_env_steps=100", "--set", "run.checkpoint_every_env_steps=100"]
    assert CliRunner().invoke(app, [*arguments, *often]).exit_code == 0
    first, *others = Store(tmp_path).runs()
    best = pick_checkpoint(Store(tmp_path), "@last")
    assert (best.run.id, best.step) != (first.id, 200), "the test shows nothing"
    for asked, answer in (("@last", f"{first.id}@200"), (others[0].id, f"{others[0].id}@200"), (f"{first.id}@100", f"{first.id}@100")):
        alone = evaluate(EvaluateRequest(data=data_of("box"), policy=asked, steps=5, runs_dir=tmp_path))
        assert (alone.policy, alone.ranking) == (answer, [])
    asked = [others[0].id, f"{first.id}@100", others[0].id]
    found = evaluate(EvaluateRequest(data=data_of("box"), policy="@last", beside=asked, steps=5, runs_dir=tmp_path))
    assert {each.policy for each in found.ranking} == {f"{first.id}@200", f"{first.id}@100", f"{others[0].id}@200"}
    assert len(found.ranking) == 3, "one that is named twice has one place"
    values = [each.value for each in found.ranking]
    assert None not in values
    assert values == sorted(values, reverse=True)
    text = CliRunner().invoke(
        app, ["data", "evaluate", data_of("box"), "--beside", others[0].id, "--steps", "5", "--runs-dir", str(tmp_path)]
    )
    assert "by fitted Q   1. " in text.output


def test_policies_that_the_data_cannot_judge_come_last_in_their_rank() -> None:
    def judged(policy: str, value: float | None) -> PolicyEvaluation:
        refused = "hardly ever tried" if value is None else None
        estimate = PolicyEstimate(method="fqe", value=value, low=value, high=value, effective_episodes=9.0, refused=refused)
        return PolicyEvaluation(policy=policy, data="data", gamma=0.99, behaviour=0.0, untried=0.1, estimates=[estimate])

    ranking = rank([judged("worse", -3.0), judged("strange", None), judged("better", 2.0)])
    assert [(each.policy, each.refused) for each in ranking] == [("better", None), ("worse", None), ("strange", "hardly ever tried")]


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
