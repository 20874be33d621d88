"""The program that a GPU's evaluations are made of, run on a CPU: the same episodes as step by step."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlclinic.training import envs, evaluation
from rlclinic.training.engines import captured_evaluation
from rlclinic.training.maths import normalize
from tests.training.cohorts import make_config, workshop
from tests.training.replays import of_kind

SEED = torch.arange(2).view(-1, 1)
TASKS: dict[str, dict[str, Any]] = {
    "time limit": {"id": "CartPole-v1", "max_episode_steps": 50},
    "vectors": {"id": "Pendulum-v1", "max_episode_steps": 40},
    "chance and success": {"id": "FrozenLake-v1", "kwargs": {"is_slippery": True}, "max_episode_steps": 40},
    "masks": {"id": "Taxi-v3", "max_episode_steps": 40, "action_mask": True},
}


def assert_the_same(monkeypatch: pytest.MonkeyPatch, at: Any, *, deterministic: bool, wanted: tuple[bool, bool] = (True, True)) -> None:
    env = envs.make(at.config.env, [0, 1], 5, evaluation=True)
    for learner in (at.learner, _shifted(at)):  # the second one finds the program of the first
        found = []
        for captured in (False, True):
            monkeypatch.setattr(captured_evaluation, "covers", lambda _, on=captured: on)
            found.append(evaluation.evaluate(at.plan, learner, env, deterministic=deterministic, seed=SEED, wanted=list(wanted)))
        for name in ("returns", "lengths", "success"):
            np.testing.assert_array_equal(getattr(found[1], name), getattr(found[0], name), err_msg=name)
    assert env in captured_evaluation._PROGRAMS


def _shifted(at: Any) -> Any:
    """Other weights: a program that kept the first ones would play other episodes than steps do."""
    if hasattr(at.learner, "flat"):
        return replace(at.learner, flat=at.learner.flat + 0.05)
    nets, targets = ({name: flat + 0.05 for name, flat in part.items()} for part in (at.learner.nets, at.learner.targets))
    return replace(at.learner, nets=nets, targets=targets)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_the_program_plays_the_episodes_that_steps_play(task: str, deterministic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    at = workshop([make_config(env=TASKS[task], seed=seed) for seed in range(2)])
    assert_the_same(monkeypatch, at, deterministic=deterministic)


@pytest.mark.parametrize("kind", ["dqn", "dqn with everything", "sac", "td3"])
def test_policies_of_a_replay_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_the_same(monkeypatch, of_kind(kind), deterministic=False)


def test_members_that_are_not_wanted_have_played_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at = workshop([make_config(env=TASKS["time limit"], seed=seed) for seed in range(2)])
    assert_the_same(monkeypatch, at, deterministic=True, wanted=(False, True))


def test_observations_are_seen_through_the_normalizer_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    at = workshop([make_config(env={**TASKS["vectors"], "normalize_obs": True}, seed=seed) for seed in range(2)])
    stats = normalize.Moments(torch.full((2, 1), 9.0).double(), torch.full((2, 3), 2.0).double(), torch.full((2, 3), 0.1).double())
    assert_the_same(monkeypatch, at, deterministic=True)
    assert_the_same(monkeypatch, at.with_learner(obs_stats=stats), deterministic=True)


def test_an_env_without_a_time_limit_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LONGEST", 45)  # between two looks
    at = workshop([make_config(env={"id": "CliffWalking-v1"}, seed=seed) for seed in range(2)])
    assert_the_same(monkeypatch, at, deterministic=True)


@pytest.mark.cuda
@pytest.mark.parametrize("task", TASKS)
def test_on_a_gpu_the_graph_plays_what_steps_play_there(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = workshop([make_config(env=TASKS[task], seed=seed) for seed in range(2)])
    learner = at.with_learner(flat=at.learner.flat.cuda()).learner
    env = envs.make(at.config.env, [0, 1], 5, device="cuda", evaluation=True)
    found = []
    for captured in (False, True, True):
        monkeypatch.setattr(captured_evaluation, "covers", lambda _, on=captured: on)
        found.append(evaluation.evaluate(at.plan, learner, env, deterministic=True, seed=SEED.cuda(), wanted=[True, True]))
    for other in found[1:]:
        np.testing.assert_array_equal(other.lengths, found[0].lengths)
        np.testing.assert_allclose(other.returns, found[0].returns, rtol=1e-6)
