"""Transitions out of flat arrays: what an action led to, across the ends of episodes."""

import re

import numpy as np
import pytest

from rlclinic.datasets import Episode, Space
from rlclinic.datasets.episodes import join
from rlclinic.errors import ConfigError
from tests.datasets.made import BOX, TORQUE, dataset, episode


def test_a_transition_never_leads_into_the_next_episode() -> None:
    data = dataset((5, 1, 7))
    rows = data.transitions(np.arange(len(data)))
    expected = [(own.observations[:-1], own.observations[1:]) for own in data]
    np.testing.assert_array_equal(rows.observations, np.concatenate([before for before, _ in expected]))
    np.testing.assert_array_equal(rows.next_observations, np.concatenate([after for _, after in expected]))


def test_only_the_last_step_of_a_terminated_episode_has_no_future() -> None:
    data = dataset((5, 3, 7, 2))
    ended = data.transitions(np.arange(len(data))).terminated
    assert np.flatnonzero(ended).tolist() == [7, 16]


def test_returns_are_summed_within_episodes() -> None:
    data = dataset((5, 3, 7))
    np.testing.assert_allclose(data.returns, [own.rewards.sum() for own in data], rtol=1e-5)


def test_rows_may_be_asked_for_in_any_order_and_twice() -> None:
    data = dataset((5, 3, 7))
    rows = np.array([14, 0, 7, 7, 4])
    every = data.transitions(np.arange(len(data)))
    for mine, all_rows in zip(data.transitions(rows), every, strict=True):
        np.testing.assert_array_equal(mine, all_rows[rows])


def test_a_selection_keeps_episodes_whole() -> None:
    data = dataset((5, 3, 7))
    chosen = data.select([2, 0])
    assert chosen.lengths.tolist() == [7, 5]
    np.testing.assert_array_equal(chosen.episode(0).observations, data.episode(2).observations)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Episode(np.zeros((1, 2)), np.zeros((0, 1)), np.zeros(0), False, True), "it has no steps"),
        (Episode(np.zeros((3, 2)), np.zeros((3, 1)), np.zeros(3), False, True), "T + 1 observations"),
        (Episode(np.zeros((4, 2)), np.zeros((2, 1)), np.zeros(3), False, True), "2 actions and 3 rewards"),
        (Episode(np.full((4, 2), np.nan), np.zeros((3, 1)), np.zeros(3), False, True), "observation at step 0 is not finite"),
        (Episode(np.zeros((4, 2)), np.zeros((3, 1)), np.array([0, np.inf, 0]), False, True), "reward at step 1 is not finite"),
        (Episode(np.zeros((4, 2), object), np.zeros((3, 1)), np.zeros(3), False, True), "observations are object"),
        (Episode(np.zeros((4, 2)), np.zeros((3, 1)), np.zeros(3), False, False), "neither terminated nor truncated"),
        # Data is kept in single precision: this would be infinite there.
        (Episode(np.zeros((4, 2)), np.zeros((3, 1)), np.array([0, 1e300, 0]), False, True), "reward at step 1 is not finite"),
        # In half precision already here.
        (Episode(np.zeros((4, 2)), np.zeros((3, 1)), np.array([0, 0, np.inf], np.float16), False, True), "reward at step 2 is not finite"),
        (Episode(np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(3), False, True), "data of two environments"),
    ],
)
def test_an_episode_that_cannot_be_learned_from_is_refused(broken: Episode, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        join([episode(3), broken], BOX, TORQUE)


@pytest.mark.parametrize("choice", [2, -1, 0.5])
def test_a_choice_that_there_is_not_is_refused(choice: float) -> None:
    broken = Episode(np.zeros((3, 2)), np.array([1, choice]), np.zeros(2), False, True)
    with pytest.raises(ConfigError, match=re.escape(f"the action at step 1 is {choice}")):
        join([broken], BOX, Space("discrete", n=2))


def test_no_episodes_are_no_dataset() -> None:
    with pytest.raises(ConfigError, match="no episodes"):
        join([], BOX, Space("discrete", n=2))
