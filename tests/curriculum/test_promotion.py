"""Bounds that hold however often they are looked at."""

import math

import pytest

from rlclinic.curriculum import promotion
from tests.curriculum.agents import climb


def binomial_tail(successes: int, episodes: int, share: float) -> float:
    return sum(math.comb(episodes, k) * share**k * (1 - share) ** (episodes - k) for k in range(successes, episodes + 1))


def test_all_looks_for_ever_spend_the_error_and_no_more():
    spent = math.fsum(promotion.spend(0.05, look) for look in range(1, 200_001))
    assert spent < 0.05
    assert spent == pytest.approx(0.05, rel=1e-3)


def test_the_first_looks_spend_nearly_alike():
    assert promotion.spend(0.05, 1) < 3.5 * promotion.spend(0.05, 10)


@pytest.mark.parametrize("episodes", [20, 100])
def test_a_threshold_is_reached_exactly_where_the_binomial_tail_says_so(episodes: int):
    for successes in range(episodes + 1):
        assert promotion.is_above(successes, episodes, 0.8, 0.004) == (binomial_tail(successes, episodes, 0.8) <= 0.004)


@pytest.mark.parametrize(("successes", "episodes"), [(0, 20), (12, 20), (95, 100), (100, 100)])
def test_the_lower_bound_is_the_highest_threshold_that_is_reached(successes: int, episodes: int):
    bound = promotion.lower_bound(successes, episodes, 0.004)
    assert bound == 0 or promotion.is_above(successes, episodes, bound - 1e-6, 0.004)
    assert not promotion.is_above(successes, episodes, bound + 1e-6, 0.004)


def test_falling_short_is_reaching_turned_around():
    assert promotion.is_below(3, 50, 0.4, 0.01)
    assert not promotion.is_below(15, 50, 0.4, 0.01)


def test_eight_of_ten_prove_nothing_and_ninety_five_of_a_hundred_do():
    error = promotion.spend(0.05, 1)
    assert not promotion.is_above(8, 10, 0.8, error)
    assert not promotion.is_above(10, 10, 0.8, error)
    assert promotion.is_above(95, 100, 0.8, error)


def test_an_agent_of_sixty_percent_is_not_promoted_at_eighty_however_long_it_stays():
    assert [climb(0.6, seed, 2_000) for seed in range(3)] == [None] * 3


def test_short_successes_do_not_come_first():
    # In the order of their ends, the first episodes of 64 environments would be successes alone.
    assert [climb(0.6, seed, 120, n_envs=64, min_episodes=20, window=20) for seed in range(10)] == [None] * 10


def test_an_agent_of_ninety_five_percent_is_promoted_soon():
    steps = [climb(0.95, seed, 2_000) for seed in range(3)]
    assert all(step is not None and step < 1_500 for step in steps)


def test_a_late_look_is_no_harder_to_pass():
    # The hundredth look may spend a hundredth of the first: the longer window makes up for it.
    late = promotion.spend(0.05, 100)
    width = promotion.long_window(100, 100)
    assert not promotion.is_above(90, 100, 0.8, late)
    assert promotion.is_above(round(0.9 * width), width, 0.8, late / 2)
