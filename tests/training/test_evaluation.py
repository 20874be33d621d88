"""Evaluation: one episode per copy from fixed starts, with frozen normalizers, whoever else is evaluated."""

from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.training import envs, evaluation
from rlclinic.training.maths import normalize
from tests.training import tasks
from tests.training.cohorts import TASKS, Workshop, make_config, workshop

SEEDS = torch.arange(2).view(-1, 1)


def shop(task: str = "discrete", members: int = 2, **env: Any) -> Workshop:
    settings, factory = TASKS[task]
    return workshop([make_config(env={**settings, **env}, seed=seed) for seed in range(members)], factory)


def evaluated(
    at: Workshop, *, deterministic: bool = True, episodes: int = 5, wanted: list[bool] | None = None, env: Any = None, seed: Any = None
) -> Any:
    members = len(at.members)
    if env is None:
        factory = tasks.Signs if at.config.env.id == "Signs" else None
        env = envs.make(at.config.env, [member.config.seed for member in at.members], episodes, evaluation=True, factory=factory)
    seed = SEEDS[:members] if seed is None else seed
    return evaluation.evaluate(at.plan, at.learner, env, deterministic=deterministic, seed=seed, wanted=wanted or [True] * members)


@pytest.mark.parametrize("task", TASKS)
def test_every_copy_plays_one_whole_episode(task: str) -> None:
    limit = 20 if task == "discrete" else 10 if task == "box" else 4
    found = evaluated(shop(task))
    assert found.returns.shape == found.lengths.shape == (2, 5)
    assert (found.lengths > 0).all()
    assert (found.lengths <= limit).all()
    if task == "discrete":
        np.testing.assert_array_equal(found.returns, found.lengths)  # CartPole pays one per step


@pytest.mark.parametrize("native", ["auto", "never"])
def test_members_with_the_same_policy_get_the_same_episodes_and_every_evaluation_the_same_starts(native: str) -> None:
    at = shop("box", native=native)
    twins = at.with_learner(flat=at.learner.flat[:1].repeat(2, 1))
    env = envs.make(at.config.env, [0, 1], 5, evaluation=True)
    first, second = evaluated(twins, env=env), evaluated(twins, env=env)
    np.testing.assert_allclose(first.returns[0], first.returns[1], rtol=1e-6)
    np.testing.assert_array_equal(first.returns, second.returns)
    assert len(set(first.returns[0].tolist())) == 5, "but each copy starts from somewhere else"


def test_an_evaluation_of_more_episodes_begins_with_those_of_a_smaller_one() -> None:
    at = shop("box")
    np.testing.assert_array_equal(evaluated(at, episodes=7).returns[:, :3], evaluated(at, episodes=3).returns)


def test_a_member_is_evaluated_as_it_would_be_alone() -> None:
    at = shop("box")
    one = shop("box", members=1)
    np.testing.assert_array_equal(evaluated(at).returns[:1], evaluated(one).returns)


def test_members_that_are_not_wanted_do_not_delay_the_end() -> None:
    at = shop()
    layout = at.plan.policy.layout
    first, last = layout.span("policy.bias")
    flat = at.learner.flat.clone()
    flat[0, first:last] = torch.tensor([50.0, -50.0])  # always left: it falls at once
    short = at.with_learner(flat=flat)
    counted = []
    env = envs.make(at.config.env, [0, 1], 3, evaluation=True)
    step = env.step

    def counting(action: torch.Tensor) -> Any:
        counted.append(1)
        return step(action)

    env.step = counting  # type: ignore[method-assign]
    found = evaluated(short, env=env, wanted=[True, False])
    assert len(counted) == found.lengths[0].max() < 15
    assert (found.lengths[1] == 0).all()


def test_a_sampled_evaluation_differs_from_a_greedy_one_and_repeats_with_its_seed() -> None:
    at = shop("box")
    greedy, sampled = evaluated(at), evaluated(at, deterministic=False)
    assert not np.array_equal(greedy.returns, sampled.returns)
    np.testing.assert_array_equal(evaluated(at, deterministic=False).returns, sampled.returns)
    assert not np.array_equal(evaluated(at, deterministic=False, seed=SEEDS + 7).returns, sampled.returns)


def test_normalizers_are_used_and_left_as_they_are() -> None:
    at = shop("box", normalize_obs=True)
    # With weights that look at the observation, a shifted view of it changes what is done.
    layout = at.plan.policy.layout
    first, last = layout.span("policy.weight")
    flat = at.learner.flat.clone()
    flat[:, first:last] = 3.0
    plain = at.with_learner(flat=flat)
    stats = normalize.Moments(torch.full((2, 1), 9.0).double(), torch.full((2, 3), 2.0).double(), torch.full((2, 3), 0.1).double())
    shifted = plain.with_learner(obs_stats=stats)
    before = [part.clone() for part in stats]
    assert not np.array_equal(evaluated(plain).returns, evaluated(shifted).returns)
    for old, new in zip(before, stats, strict=True):
        assert torch.equal(old, new)


def test_a_row_sums_up_a_members_episodes() -> None:
    returns, lengths = np.array([[1.0, 3.0], [5.0, 7.0]]), np.array([[10.0, 20.0], [1.0, 2.0]])
    success = np.array([[np.nan, np.nan], [1.0, np.nan]])
    found = evaluation.Evaluation(returns, lengths, success)
    assert found.row(0) == {
        "train/sentinel/fingerprint_normalizer_eval": None,
        "val/roll/ep_rew_mean": 2.0,
        "val/roll/ep_rew_std": 1.0,
        "val/roll/ep_rew_min": 1.0,
        "val/roll/ep_len_mean": 15.0,
        "val/roll/success_rate": None,
    }
    assert found.row(1)["val/roll/success_rate"] == 0.5, "one that ended without a word did not succeed, where another did"


def test_success_is_that_of_the_end_of_the_episode() -> None:
    at = workshop([make_config(env={"id": "FrozenLake-v1", "kwargs": {"is_slippery": False}, "max_episode_steps": 12})])
    found = evaluated(at)
    assert not np.isnan(found.success).any()
    np.testing.assert_array_equal(found.success, found.returns)  # the goal pays one, everything else nothing


def test_an_env_without_a_time_limit_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LONGEST", 30)
    at = workshop([make_config(env={"id": "CliffWalking-v1"})])
    found = evaluated(at)
    assert (found.lengths == 30).any()
    assert (found.lengths <= 30).all()


def test_an_env_that_fails_ends_its_own_evaluation_only() -> None:
    made: list[int] = []

    def factory() -> Any:
        made.append(1)
        return tasks.Fragile(last=2) if len(made) == 4 else tasks.Signs(length=6)

    at = workshop([make_config(env={"id": "Signs"}, seed=seed) for seed in range(2)], tasks.Signs)
    env = envs.make(at.config.env, [0, 1], 3, evaluation=True, factory=factory)
    found = evaluated(at, env=env)
    assert list(env.failures) == [1]
    assert (found.lengths[0] == 6).all()
    assert (found.lengths[1] < 6).all()
