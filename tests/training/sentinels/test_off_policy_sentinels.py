"""Sentinels of algorithms with a replay, on cases whose answer is known."""

import numpy as np
import pytest
import torch

from rlclinic.training.sentinels import off_policy_sentinels
from rlclinic.training.sentinels.off_policy_sentinels import UNSEEN_SHARE, known_returns
from tests.training import replays

GAMMA = 0.9


def flags(length: int, *at: int) -> np.ndarray:
    """[T], true at these steps."""
    found = np.zeros(length, dtype=bool)
    found[list(at)] = True
    return found


def test_the_returns_of_the_last_episode_that_came_to_a_real_end_are_known_to_its_end() -> None:
    reward = np.arange(9.0)
    # An episode that began before, one with a real end, one that a limit cut, one that still goes on.
    first, returns = known_returns(reward, flags(9, 4), flags(9, 1, 7), GAMMA)
    assert first == 2
    np.testing.assert_allclose(returns, [2 + GAMMA * (3 + GAMMA * 4), 3 + GAMMA * 4, 4])


def test_an_episode_whose_beginning_is_forgotten_has_no_known_returns() -> None:
    assert not len(known_returns(np.ones(9), flags(9, 4), flags(9), GAMMA)[1])
    assert not len(known_returns(np.ones(9), flags(9), flags(9), GAMMA)[1])


def test_of_an_episode_that_a_limit_cut_only_steps_far_from_the_cut_have_known_returns() -> None:
    length, before = 100, 3
    first, returns = known_returns(np.ones(length), flags(length), flags(length, before - 1, length - 1), GAMMA)
    endless = 1 / (1 - GAMMA)
    assert first == before
    # 0.9^43 is 0.0108, 0.9^44 is 0.0097.
    assert len(returns) == length - before - 43
    assert np.all(returns > (1 - UNSEEN_SHARE) * endless)
    assert np.all(returns < endless)


@pytest.mark.parametrize("gamma", [0.99, 1.0])
def test_an_episode_that_was_cut_too_early_has_no_known_returns(gamma: float) -> None:
    assert not len(known_returns(np.ones(100), flags(100), flags(100, 0, 99), gamma)[1])


def test_q_values_are_measured_against_returns_where_episodes_are_only_ever_cut() -> None:
    at = replays.of_kind("td3", env={"id": "Pendulum-v1", "n_envs": 1}, algo={"gamma": 0.9, "buffer_size": 1_000})
    while at.env_steps < 450:
        at.iterate(learn=False)
    found = off_policy_sentinels._bias(at.plan, at.learner, at.memory, at.numbers())["q_bias"]
    # A young critic says about 0; what came is what a swinging pendulum costs at every step, discounted.
    costs = at.memory.table[:, :450, at.memory.cells["reward"].start].mean(1) / (1 - 0.9)
    torch.testing.assert_close(found, -costs.to(found), rtol=0.5, atol=2.0)
