"""Costs with a limit: the multiplier by hand, advantages that add up, runs that keep the limit, resumes, and what is refused."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlclinic
from rlclinic.config import Config, CostConfig, load
from rlclinic.errors import ConfigError
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training.__main__ import train_runs
from rlclinic.training.constraints import lagrangian
from rlclinic.training.constraints.lagrangian import Weighed
from rlclinic.training.data import info_columns
from rlclinic.training.maths import returns
from tests.training.cohorts import Interrupted, interrupt_at
from tests.training.tasks import Broken, Hall, Parts, Silent, Toll


def settings(steps: int = 2_560, **more: Any) -> dict[str, Any]:
    return {
        "name": "Hall",
        "env": {"id": "Hall", "n_envs": 8, "log_terms": ["run", "walk"], **more.pop("env", {})},
        "algo": {"name": "ppo", "n_steps": 20, "batch_size": 80, "n_epochs": 4, "learning_rate": 3e-3},
        "run": {"max_env_steps": steps, "eval_every_env_steps": None, "checkpoint_every_env_steps": 1_280},
        **more,
    }


def rows(run: Run) -> list[dict[str, str]]:
    return list(csv.DictReader((run.path / "metrics.csv").read_text().splitlines()))


def test_episodes_are_summed_across_rollouts_and_members_apart() -> None:
    cost = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [3.0, 5.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])  # [M=2, T=3, N=2]
    over = torch.tensor([[[False, False], [True, False], [False, True]], [[False, False]] * 3])
    total, count, running = lagrangian.sum_episodes(cost, over, torch.tensor([[10.0, 0.0], [7.0, 0.0]]))
    # Env 0 of the first member brought 10 along: 10 + 1 + 2, then 3 of the next episode; env 1 ended with 5.
    assert total.tolist() == [[18.0], [0.0]]
    assert count.tolist() == [[2.0], [0.0]]
    assert running.tolist() == [[3.0, 0.0], [7.0, 0.0]]


def test_the_multiplier_moves_by_hand() -> None:
    config = CostConfig(limit=4.0, learning_rate=0.1, multiplier_max=1.0)
    multiplier = torch.tensor([[0.5], [0.5], [0.2], [0.9]])
    total, count = torch.tensor([[18.0], [0.0], [0.0], [100.0]]), torch.tensor([[2.0], [0.0], [1.0], [10.0]])
    moved = lagrangian.move_multiplier(config, multiplier, total, count)
    # 0.5 + 0.1 (9 - 4) is cut at 1; no episode ended; 0.2 + 0.1 (0 - 4) is cut at 0; 0.9 + 0.1 (10 - 4) is cut at 1.
    assert moved.flatten().tolist() == pytest.approx([1.0, 0.5, 0.0, 1.0])


def test_advantages_are_traded_off_and_keep_their_size() -> None:
    weighed = Weighed(torch.tensor([[[1.0, -2.0]]]), torch.tensor([[3.0]]))
    assert weighed.apply(torch.tensor([[[4.0, 4.0]]])).tolist() == [[[(4 - 3) / 4, (4 + 6) / 4]]]
    free = Weighed(torch.ones(1, 1, 2), torch.zeros(1, 1))
    assert free.apply(torch.tensor([[[4.0, 5.0]]])).tolist() == [[[4.0, 5.0]]]


def test_advantages_of_terms_add_up_to_the_whole_one() -> None:
    torch.manual_seed(0)
    terms, value, next_value = torch.randn(2, 6, 3, 4), torch.randn(2, 6, 3), torch.randn(2, 6, 3)
    terminated, truncated = torch.rand(2, 6, 3) < 0.2, torch.rand(2, 6, 3) < 0.2
    gamma, trace = torch.full((2, 1), 0.97), torch.full((2, 1), 0.9)
    whole = returns.gae(terms.sum(-1), value, next_value, terminated, truncated, gamma, trace)[0]
    none = torch.zeros_like(value)
    parts = sum(returns.gae(terms[..., k], none, none, terminated, truncated, gamma, trace)[0] for k in range(4))
    of_values = returns.gae(none, value, next_value, terminated, truncated, gamma, trace)[0]
    torch.testing.assert_close(whole, parts + of_values)


@pytest.mark.parametrize("env", [Parts])
def test_a_run_comes_down_to_its_limit_and_logs_how(env: type, tmp_path: Path) -> None:
    config = settings(6_400, cost={"limit": 2.0, "learning_rate": 0.02}, env={"term_advantages": True})
    group = rlclinic.train(config, env=env, runs_dir=tmp_path)
    found = rows(group.runs[0])
    first, last = (np.mean([float(row["train/cost/return"]) for row in part]) for part in (found[:8], found[-8:]))
    assert first > 3.0
    assert last < 2.6
    assert 0.3 < max(float(row["train/cost/multiplier"]) for row in found) < 5.0
    shares = [float(found[-1][column]) for column in found[-1] if column.endswith("/advantage")]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)


def test_without_a_limit_nothing_is_different(tmp_path: Path) -> None:
    plain, told = (
        rows(rlclinic.train(settings(640, env=env), env=Hall, runs_dir=tmp_path / str(place)).runs[0])
        for place, env in enumerate(({}, {"term_advantages": True}))
    )
    assert not any("cost" in name or "/advantage" in name for name in plain[0])
    # A multiplier that stays at 0 changes nothing either, but for what is logged.
    free = rows(rlclinic.train(settings(640, cost={"limit": 1e6}), env=Hall, runs_dir=tmp_path / "free").runs[0])
    for other in (told, free):
        same = [name for name in plain[0] if not name.startswith("time")]
        assert [[row[name] for name in same] for row in other] == [[row[name] for name in same] for row in plain]


def test_members_have_multipliers_of_their_own_as_if_alone(tmp_path: Path) -> None:
    config = settings(640, cost={"limit": 1.0, "learning_rate": 0.5})
    together = rlclinic.train(config, env=Hall, seeds=2, runs_dir=tmp_path / "both").runs
    alone = rlclinic.train(config, env=Hall, seeds=[1], runs_dir=tmp_path / "one").runs[0]
    names = ("train/cost/multiplier", "train/cost/return", "train/loss/policy")
    assert [[row[name] for name in names] for row in rows(together[1])] == [[row[name] for name in names] for row in rows(alone)]
    assert rows(together[0])[-1]["train/cost/multiplier"] != rows(together[1])[-1]["train/cost/multiplier"]


def test_a_checkpoint_holds_all_that_is_known_of_costs(tmp_path: Path) -> None:
    group = rlclinic.train(settings(2_560, cost={"limit": 1.0}), env=Hall, runs_dir=tmp_path)
    folder = sorted((group.runs[0].path / "checkpoints").glob("[0-9]*"))[-1]
    from safetensors.numpy import load_file

    loop = load_file(folder / "loop.safetensors")
    assert float(loop["constraint.multiplier"].ravel()[0]) == pytest.approx(
        float(rows(group.runs[0])[-1]["train/cost/multiplier"]), rel=1e-5
    )
    assert {"constraint.critic", "constraint.critic.mean", "constraint.episode"} <= set(loop)


def test_what_an_unfinished_episode_had_cost_is_forgotten_where_a_resume_begins_another(tmp_path: Path) -> None:
    """Episodes of ten steps that cost 10 each; the run is cut off in the middle of them, and Gymnasium's environments begin anew."""
    given = settings(640, cost={"limit": 1e6}, algo={"name": "ppo", "n_steps": 16, "batch_size": 32, "n_epochs": 1})
    config = Config.model_validate({**given, "run": {**given["run"], "checkpoint_every_env_steps": 128}})
    (run,) = Store(tmp_path).create_group([config]).runs
    with pytest.raises(Interrupted):
        train_runs([run], factory=Toll, callback=interrupt_at(512))
    train_runs([Run(run.path)], factory=Toll, resume=True)
    assert {float(row["train/cost/return"]) for row in rows(run)} == {10.0}


@pytest.mark.parametrize(("env", "said"), [(Silent, 'neither info["cost"]'), (Broken, "cost or term")])
def test_an_environment_that_does_not_tell_its_cost_ends_with_a_clear_error(env: type, said: str, tmp_path: Path) -> None:
    group = rlclinic.train(settings(640, cost={"limit": 1.0}), env=env, runs_dir=tmp_path)
    assert group.runs[0].status.state == "failed"
    assert said in (group.runs[0].status.reason or "")


@pytest.mark.parametrize(
    ("ref", "changes", "said"),
    [
        ("CartPole-v1:dqn", ["cost={limit: 1}"], "keeps no limit"),
        ("CartPole-v1:ppo", ["cost={limit: 1}", "run.engine=compiled"], "operation by operation"),
        ("CartPole-v1:ppo", ["cost={limit: 1, multiplier: 200}"], "multiplier_max"),
        ("CartPole-v1:ppo", ["cost={limit: -1}"], "limit"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(ref: str, changes: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(ref, changes)


def test_the_limit_is_also_known_by_its_short_name() -> None:
    config = load("CartPole-v1:ppo", ["cost_limit=25"]).config
    assert config.cost is not None
    assert config.cost.limit == 25


def test_a_native_environment_has_no_costs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tells nothing of each step"):
        rlclinic.train("CartPole-v1:ppo", overrides=["cost={limit: 1}", "run.max_env_steps=512"], runs_dir=tmp_path)


def test_what_is_read_of_a_step() -> None:
    row = np.zeros(2, np.float32)
    assert info_columns.read_step({"cost": True, "reward_terms": {"a": 2}}, ("cost", "term.a"), row)
    assert row.tolist() == [1.0, 2.0]
    assert not info_columns.read_step({}, ("cost", "term.a"), row)


# ── weights of terms ──


def test_a_weight_of_one_changes_nothing_and_another_one_what_is_learned(tmp_path: Path) -> None:
    plain, same, other = (
        rows(rlclinic.train(settings(1_280, env=env), env=Hall, runs_dir=tmp_path / str(place)).runs[0])
        for place, env in enumerate(({}, {"term_weights": {"run": 1.0}}, {"term_weights": {"run": 0.1}}))
    )
    names = [name for name in plain[0] if not name.startswith("time")]
    assert [[row[name] for name in names] for row in same] == [[row[name] for name in names] for row in plain]
    assert float(other[-1]["train/terms/walk/return"]) > float(plain[-1]["train/terms/walk/return"])


def test_shares_of_terms_are_those_of_what_is_learned_from(tmp_path: Path) -> None:
    """Running pays most by far, and counts for nothing: neither its share of what is paid nor that of the advantages may say otherwise."""
    env = {"term_weights": {"run": 0.0, "walk": -3.0}, "term_advantages": True}
    last = rows(rlclinic.train(settings(320, env=env), env=Hall, runs_dir=tmp_path).runs[0])[-1]
    assert float(last["train/terms/run/return"]) > 0, "what the environment told is logged as it was told"
    assert (float(last["train/terms/run/share"]), float(last["train/terms/walk/share"])) == (0.0, 1.0)
    of_run, of_walk, beyond = (float(last[f"train/{name}/advantage"]) for name in ("terms/run", "terms/walk", "terms_beyond"))
    assert of_run == 0.0
    assert of_walk + beyond == pytest.approx(1.0, abs=1e-5)
    assert of_walk > 0.5


def test_arms_of_other_weights_are_one_cohort_and_each_as_if_alone(tmp_path: Path) -> None:
    from rlclinic.config.algorithms import shape_key

    configs = [Config.model_validate(settings(640, env={"term_weights": {"run": weight}})) for weight in (0.5, 2.0)]
    assert shape_key(configs[0]) == shape_key(configs[1])
    assert shape_key(configs[0]) != shape_key(Config.model_validate(settings(640)))
    together = [Store(tmp_path / "both").create_group([config]).runs[0] for config in configs]
    train_runs(together, factory=Hall)
    for config, run in zip(configs, together, strict=True):
        alone = rlclinic.train(config, env=Hall, runs_dir=tmp_path / str(config.env.term_weights["run"])).runs[0]
        assert [row["train/loss/policy"] for row in rows(run)] == [row["train/loss/policy"] for row in rows(alone)]


def test_a_weight_of_a_term_that_is_not_there_is_refused() -> None:
    from rlclinic.config import Config

    with pytest.raises(ValueError, match="none of the terms run, walk"):
        Config.model_validate(settings(640, env={"term_weights": {"walks": 2.0}}))


def test_a_study_of_weights_is_judged_by_success(tmp_path: Path) -> None:
    from rlclinic.config import Config
    from rlclinic.runs.store import Store
    from rlclinic.treatment.sensitivity import study

    config = Config.model_validate(settings(640))
    planned = study.plan(Store(tmp_path), "it", config, study.Scope(factors=(2.0,), seeds=2, terms=True))
    assert planned.measure == "success"
    assert [arm.name for arm in planned.arms] == [f"env.term_weights.{name} {how}" for name in ("run", "walk") for how in ("/2", "x2")]
    only = study.plan(Store(tmp_path), "it", config, study.Scope(factors=(2.0,), seeds=2, terms=True, only=("walk",)))
    assert len(only.arms) == 2


class Far(Hall):
    """Says how far it went, and nothing of success."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "walked": float(action == 1)}


def test_where_nobody_reports_success_a_study_of_weights_asks_for_what_is_wanted_and_is_judged_by_it(tmp_path: Path) -> None:
    from rlclinic.config import Config
    from rlclinic.errors import UsageError
    from rlclinic.ops.treat import sensitivity
    from rlclinic.ops.treat.requests import SensitivityRequest
    from rlclinic.runs.store import Store
    from rlclinic.treatment.sensitivity import study

    group = rlclinic.train(settings(320, env={"log_info": ["walked"]}), env=Far, runs_dir=tmp_path)
    asked = {"target": group.id, "terms": True, "runs_dir": tmp_path, "seeds": 2, "factors": [2.0]}
    with pytest.raises(UsageError, match=r"(?s)reported no success.*--truth train/info/walked/last"):
        sensitivity.plan(SensitivityRequest(**asked))
    planned = study.plan(
        Store(tmp_path), "it", Config.model_validate(settings(640)), study.Scope((2.0,), 2, terms=True, truth="train/info/walked/mean")
    )
    assert (planned.measure, planned.config["env"]["log_info"]) == ("truth", ["walked"])
    with pytest.raises(UsageError, match="none are varied"):
        study.plan(Store(tmp_path), "it", Config.model_validate(settings(640)), study.Scope(truth="train/info/walked/mean"))
    run = group.runs[0]
    wanted = np.mean([float(row["train/info/walked/mean"]) for row in rows(run)][-1:])
    scores = study._scores(planned, group, group.summary, 640, 0.0)
    assert scores == {run.seed: pytest.approx(float(wanted))}
