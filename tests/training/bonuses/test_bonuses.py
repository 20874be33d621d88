"""Bonuses for new states: what they pay, what they leave alone, and that they resume, cohort or not, to the last bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.config import BonusConfig, Config, corrections, load, set_values
from rlclinic.errors import ConfigError
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from rlclinic.training.bonuses import counts, curiosity, pay, sight
from rlclinic.training.envs import make
from rlclinic.training.envs.base import ActionSpec
from rlclinic.training.loops import on_policy
from rlclinic.training.maths import normalize
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, table, train, workshop
from tests.training.pictures import Bright

KINDS = ("count", "episodic_count", "rnd", "noveld", "icm")
LEARNERS = [("ppo", kind) for kind in KINDS] + [("a2c", "rnd"), ("reinforce", "count"), ("dqn", "count"), ("dqn", "rnd")]
SEA = {"id": "DeepSea-v0", "kwargs": {"size": 4}}


def config_with(algo: str, kind: str, seed: int = 0, env: dict[str, Any] | None = None, **bonus: Any) -> Config:
    return make_config(algo, env or {"id": "CartPole-v1", "max_episode_steps": 20}, seed=seed, bonus={"kind": kind, **bonus})


@pytest.mark.parametrize(("algo", "kind"), LEARNERS)
def test_a_bonus_of_nothing_is_the_run_without_one_bit_for_bit(algo: str, kind: str, tmp_path: Path) -> None:
    paid, plain = (
        train(tmp_path / name, [config])[0]
        for name, config in (("a", config_with(algo, kind, coef=0)), ("b", make_config(algo, {"max_episode_steps": 20})))
    )
    assert table(paid, without=("train/bonus/",)) == table(plain)
    assert "train/bonus/share" in table(paid)[0]
    assert "train/bonus/share" not in table(plain)[0]


@pytest.mark.parametrize(("algo", "kind"), LEARNERS)
def test_a_run_with_a_bonus_resumes_as_if_it_had_never_stopped(algo: str, kind: str, tmp_path: Path) -> None:
    config = set_values(config_with(algo, kind, until="first_success"), ["run.checkpoint_every_env_steps=64"])
    whole = train(tmp_path / "whole", [config])[0]
    with pytest.raises(Interrupted):
        train(tmp_path / "cut", [config], callback=interrupt_at(96))
    (cut,) = [path for path in (tmp_path / "cut" / "runs").iterdir() if (path / "config.json").is_file() and not path.is_symlink()]
    run = type(whole)(cut)
    train_runs([run], resume=True)
    assert_same_run(whole, run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_with_a_bonus_learns_as_it_would_alone(kind: str, tmp_path: Path) -> None:
    together = train(tmp_path / "together", [config_with("ppo", kind, seed) for seed in (3, 0, 5)])
    alone = train(tmp_path / "alone", [config_with("ppo", kind, 5)])[0]
    assert_same_run(together[2], alone)


def test_a_bonus_changes_what_is_learned_and_nothing_of_what_is_reported(tmp_path: Path) -> None:
    run = train(tmp_path, [config_with("ppo", "count", coef=100.0, env=SEA, value_head="shared")])[0]
    rows = table(run)
    # A dive of four steps pays at most 1 of the task, whatever the bonus is.
    assert all(float(row["train/roll/ep_rew_mean"]) <= 1 for row in rows)
    assert all(float(row["val/roll/ep_rew_mean"]) <= 1 for row in rows if row["val/roll/ep_rew_mean"])
    assert float(rows[0]["train/bonus/share"]) > 0.99


def test_nothing_is_paid_after_the_first_success_if_the_config_says_so() -> None:
    shop = workshop([config_with("ppo", "count", env=SEA, until="first_success", value_head="shared")])
    bonus, state = shop.plan.bonus, shop.learner.bonus
    assert bonus is not None
    assert state is not None
    rollout = shop.collect()
    rollout = replace(rollout, success=torch.where(rollout.end, 0.0, torch.nan))
    paid, state, _ = pay.pay(bonus, state, rollout, shop.seed, 0, None)
    assert paid.reward is not None
    assert (paid.reward > 0).all()
    _, state, _ = pay.pay(bonus, state, replace(rollout, success=torch.where(rollout.end, 1.0, torch.nan)), shop.seed, 1, None)
    paid, _, _ = pay.pay(bonus, state, rollout, shop.seed, 2, None)
    assert paid.reward is not None
    assert (paid.reward == 0).all()


@pytest.mark.parametrize("native", ["auto", "never"])
def test_a_reward_above_0_ends_the_bonus_where_nobody_reports_success_and_a_report_has_the_last_word(native: str) -> None:
    """Gymnasium's FrozenLake reports no success, ours does; CartPole pays 1 for every step, and never succeeds."""
    lake = {"id": "FrozenLake-v1", "kwargs": {"desc": ["SFG"], "is_slippery": False}, "max_episode_steps": 20, "native": native}
    for env, reports in ((lake, True), ({"id": "CartPole-v1", "max_episode_steps": 4}, False)):
        shop = workshop([config_with("ppo", "count", env=env, until="first_success", value_head="shared")])
        bonus, state = shop.plan.bonus, shop.learner.bonus
        assert bonus is not None
        assert state is not None
        for iteration in range(40):
            rollout = shop.collect()
            if not reports:
                rollout = replace(rollout, success=torch.where(rollout.over, 0.0, torch.nan))
            _, state, _ = pay.pay(bonus, state, rollout, shop.seed, iteration, None)
        assert bool(state["found"]) is reports


@pytest.mark.parametrize("steps", [1, 40, 256])
def test_what_an_episode_is_paid_does_not_depend_on_how_long_rollouts_are(steps: int) -> None:
    """Episodes of 100 steps in two environments: a rollout of 40 often holds no end, a cycle of DQN is a single step."""
    shop = workshop([config_with("ppo", "count", env={"id": "Pendulum-v1", "max_episode_steps": 100}, coef=0.5, value_head="shared")])
    bonus, state = shop.plan.bonus, shop.learner.bonus
    assert bonus is not None
    assert state is not None
    rollout = shop.collect()
    shape = (1, steps, 2)
    paid, ends, told, fresh = 0.0, 0, [], []
    for iteration in range(2_048 // steps):
        time = torch.arange(iteration * steps, (iteration + 1) * steps).view(1, -1, 1).expand(shape)
        obs = torch.rand(*shape, 3, generator=torch.Generator().manual_seed(iteration)) * 2 - 1
        over = time % 100 == 99
        given = replace(
            rollout, obs=obs, next_obs=obs, following=obs, action=torch.zeros(*shape, 1), reward=torch.ones(shape), terminated=over & False,
            truncated=over, valid=None, success=None,
        )  # fmt: skip
        found, state, readings = pay.pay(bonus, state, given, shop.seed, iteration, None)
        assert found.reward is not None
        paid, ends = paid + float(found.reward.sum()), ends + int(over.sum())
        if not readings["train/bonus/return"].isnan():
            told.append(float(readings["train/bonus/return"]))
        fresh.append(float(readings["train/bonus/new_states"]))
        assert 0 < float(readings["train/bonus/share"]) < 0.5
    assert paid / ends * 0.8 < np.mean(told) < paid / ends * 1.2
    assert any(0 < each < 1_000 for each in fresh)  # of 250 steps or more, so that there is more to say than all or nothing


def slow_counts(cells: np.ndarray, over: np.ndarray | None) -> np.ndarray:
    """Visits in the order of time, counted one by one; within episodes where `over` is given."""
    visits = np.zeros(cells.shape)
    for member in range(cells.shape[0]):
        seen: dict[Any, int] = {}
        for t in range(cells.shape[1]):
            keys = [(n if over is not None else 0, cells[member, t, n]) for n in range(cells.shape[2])]
            for key in keys:
                seen[key] = seen.get(key, 0) + 1
            visits[member, t] = [seen[key] for key in keys]
            if over is not None:
                seen = {key: count for key, count in seen.items() if not over[member, t, key[0]]}
    return visits


def test_visits_are_counted_in_the_order_of_time_over_all_rollouts() -> None:
    random = np.random.default_rng(0)
    cells, over = random.integers(0, 9, (3, 40, 4)), random.random((3, 40, 4)) < 0.2
    whole, episodes = torch.zeros(3, 9), torch.zeros(3, 4, 9)
    found, found_in_episodes = [], []
    for part in (slice(0, 15), slice(15, 40)):
        cell = torch.tensor(cells[:, part])
        visits, whole = counts.count(whole, cell, None)
        in_episodes, episodes = counts.count_in_episodes(episodes, cell, torch.tensor(over[:, part]), None)
        found.append(visits)
        found_in_episodes.append(in_episodes)
    np.testing.assert_array_equal(torch.cat(found, 1).numpy(), slow_counts(cells, None))
    np.testing.assert_array_equal(torch.cat(found_in_episodes, 1).numpy(), slow_counts(cells, over))


def test_the_same_state_has_the_same_cell_and_states_apart_have_others() -> None:
    env = make(load("SparseMountainCar-v0").config.env, [0], 1)
    cells = counts.cells_of(env, sight.find_sight(env), 16, 65_536)
    obs = torch.tensor([[-0.5, 0.0], [-0.5001, 0.00001], [0.3, 0.0], [-0.5, 0.06]])
    number = cells.number(obs, 65_536)
    assert number[0] == number[1]
    assert len(set(number.tolist())) == 3
    assert not cells.one_hot
    sea = make(load("DeepSea-v0").config.env, [0], 1)
    assert counts.cells_of(sea, sight.find_sight(sea), 16, 10).one_hot


def test_novelty_is_scaled_by_its_sum_over_time_and_not_over_environments() -> None:
    """Of two environments that pay 1 and 3 at every step, the sums over time differ; averaged over environments they would not."""
    shop = workshop([config_with("ppo", "rnd")])
    bonus, state = shop.plan.bonus, shop.learner.bonus
    assert bonus is not None
    assert state is not None
    novelty = torch.tensor([1.0, 3.0]).view(1, 1, 2).expand(1, 16, 2)
    scaled, after = pay._scale(bonus, dict(state), novelty, None)
    sums = np.array([[value * (1 - 0.99 ** (t + 1)) / 0.01 for value in (1.0, 3.0)] for t in range(16)])
    np.testing.assert_allclose(float(scaled[0, 0, 0]), 1 / sums.std(), rtol=1e-4)
    np.testing.assert_allclose(after["carry"].numpy()[0], sums[-1], rtol=1e-4)
    # No end of an episode cuts the sum: it goes on where it was.
    _, later = pay._scale(bonus, dict(after), novelty, None)
    np.testing.assert_allclose(later["carry"].numpy()[0], [value * (1 - 0.99**32) / 0.01 for value in (1.0, 3.0)], rtol=1e-4)


def test_what_is_met_again_and_again_becomes_old_to_a_network() -> None:
    nets = curiosity.build("rnd", 6, ActionSpec("discrete", (2,)))
    state = curiosity.fresh(nets, [0, 1], torch.device("cpu"))
    seen, other = (torch.randn(2, 64, 6, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    before, target = curiosity.prediction_error(nets, state, seen)
    seed = torch.tensor([0, 1]).view(-1, 1, 1)
    after = curiosity.learn_targets(nets, state, "predictor", seen, target, 150, 1e-3, seed, 0, 0, None)
    known, unknown = (curiosity.prediction_error(nets, after, obs)[0].mean() for obs in (seen, other))
    assert known < 0.2 * before.mean()
    assert unknown > 2 * known
    assert torch.equal(after["target"], state["target"])


@pytest.mark.parametrize("active", [None, torch.tensor([[True], [False]])])
def test_a_network_that_learns_targets_without_a_graph_learns_what_autograd_would(active: torch.Tensor | None) -> None:
    nets = curiosity.build("rnd", 6, ActionSpec("discrete", (2,)))
    state = curiosity.fresh(nets, [0, 1], torch.device("cpu"))
    random = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2, 300, 6, generator=random), torch.randn(2, 300, curiosity.FEATURES, generator=random)

    def loss(weights: Any, index: torch.Tensor) -> torch.Tensor:
        wrong = curiosity.outputs(nets, weights, "predictor", curiosity.take(inputs, index)) - curiosity.take(targets, index)
        return 0.5 * wrong.square().sum(-1).mean(-1, keepdim=True)

    settings = (5, 1e-3, torch.tensor([3, 9]).view(-1, 1, 1), 7, 1, active)
    by_hand = curiosity.learn_targets(nets, state, "predictor", inputs, targets, *settings)
    by_autograd = curiosity.learn(nets, state, ("predictor",), loss, 300, *settings)
    assert by_hand.keys() == by_autograd.keys()
    for name, wanted in by_autograd.items():
        torch.testing.assert_close(by_hand[name], wanted, rtol=1e-4, atol=1e-6)
    assert not torch.equal(by_hand["predictor"][0], state["predictor"][0])
    assert torch.equal(by_hand["predictor"][1], state["predictor"][1]) == (active is not None)


def test_the_cells_of_unbounded_components_are_those_of_asinh_however_far_away() -> None:
    obs = torch.tensor([0.0, -0.0, 0.1, -0.1, 3.0, -250.0, 1e6, -1e17, 1e30, -1e30, torch.inf])
    torch.testing.assert_close(counts._spread(obs)[:8], torch.asinh(obs)[:8], rtol=1e-5, atol=1e-7)
    assert counts._spread(obs)[8:].isfinite().all()


def test_the_bonus_own_critic_looks_beyond_ends_unless_it_is_episodic() -> None:
    shop = workshop([config_with("ppo", "count", env=SEA)])
    bonus, state = shop.plan.bonus, shop.learner.bonus
    assert bonus is not None
    assert state is not None
    found = {}
    for episodic in (False, True):
        settings = replace(bonus, config=BonusConfig(kind="count", episodic=episodic))
        paid, _, _ = pay.pay(settings, state, shop.collect(), shop.seed, 0, None)
        assert paid.reward is None
        assert paid.advantage is not None
        found[episodic] = paid.advantage
    assert not torch.equal(found[False], found[True])


def test_advantages_of_task_and_bonus_add_up() -> None:
    shop = workshop([make_config("ppo", SEA, algo={"normalize_advantage": "off"}, bonus={"kind": "count"})])
    assert shop.plan.bonus is not None
    assert shop.learner.bonus is not None
    rollout = shop.collect()
    paid, _, _ = pay.pay(shop.plan.bonus, shop.learner.bonus, rollout, shop.seed, 0, None)
    plain, _ = on_policy.estimate_advantages(shop.plan, shop.learner, rollout, shop.numbers())
    both, _ = on_policy.estimate_advantages(shop.plan, shop.learner, replace(rollout, paid=paid), shop.numbers())
    assert paid.advantage is not None
    torch.testing.assert_close(both.advantage, plain.advantage + paid.advantage.flatten(1))
    assert torch.equal(both.returns, plain.returns)


@pytest.mark.parametrize("env", [SEA, {"id": "CartPole-v1", "max_episode_steps": 9}])
def test_the_cells_that_steps_acted_on_are_those_of_their_observations(env: dict[str, Any]) -> None:
    """Most of them are where the step before led to, and are not numbered again."""
    shop = workshop([config_with("ppo", "count", seed, env) for seed in (0, 1)])
    assert shop.plan.bonus is not None
    bonus, rollout = shop.plan.bonus, shop.collect()
    number = bonus.cells.number
    assert bool((rollout.terminated | rollout.truncated)[:, :-1].any())
    at, last = pay._acted_on(bonus, rollout, number(rollout.next_obs, bonus.cells.buckets))
    assert torch.equal(at, number(rollout.obs, bonus.cells.buckets))
    assert torch.equal(last, number(rollout.following[:, -1:], bonus.cells.buckets))


def test_rows_that_are_no_transition_are_neither_counted_nor_paid() -> None:
    cell, valid = torch.zeros(1, 3, 2, dtype=torch.int64), torch.tensor([[[True, False], [False, False], [True, True]]])
    visits, after = counts.count(torch.zeros(1, 4), cell, valid)
    assert after[0, 0] == 3
    assert visits[0, 2].tolist() == [3, 3]


def test_values_of_cells_move_towards_the_mean_of_their_targets_and_new_ones_begin_there() -> None:
    cell = torch.tensor([[[0, 1], [0, 2]], [[3, 3], [3, 3]]])
    target = torch.tensor([[[1.0, 5.0], [3.0, 9.0]], [[1.0, 2.0], [3.0, 4.0]]])
    table = torch.full((2, 5), torch.nan)
    table[0, 0] = 10.0
    valid = torch.tensor([[[True, True], [True, False]], [[True, True], [True, True]]])
    after, average = counts.learn_values(table, torch.full((2, 1), torch.nan), cell, target, valid, None)
    step = counts.VALUE_STEP
    # The mean of 1 and 3 pulls at 10; 5 is the first target of its cell; what is no transition teaches nothing.
    expected = [[10 + step * (2 - 10), 5.0, torch.nan, torch.nan, torch.nan], [torch.nan, torch.nan, torch.nan, 2.5, torch.nan]]
    torch.testing.assert_close(after, torch.tensor(expected), equal_nan=True)
    torch.testing.assert_close(average, torch.tensor([[3.0], [2.5]]))
    assert counts.value(after, average, torch.tensor([[1, 4], [3, 0]])).tolist() == [[5.0, 3.0], [2.5, 2.5]]
    held, _ = counts.learn_values(after, average, cell, target, None, torch.tensor([[False], [True]]))
    torch.testing.assert_close(held[0], after[0], equal_nan=True)
    assert not torch.equal(held[1], after[1])


@pytest.mark.parametrize(
    ("kind", "correction"),
    [("count", "table_of_bonus_values"), ("rnd", "bonus_critic_by_half_batches"), ("icm", "bonus_critic_by_half_batches")],
)
def test_a_run_begun_when_the_values_of_a_bonus_were_learned_otherwise_goes_on_so(tmp_path: Path, kind: str, correction: str) -> None:
    config = set_values(
        config_with("ppo", kind, env=SEA), ["env.n_envs=16", "run.checkpoint_every_env_steps=256", "run.max_env_steps=1024"]
    )
    assert config.batch_rows <= config.rollout_size
    rest = {name: each for name, each in corrections.CORRECTIONS.items() if name != correction}
    with pytest.MonkeyPatch.context() as before:
        before.setattr(corrections, "CORRECTIONS", rest)
        before.setattr(assembly, "CORRECTIONS", rest)
        whole = train(tmp_path / "whole", [config])[0]
        with pytest.raises(Interrupted):
            train(tmp_path / "cut", [config], callback=interrupt_at(512))
    (cut,) = [path for path in (tmp_path / "cut" / "runs").iterdir() if (path / "config.json").is_file() and not path.is_symlink()]
    run = type(whole)(cut)
    train_runs([run], resume=True)
    assert_same_run(whole, run)
    assert table(train(tmp_path / "new", [config])[0]) != table(whole)


REFUSED: list[tuple[list[str], str]] = [
    (["algo.name=sac", "bonus.kind=rnd"], "sac pays no bonus"),
    (["algo.name=q_learning", "bonus.kind=count"], "q_learning pays no bonus"),
    (["algo.name=dqn", "bonus.kind=rnd", "bonus.value_head=own"], "no critic beside its Q-values"),
    (["bonus.kind=rnd", "run.engine=compiled"], "operation by operation"),
    (["bonus.coef=1"], "bonus.kind"),
    (["bonus.kind=surprise"], "bonus.kind"),
    (["bonus.kind=count", "bonus.coef=-1"], "bonus.coef"),
    (["bonus.kind=count", "bonus.gamma=1"], "bonus.gamma"),
    (
        ["bonus.kind=count", "bonus.until=first_success", "curriculum={parameter: length, values: [1, 2], kind: uniform}"],
        "the first success is one in an easier version",
    ),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED, ids=lambda case: str(case))
def test_a_bonus_that_cannot_be_paid_is_refused_before_anything_is_spent(settings: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load("CartPole-v1:ppo", settings)


@pytest.mark.parametrize(
    ("layout", "kind"), [("hwc", "count"), ("chw", "rnd"), ("float", "icm"), ("dict", "noveld"), ("hw", "episodic_count")]
)
def test_images_are_seen_as_few_pixels_and_what_looks_alike_is_alike(layout: str, kind: str) -> None:
    config = make_config("ppo", {"id": "Bright", "n_envs": 2}, bonus={"kind": kind})
    shop = workshop([config], lambda: Bright(layout=layout))
    bonus, state, rollout = shop.plan.bonus, shop.learner.bonus, shop.collect()
    assert bonus is not None
    assert state is not None
    seen = bonus.sight.look(rollout)
    assert seen.obs.shape[-1] == bonus.sight.size == sight.PIXELS**2 + (layout == "dict")
    torch.testing.assert_close(seen.following[:, :-1], seen.obs[:, 1:])
    assert float(seen.obs.min()) >= 0
    assert float(seen.obs[..., : sight.PIXELS**2].max()) == pytest.approx(1.0, abs=0.01)
    paid, after, readings = pay.pay(bonus, state, rollout, shop.seed, 0, None)
    assert paid.advantage is not None
    assert paid.advantage.isfinite().all()
    # Four places and two squares: eight pictures, and those in which it has arrived.
    assert 2 <= int((after["counts"] > 0).sum()) <= 10
    assert float(readings["train/bonus/new_states"]) > 0


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_on_images_with_a_bonus_trains(algo: str, tmp_path: Path) -> None:
    config = make_config(algo, {"id": "Bright", "n_envs": 2}, net={"image_features": 8}, bonus={"kind": "rnd"})
    run = train(tmp_path, [set_values(config, ["run.max_env_steps=96"])], factory=Bright)[0]
    assert float(table(run)[-1]["train/bonus/share"]) > 0


@pytest.mark.parametrize("env", [{}, {"normalize_reward": True}], ids=str)
def test_q_values_of_what_a_bonus_pays_are_not_called_impossible(env: dict[str, Any], tmp_path: Path) -> None:
    """No reward is ever met: all that Q-values are worth is the bonus."""
    sea = {"id": "DeepSea-v0", "kwargs": {"size": 10}, **env}
    config = make_config("dqn", sea, bonus={"kind": "count", "coef": 2.0}, algo={"learning_rate": 1e-2, "gamma": 0.9})
    rows_ = table(train(tmp_path, [config])[0])
    told = [
        (float(row["train/sentinel/q_bound"]), float(row["train/sentinel/q_abs_max"])) for row in rows_ if row["train/sentinel/q_bound"]
    ]
    assert told
    assert all(peak <= bound for bound, peak in told)


def test_normalizers_of_a_bonus_are_not_those_of_the_task() -> None:
    shop = workshop([config_with("ppo", "rnd", env={"normalize_obs": True})])
    after = on_policy.update_normalizers(shop.plan, shop.learner, shop.collect(), shop.numbers(), torch.ones(1, 1, dtype=torch.bool))
    assert after.bonus is shop.learner.bonus
    assert after.obs_stats is not None
    assert not torch.equal(after.obs_stats.mean, normalize.moments(1, 4, torch.device("cpu")).mean)


MORE = {"id": "CartPole-v1", "max_episode_steps": 20, "n_envs": 4}


@pytest.mark.parametrize(
    ("before", "after", "anew"),
    [
        ({"kind": "count"}, {"kind": "rnd"}, True),
        ({"kind": "rnd"}, {"kind": "count"}, True),
        ({"kind": "noveld"}, {"kind": "rnd"}, True),
        ({"kind": "count"}, {"kind": "count", "cells": 8}, True),
        ({"kind": "count"}, {"kind": "count", "coef": 0.5}, False),
        ({"kind": "rnd"}, {"kind": "rnd", "until": "first_success"}, False),
        ({"kind": "count", "value_head": "shared"}, {"kind": "count"}, False),
        ({"kind": "noveld"}, {"kind": "noveld", "env": MORE}, True),
        ({"kind": "count"}, {"kind": "count", "env": MORE}, False),
    ],
)
def test_a_fork_to_a_bonus_that_tells_states_apart_otherwise_knows_nothing_yet(
    before: dict[str, Any], after: dict[str, Any], anew: bool, tmp_path: Path
) -> None:
    parent = train(tmp_path, [config_with("ppo", **before)])[0]
    step = parent.checkpoints[-1].step
    run = (
        Store(parent.path.parent).create_group([config_with("ppo", **after)], parent=f"{parent.id}@{step}", extra={"start": "fork"}).runs[0]
    )
    cohort = assembly.assemble([(run, assembly.load(run, resume=False))])
    for member in cohort.members:
        member.writer.close()
    known, fresh = cohort.learner.bonus, pay.fresh(cohort.plan.bonus, [run.seed], torch.device("cpu"))  # type: ignore[union-attr, arg-type]
    assert known is not None
    same = {
        name: torch.equal(known[name], tensor) or bool(tensor.isnan().all() & known[name].isnan().all()) for name, tensor in fresh.items()
    }
    # Nothing of the old one is left, or all that it knew is there.
    assert all(same.values()) if anew else not same["counts"] and not same["first"]
    assert ("begins its bonus anew" in run.log) == anew
