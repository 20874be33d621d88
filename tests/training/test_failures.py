"""When a member breaks: it ends alone, with the reason and its last good state, and the others learn on as if it had never been there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import failures
from rlclinic.training.__main__ import train_runs
from rlclinic.training.loops import on_policy
from tests.training import tasks
from tests.training.cohorts import assert_same_run, make_config, table, train, workshop

N_ENVS = 2
SIGNS = {"id": "Signs", "n_envs": N_ENVS}
EVERY = {"checkpoint_every_env_steps": 32}


def breaking(member: int, members: int = 3, *, evaluation: bool = False, **fragile: Any) -> Callable[[], Any]:
    """A factory whose n-th env is fragile: the first of this member's, among those that it trains in or is evaluated in."""
    made: list[int] = []
    place = member * N_ENVS + (members * N_ENVS if evaluation else 0)

    def factory() -> Any:
        made.append(1)
        return tasks.Fragile(**fragile) if len(made) == place + 1 else tasks.Signs()

    return factory


def trained(folder: Path, factory: Callable[[], Any], members: int = 3) -> list[Run]:
    return train(folder, [make_config(env=SIGNS, seed=seed, run=EVERY) for seed in range(members)], factory=factory)


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("raise", "env 0 raised RuntimeError in step() at step 40: the simulator fell over"),
        ("nan reward", "env 0 gave reward = nan at step 40"),
        ("infinite observation", "env 0 gave observation[0] = inf at step 40"),
    ],
)
def test_a_member_whose_env_breaks_fails_alone_and_says_what_broke_where(tmp_path: Path, gives: str, told: str) -> None:
    runs = trained(tmp_path, breaking(1, last=40, gives=gives))
    assert [run.status.state for run in runs] == ["finished", "failed", "finished"]
    reason = runs[1].status.reason or ""
    assert told in reason
    assert f"rlclinic runs show {runs[1].id}" in reason
    assert told in runs[1].log
    # Steps 33 to 48 are the third rollout: the two before it stand, with their rows and the checkpoint.
    assert [row["total_timesteps"] for row in table(runs[1])] == ["32", "64"]
    assert runs[1].checkpoint("@last").step == 64
    assert runs[1].checkpoint("@last").valid


def test_the_others_learn_what_they_would_have_learned_anyway(tmp_path: Path) -> None:
    broken, whole = trained(tmp_path, breaking(1, last=40)), trained(tmp_path, tasks.Signs)
    for index in (0, 2):
        assert_same_run(broken[index], whole[index])


def test_training_says_so_when_a_member_failed(tmp_path: Path) -> None:
    runs = trained(tmp_path, tasks.Signs, members=1)
    assert train_runs(runs, resume=True, factory=tasks.Signs)
    configs = [make_config(env=SIGNS, seed=seed) for seed in range(2)]
    group = Store(tmp_path / "runs").create_group(configs)
    assert not train_runs(group.runs, factory=breaking(0, 2, last=5))


def test_a_failed_run_can_be_resumed_from_its_last_checkpoint(tmp_path: Path) -> None:
    run = trained(tmp_path, breaking(0, 1, last=40), members=1)[0]
    assert run.status.state == "failed"
    assert train_runs([run], resume=True, factory=tasks.Signs)
    assert run.status.state == "finished"
    assert run.status.reason is None
    assert [row["total_timesteps"] for row in table(run)] == ["32", "64", "96", "128", "160"]
    assert "not bit for bit" in run.log


def test_an_env_that_breaks_in_an_evaluation_fails_its_member_and_leaves_no_half_measured_value(tmp_path: Path) -> None:
    runs = trained(tmp_path, breaking(1, evaluation=True, last=2))
    assert [run.status.state for run in runs] == ["finished", "failed", "finished"]
    assert "the simulator fell over" in (runs[1].status.reason or "")
    assert runs[1].status.eval_mean is None
    assert all(row["val/roll/ep_rew_mean"] == "" for row in table(runs[1]))
    assert runs[0].status.eval_mean is not None


def test_a_whole_cohort_of_failures_ends(tmp_path: Path) -> None:
    runs = train(tmp_path, [make_config(env=SIGNS, seed=seed) for seed in range(2)], factory=lambda: tasks.Fragile(last=1))
    assert [run.status.state for run in runs] == ["failed", "failed"]
    assert [table(run) for run in runs] == [[], []]


# ── updates that are not finite ──


def poisoned(monkeypatch: pytest.MonkeyPatch, iteration: int, member: int, name: str) -> None:
    """In one iteration a member's advantages, or its value targets, are not numbers."""
    original = on_policy.estimate_advantages
    calls = [0]

    def estimate_advantages(*inputs: Any) -> Any:
        whole, raw = original(*inputs)
        calls[0] += 1
        if calls[0] == iteration:
            bad = getattr(whole, name).clone()
            bad[member, 3] = torch.nan
            whole = whole._replace(**{name: bad})
        return whole, raw

    monkeypatch.setattr(on_policy, "estimate_advantages", estimate_advantages)


@pytest.mark.parametrize(("name", "told"), [("advantage", "advantages came first"), ("returns", "value targets came first")])
def test_an_update_that_is_not_finite_is_taken_back_and_its_member_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    configs = [make_config(seed=seed, run=EVERY) for seed in range(3)]
    usual = train(tmp_path, configs)
    poisoned(monkeypatch, 3, 1, name)
    runs = train(tmp_path, configs)
    assert [run.status.state for run in runs] == ["finished", "failed", "finished"]
    assert f"the update after env step 64 is not finite: {told}" in (runs[1].status.reason or "")
    assert runs[1].status.env_steps == 64
    weights = load_file(runs[1].checkpoint("@last").path / "policy.safetensors")
    assert all(np.isfinite(values).all() for values in weights.values())
    assert table(runs[1]) == table(usual[1])[:2]
    for index in (0, 2):
        assert_same_run(runs[index], usual[index])


def test_numbers_that_blow_up_on_the_way_are_traced_to_the_gradient_step(tmp_path: Path) -> None:
    config = make_config(algo={"optimizer": "sgd", "learning_rate": 1e30, "max_grad_norm": 1e30, "n_epochs": 4})
    run = train(tmp_path, [config])[0]
    assert run.status.state == "failed"
    reason = run.status.reason or ""
    assert "in gradient step" in reason or "the optimizer step came first" in reason
    assert "advantages were finite" in reason or "gradients were finite" in reason


def test_the_first_bad_tensor_is_named_in_the_order_of_the_way_from_the_env_to_the_weights() -> None:
    at = workshop([make_config(seed=seed) for seed in range(2)])
    rollout, hp = at.collect(), at.numbers()
    whole, _ = on_policy.estimate_advantages(at.plan, at.learner, rollout, hp)
    _, readings, _ = on_policy.learn(at.plan, at.learner, whole, hp, None, at.seed, 0)
    rollout.reward[1, 2, 0] = torch.inf
    whole.advantage[1, 5] = torch.nan
    readings["value"][2, 0] = torch.inf
    assert failures.first_bad(1, rollout, whole, readings) == "rewards came first"
    assert failures.first_bad(0, rollout, whole, readings).startswith("value in gradient step 3 came first")
    readings["value"][2, 0] = 0.0
    assert failures.first_bad(0, rollout, whole, readings).startswith("the optimizer step came first")


def test_nan_rewards_end_a_run_even_where_target_kl_refuses_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = on_policy.estimate_advantages

    def spoiled(plan: Any, learner: Any, rollout: Any, hp: Any) -> Any:
        whole, raw = step(plan, learner, rollout, hp)
        # A KL of NaN is not below any target: no step is applied, and the weights stay finite.
        return whole._replace(log_prob=torch.full_like(whole.log_prob, torch.nan)), raw

    monkeypatch.setattr(on_policy, "estimate_advantages", spoiled)
    runs = train(tmp_path, [make_config(env=SIGNS, seed=0, run=EVERY, algo={"target_kl": 0.01})], factory=tasks.Signs)
    assert runs[0].status.state == "failed"
    assert "not finite" in (runs[0].status.reason or "")
