"""Runs with actors: exact in turn, bounded by arrival, and none the worse for an actor that is killed."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import Config
from rlclinic.errors import ConfigError, EnvironmentFailed
from rlclinic.runs.record import Run
from rlclinic.training import assembly, optim
from rlclinic.training.__main__ import train_runs
from rlclinic.training.actors import pool, processes
from rlclinic.training.actors.pool import Actors
from rlclinic.training.bonuses import pay
from rlclinic.training.constraints import lagrangian
from rlclinic.training.engines import asynchronous
from rlclinic.training.engines.asynchronous import Asynchronous
from rlclinic.training.fast import gradients
from rlclinic.training.loops import on_policy
from rlclinic.training.loops.on_policy import IterationInputs, Learner, Plan
from tests.crossings import environment
from tests.training import tasks
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, table, train, workshop

RUN = {"max_env_steps": 256, "checkpoint_every_env_steps": 70, "eval_every_env_steps": 128}


def config_of(kind: str, seed: int = 0, env: dict[str, Any] | None = None, **algo: Any) -> Config:
    settings = {"n_actors": 2, "n_steps": 8, **algo}
    return make_config(kind, {"max_episode_steps": 20, **(env or {})}, seed, algo=settings, run=RUN)


def actors_of(config: Config, seeds: tuple[int, ...] = (0,), factory: Any = None) -> tuple[Actors, Plan, Learner]:
    """Actors that are ready, and a learner for them."""
    env = assembly.make_env(config, list(seeds), "cpu", factory)
    assert isinstance(env, Actors)
    env.corrections = tuple(sorted(assembly.CORRECTIONS))
    env.reset()
    plan = assembly.plan_for(config, env)
    assert isinstance(plan, Plan)
    learner = assembly.fresh_learner(plan, list(seeds), env.n_envs)
    assert isinstance(learner, Learner)
    return env, plan, learner


def moved(learner: Learner, by: float) -> Learner:
    return Learner(learner.flat + by, learner.optimizer, learner.obs_stats, learner.reward_stats, learner.reward_carry)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """IMPALA with two actors, in one go, alone."""
    return train(tmp_path_factory.mktemp("straight"), [config_of("impala", 2, {"normalize_obs": True, "normalize_reward": True})])[0]


def test_a_member_of_a_cohort_with_actors_learns_as_it_would_alone(straight: Run, tmp_path: Path) -> None:
    env = {"normalize_obs": True, "normalize_reward": True}
    together = train(tmp_path, [config_of("impala", seed, env) for seed in (5, 2)])
    assert_same_run(together[1], straight)
    assert table(together[0]) != table(straight)


def test_a_run_with_actors_resumes_as_if_it_had_never_stopped(straight: Run) -> None:
    steps = [int(row["total_timesteps"]) for row in table(straight)]
    with pytest.raises(Interrupted):
        train(straight.path.parent.parent, [straight.config], callback=interrupt_at(steps[-1]))
    broken = Run((straight.path.parent / "@last").resolve())
    assert 0 < broken.checkpoint("@last").step < steps[-1]
    assert train_runs([broken], resume=True)
    assert_same_run(broken, straight)


def test_killed_actors_cost_time_and_not_a_bit(straight: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hear, killed = Actors._hear, []

    def with_a_kill(self: Actors, number: int) -> Any:
        process = self._places[number].actor._process  # type: ignore[attr-defined]
        if len(killed) < 3 and process.is_alive():  # a rollout may have come out of one that was killed right after
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            killed.append(number)
        return hear(self, number)

    monkeypatch.setattr(Actors, "_hear", with_a_kill)
    run = train(tmp_path, [straight.config])[0]
    assert_same_run(run, straight)
    assert len(killed) == 3
    assert "another one has taken its place" in (run.path / "run.log").read_text()
    assert run.metrics["time/actors_replaced"][-1] == len(killed)


def test_an_actor_that_always_dies_is_given_up_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    env, plan, learner = actors_of(config_of("impala"))
    monkeypatch.setattr(pool, "DEATHS", 1)

    def die(_: processes.ActorProcess) -> None:
        raise pool.ActorDied("process 1 was killed by SIGKILL")

    monkeypatch.setattr(processes.ActorProcess, "hear", die)
    with pytest.raises(EnvironmentFailed, match=r"has died 2 times.*killed by SIGKILL"):
        env.collect(plan, learner, 0)
    env.close()


def test_actors_that_end_before_they_have_begun_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_: processes.ActorProcess) -> None:
        raise pool.ActorDied("process 1 ended with exit code 1")

    monkeypatch.setattr(processes.ActorProcess, "hear", die)
    with pytest.raises(EnvironmentFailed, match=r"exit code 1(?s:.*)top level of a module"):
        actors_of(config_of("impala"))


def test_in_turn_a_rollout_is_as_many_updates_old_as_there_are_actors() -> None:
    env, plan, learner = actors_of(config_of("impala", n_actors=3))
    weights = [moved(learner, 0.01 * k) for k in range(7)]
    try:
        arrived = [env.collect(plan, weights[k], k) for k in range(7)]
    finally:
        env.close()
    assert [each.lag for each in arrived] == [0, 1, 2, 3, 3, 3, 3]
    for k, each in enumerate(arrived):
        assert torch.equal(each.actor.flat, weights[k - each.lag].flat)
        # Its log-probabilities are those of the weights that acted.
        ratio = on_policy.log_ratio(plan, plan.policy.layout.views(each.actor.flat), each.rollout)
        assert float(ratio.abs().max()) < 1e-6
    assert [each.first_env for each in arrived] == [0, 2, 4, 0, 2, 4, 0]
    # No two actors start from the same states, and each goes on where it was.
    assert not torch.equal(arrived[0].rollout.obs, arrived[1].rollout.obs)
    assert torch.equal(arrived[3].rollout.obs[:, 0], arrived[0].rollout.following[:, -1])


def test_by_arrival_nobody_waits_for_a_straggler_until_its_rollout_would_be_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("impala", env={"n_envs": 1}, n_actors=4, n_steps=2, actor_order="arrival", max_lag=6)
    env, plan, learner = actors_of(config)
    # The last of the four is never ready; what it has is there when it is waited for.
    monkeypatch.setattr(processes, "ready", lambda actors: [0, 1, 2])
    heard: list[int] = []
    hear = Actors._hear
    monkeypatch.setattr(Actors, "_hear", lambda self, number: (heard.append(number), hear(self, number))[1])
    try:
        lags = [env.collect(plan, learner, k).lag for k in range(40)]
    finally:
        env.close()
    assert max(lags) == 6
    assert [lag for lag, number in zip(lags, heard, strict=True) if number == 3] == [6] * heard.count(3)
    assert heard.count(3) == 6, "it is waited for only when its rollout would become too old"
    assert set(lags[8:]) == {3, 4, 6}, "nobody who is ready is passed over for long"


def test_a3c_takes_its_gradient_where_the_actor_stood_and_applies_it_where_the_learner_is() -> None:
    config = config_of("a3c", normalize_advantage="off", max_grad_norm=1e9, optimizer="sgd", momentum=0.0, learning_rate=0.1)
    env, plan, learner = actors_of(config)
    hp = workshop([config_of("a3c", n_actors=0, optimizer="sgd", learning_rate=0.1, max_grad_norm=1e9)]).numbers()
    seed = torch.zeros(1, 1, 1, dtype=torch.int64)
    newer = moved(learner, 0.05)
    try:
        env.collect(plan, learner, 0)  # both actors begin with the first weights
        iteration = Asynchronous().iterate(
            IterationInputs(plan, newer, env, on_policy.Position(torch.empty(0)), hp, None, seed, 1, dict.fromkeys(("env", "learn"), 0.0))
        )
    finally:
        env.close()
    assert iteration.arrived is not None
    assert torch.equal(iteration.arrived.actor.flat, learner.flat)
    whole, _ = on_policy.estimate_advantages(plan, learner, iteration.rollout, hp)
    grad, _ = gradients.by_autograd(plan, learner.flat, whole, hp)
    expected, _ = optim.step(plan.optimizer, newer.flat, grad, newer.optimizer, hp.step_size, None)
    torch.testing.assert_close(iteration.after.flat, expected, rtol=1e-5, atol=1e-7)


def test_impala_weighs_an_old_step_by_the_clipped_ratio_of_the_policies() -> None:
    config = config_of("impala", normalize_advantage="off", gae_lambda=0.0, gamma=0.0)
    env, plan, learner = actors_of(config)
    newer = moved(learner, 0.3 * torch.randn(learner.flat.shape, generator=torch.Generator().manual_seed(1)))  # type: ignore[arg-type]
    hp = workshop([config_of("impala", n_actors=0, gae_lambda=0.0, gamma=0.0)]).numbers()
    try:
        rollout = env.collect(plan, learner, 0).rollout
    finally:
        env.close()
    whole, raw = on_policy.estimate_advantages(plan, newer, rollout, hp)
    views = plan.policy.layout.views(newer.flat)
    rho = on_policy.log_ratio(plan, views, rollout).exp().clamp(max=1.0).flatten(1)
    assert float(rho.min()) < 0.9, "the policies must differ, or nothing is tested"
    # Without a future, an advantage is the reward less the value, times the weight.
    torch.testing.assert_close(raw.advantage, rho * (rollout.reward.flatten(1) - whole.value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["appo", "a3c"])
def test_an_environment_of_ones_own_is_played_by_actors(tmp_path: Path, kind: str) -> None:
    run = train(tmp_path, [config_of(kind, env={"id": "Signs", "max_episode_steps": None})], factory=tasks.Signs)[0]
    assert run.status.state == "finished"
    lag = [float(row["train/sentinel/policy_lag"]) for row in table(run)]
    assert max(lag) == 2.0
    assert np.isfinite([float(row["train/sentinel/actor_kl"]) for row in table(run)]).all()


def test_what_episodes_report_with_all_actors_is_in_the_rows(tmp_path: Path) -> None:
    env = {"id": "Crossed", "max_episode_steps": None, "log_info": ["progress"]}
    row = table(train(tmp_path, [config_of("appo", env=env)], factory=environment.Crossed)[0])[-1]
    # Episodes of five steps: 1/5, 2/5, ... of the way; half of what is paid is one term, the rest another.
    assert float(row["train/info/progress/mean"]) == pytest.approx(0.6)
    assert float(row["train/info/progress/last"]) == pytest.approx(1.0)
    assert float(row["train/terms/half/share"]) == pytest.approx(0.5)


def test_an_environment_that_breaks_in_an_actor_ends_its_run_with_the_reason(tmp_path: Path) -> None:
    run = train(tmp_path, [config_of("impala", env={"id": "Fragile", "max_episode_steps": None})], factory=tasks.Fragile)[0]
    assert run.status.state == "failed"
    assert "Fragile" in (run.status.reason or "")


def test_what_sits_with_the_environments_is_refused_before_anything_is_spent() -> None:
    with pytest.raises((ConfigError, ValueError), match=r"n_actors"):
        Config(**{**config_of("impala").model_dump(), "curriculum": {"kind": "uniform", "levels": 4}})


# ── limits on costs ──


def with_limit(algo: str, limit: float = 2.0, **env: Any) -> Config:
    given = config_of(algo, env={"id": "Hall", "n_envs": 2, "max_episode_steps": None, **env}, n_steps=16).model_dump()
    return Config(**{**given, "cost": {"limit": limit, "learning_rate": 0.1}, "run": {**RUN, "max_env_steps": 1_600}})


@pytest.mark.parametrize("algo", ["impala", "appo", "a3c"])
def test_actors_tell_what_steps_cost_and_the_limit_is_kept_by_the_learner(algo: str, tmp_path: Path) -> None:
    rows = table(train(tmp_path, [with_limit(algo)], factory=tasks.Hall)[0])
    costs = [float(row["train/cost/return"]) for row in rows if row["train/cost/return"]]
    assert costs, "no episode has ended, or its cost was not told"
    assert all(0 <= cost <= 10 for cost in costs), "ten steps of an episode cost 1 at most: nobody counts another actor's"
    assert max(float(row["train/cost/multiplier"]) for row in rows) > 0


@pytest.mark.parametrize("algo", ["a3c", "impala", "appo"])
def test_actors_tell_what_terms_pay_and_which_of_them_is_learned_from(algo: str, tmp_path: Path) -> None:
    """Runs and walks of ten steps: what the terms add up to in the episodes of all actors is what those returned."""
    told = {"id": "Hall", "log_terms": ("run", "walk"), "log_info": ("cost",), "term_advantages": True, "max_episode_steps": None}
    (run,) = train(tmp_path, [config_of(algo, 1, told)], factory=tasks.Hall)
    rows = [row for row in table(run) if row["train/roll/ep_rew_mean"]]
    assert rows
    for row in rows:
        paid = [float(row[f"train/terms/{name}/return"]) for name in ("run", "walk")]
        assert sum(paid) == pytest.approx(float(row["train/roll/ep_rew_mean"]), abs=1e-5)
        assert float(row["train/info/cost/mean"]) == pytest.approx(paid[0] / 20)
    parts = [[float(cell) for column, cell in row.items() if column.endswith("/advantage")] for row in rows]
    assert all(len(three) == 3 and sum(three) == pytest.approx(1.0, abs=1e-5) for three in parts)


def test_costs_of_old_steps_count_for_impala_as_the_reward_does(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_limit("impala")
    env, plan, learner = actors_of(config, factory=tasks.Hall)
    hp, seed = workshop([config_of("impala", n_actors=0)]).numbers(), torch.zeros(1, 1, 1, dtype=torch.int64)
    seen: list[Any] = []
    monkeypatch.setattr(lagrangian, "weigh_some", lambda *args, keep=lagrangian.weigh_some: seen.append(keep(*args)) or seen[-1])
    monkeypatch.setattr(on_policy, "log_ratio", lambda *args: torch.full_like(args[-1].reward, -1.0))
    try:
        position, clock = on_policy.Position(torch.empty(0)), dict.fromkeys(("env", "learn"), 0.0)
        iteration = Asynchronous().iterate(IterationInputs(plan, learner, env, position, hp, None, seed, 0, clock))
    finally:
        env.close()
    assert iteration.rollout.weighed is not None
    torch.testing.assert_close(iteration.rollout.weighed.advantage, seen[0][0].advantage * np.exp(-1.0))


def test_an_actor_whose_environment_does_not_tell_its_cost_ends_the_run_in_words(tmp_path: Path) -> None:
    run = train(tmp_path, [with_limit("impala")], factory=tasks.Silent)[0]
    assert run.status.state == "failed"
    assert 'neither info["cost"]' in (run.status.reason or "")
    with pytest.raises(ConfigError, match="tells nothing of each step"):
        train(tmp_path, [Config(**{**config_of("impala").model_dump(), "cost": {"limit": 1.0}})])


# ── bonuses for what is new ──


def with_bonus(config: Config, **bonus: Any) -> Config:
    return Config(**{**config.model_dump(), "bonus": {"coef": 0.1, **bonus}})


@pytest.mark.parametrize(("algo", "kind"), [("impala", "noveld"), ("appo", "episodic_count"), ("a3c", "rnd"), ("impala", "count")])
def test_a_run_with_actors_and_a_bonus_resumes_as_if_it_had_never_stopped(algo: str, kind: str, tmp_path: Path) -> None:
    config = with_bonus(config_of(algo, 3), kind=kind)
    straight = train(tmp_path / "straight", [config])[0]
    steps = [int(row["total_timesteps"]) for row in table(straight)]
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", [config], callback=interrupt_at(steps[-1]))
    broken = Run((tmp_path / "broken" / "runs" / "@last").resolve())
    assert 0 < broken.checkpoint("@last").step < steps[-1]
    assert train_runs([broken], resume=True)
    assert_same_run(broken, straight)
    assert np.nanmax(straight.metrics["train/bonus/return"]) > 0


def test_what_runs_along_time_is_each_environments_own_whichever_actor_plays_it() -> None:
    config = with_bonus(config_of("impala"), kind="noveld")
    env, plan, learner = actors_of(config)
    seed = torch.zeros(1, 1, 1, dtype=torch.int64)
    try:
        arrived = env.collect(plan, learner, 0)
    finally:
        env.close()
    assert plan.bonus is not None
    assert learner.bonus is not None
    carry = torch.arange(1.0, 1.0 + env.n_envs).view(1, -1)
    state = {name: each.clone() for name, each in learner.bonus.items()} | {"carry": carry}
    first = arrived.rollout.reward.shape[2]
    paid, after, _ = pay.pay_some(plan.bonus, state, arrived.rollout, first, seed, 1, None)
    assert torch.equal(after["carry"][:, :first], carry[:, :first]), "the other actor's environments stand still"
    assert not torch.equal(after["carry"][:, first:], carry[:, first:])
    assert not after["episode"][:, :first].any()
    assert after["episode"][:, first:].any()
    alone = {name: each.clone() for name, each in learner.bonus.items()} | {
        "carry": carry[:, first:],
        "episode": state["episode"][:, first:] * 0,
    }
    wanted, _, _ = pay.pay(plan.bonus, alone, arrived.rollout, seed, 1, None)
    assert paid.advantage is not None
    assert wanted.advantage is not None
    assert torch.equal(paid.advantage, wanted.advantage)


def test_a_bonus_counts_for_an_old_step_of_impala_by_the_clipped_ratio_too(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_bonus(config_of("impala", normalize_advantage="off"), kind="count")
    env, plan, learner = actors_of(config)
    newer = replace(learner, flat=learner.flat + 0.3 * torch.randn(learner.flat.shape, generator=torch.Generator().manual_seed(1)))
    hp = workshop([config_of("impala", n_actors=0)]).numbers()
    try:
        rollout = env.collect(plan, learner, 0).rollout
    finally:
        env.close()
    plain = pay.Paid(None, torch.ones_like(rollout.reward))
    weighed = asynchronous._correct(plan, newer, rollout, plain.advantage, hp)
    assert weighed is not None
    assert float(weighed.min()) < 0.9
    assert float(weighed.max()) <= 1.0
    assert asynchronous._correct(plan, learner, rollout, plain.advantage, hp).allclose(torch.ones_like(rollout.reward))
