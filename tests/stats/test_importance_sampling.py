"""Importance sampling by hand, where the answer is known, and where nothing can be said."""

import numpy as np
import pytest

from rlclinic.stats.importance_sampling import FEWEST, Steps, doubly_robust, effective_size, per_decision, weighted


def steps(reward: list[list[float]], ratio: list[list[float]]) -> Steps:
    return Steps(np.array(reward), np.log(np.array(ratio)), np.ones_like(np.array(reward), dtype=bool))


def test_the_policy_that_recorded_the_data_earned_what_is_in_it() -> None:
    draw = np.random.default_rng(0)
    paths = steps(draw.normal(size=(30, 5)).tolist(), np.ones((30, 5)).tolist())
    real = float((paths.reward * 0.9 ** np.arange(5)).sum(1).mean())
    for found in (weighted(paths, 0.9), per_decision(paths, 0.9)):
        assert found.value == pytest.approx(real)
        assert found.effective == pytest.approx(30)
        assert found.low < real < found.high


def test_whole_episodes_count_by_the_product_of_their_ratios() -> None:
    paths = steps([[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.5], [0.5, 0.5]])  # products 1 and 1/4
    returns = np.array([1.0 + 0.5 * 2.0, 3.0 + 0.5 * 4.0])
    assert weighted(paths, 0.5).value == pytest.approx((1.0 * returns[0] + 0.25 * returns[1]) / 1.25)


def test_a_reward_is_weighed_by_what_led_to_it_and_not_by_what_came_after() -> None:
    paths = steps([[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.5], [0.5, 0.5]])
    first = (2.0 * 1.0 + 0.5 * 3.0) / 2.5
    second = (1.0 * 2.0 + 0.25 * 4.0) / 1.25
    assert per_decision(paths, 0.5).value == pytest.approx(first + 0.5 * second)


def test_values_that_are_right_need_no_correction() -> None:
    draw = np.random.default_rng(1)
    value = draw.normal(size=(20, 4))
    following = np.concatenate([value[:, 1:], np.zeros((20, 1))], 1)
    reward = value - 0.9 * following  # so that Q(s, a) = V(s) exactly
    paths = Steps(reward, draw.normal(0, 1.0, (20, 4)), np.ones((20, 4), bool))
    assert doubly_robust(paths, value, value, following, 0.9).value == pytest.approx(float(value[:, 0].mean()))


def test_a_model_that_knows_nothing_is_corrected_to_the_weighted_returns() -> None:
    paths = steps([[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.5], [0.5, 0.5]])
    nothing = np.zeros((2, 2))
    assert doubly_robust(paths, nothing, nothing, nothing, 0.5).value == pytest.approx(per_decision(paths, 0.5).value)


def test_a_policy_unlike_the_recorded_one_leaves_too_few_episodes() -> None:
    draw = np.random.default_rng(2)
    paths = Steps(draw.normal(size=(100, 50)), draw.normal(0, 1.0, (100, 50)), np.ones((100, 50), bool))
    assert weighted(paths, 0.99).effective < FEWEST
    assert effective_size(np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx(2.0)


def test_resampled_episodes_that_are_all_next_to_impossible_still_have_weights() -> None:
    # One episode is e^2000 times as likely as the others: whoever draws without it must not divide by nothing.
    logs = np.zeros((12, 3))
    logs[0] = 2_000 / 3
    steps = Steps(np.ones((12, 3)), logs, np.ones((12, 3), bool))
    nothing = np.zeros((12, 3))
    for estimate in (weighted(steps, 1.0), per_decision(steps, 1.0), doubly_robust(steps, nothing, nothing, nothing, 1.0)):
        assert estimate.value == pytest.approx(3.0)
        assert (estimate.low, estimate.high) == pytest.approx((3.0, 3.0))
        assert estimate.effective == pytest.approx(1.0)
