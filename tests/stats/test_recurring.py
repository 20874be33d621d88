"""Places that come first again and again are told from chance, also where several share them."""

import numpy as np
import pytest

from rlclinic.stats.recurring import binomial_tail, find_recurring


def test_one_of_two_and_two_of_three_are_found_and_chance_is_not() -> None:
    assert find_recurring([1] * 12, 2) == [1]
    assert find_recurring([1] * 11 + [0], 2) == [1]
    assert find_recurring([1, 2] * 10, 3) == [1, 2]
    assert find_recurring([0, 1] * 10, 2) == []
    assert find_recurring([0, 1, 2] * 7, 3) == []
    assert find_recurring([1, 1, 1], 2) == [], "three rows are nobody's habit"
    assert find_recurring([], 3) == []


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_places_that_are_all_alike_are_seldom_called_uneven(count: int) -> None:
    generator = np.random.default_rng(count)
    called = [bool(find_recurring(list(generator.integers(count, size=size)), count)) for size in (8, 21, 60) for _ in range(400)]
    assert sum(called) <= 0.01 * len(called)


def test_the_tail_of_a_binomial_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for successes, trials, chance in ((0, 5, 0.3), (8, 8, 0.5), (20, 21, 2 / 3), (3, 40, 0.01)):
        assert binomial_tail(successes, trials, chance) == pytest.approx(stats.binom.sf(successes - 1, trials, chance))


def test_thousands_of_trials_have_a_tail_too() -> None:
    assert binomial_tail(4_300, 5_000, 0.25) == 0.0
    assert binomial_tail(0, 5_000, 0.25) == 1.0
    assert binomial_tail(5_000, 10_000, 0.5) == pytest.approx(0.504, abs=1e-3)
    assert find_recurring([3] * 4_500 + [0, 1] * 250, 4) == [3]
