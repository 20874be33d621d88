"""How often compare is wrong, simulated with the functions that it decides by; `python -m benchmarks.proof --only compare` repeats this
with more cases and all scenarios."""

import math

import pytest

from benchmarks.proof import compare

CASES = 2_000


def at_most(share: float) -> float:
    """A promised share and three standard errors of 2,000 cases."""
    return share + 3 * math.sqrt(share * (1 - share) / CASES)


@pytest.mark.parametrize(
    "scenario",
    [
        "normal, 4 against 16, sd 5 against 1",
        "normal, 5 against 5, sd 5 against 1",
        "exponential, 4 against 16",
        "a fifth collapses, 8 against 8",
        "a fifth collapses, 4 against 16",
        "steps, a fifth never arrives, 8 against 8",
    ],
)
def test_equal_sides_are_called_different_in_at_most_five_of_a_hundred_cases(scenario: str) -> None:
    assert sum(compare.different(compare.EQUAL[scenario], CASES, seed=1)) <= at_most(0.05)


@pytest.mark.parametrize(
    "scenario", ["20 % collapse, 24 a side, noise 5", "10 % collapse, 16 a side, noise 5", "40 % collapse, 5 a side, noise 0"]
)
def test_the_side_with_the_higher_mean_is_hardly_ever_called_worse(scenario: str) -> None:
    assert compare.different(compare.COLLAPSING[scenario], CASES, seed=1)[1] <= at_most(0.025)


def test_a_side_that_collapses_in_two_of_five_seeds_is_seen() -> None:
    assert compare.different(compare.COLLAPSING["40 % collapse, 24 a side, noise 5"], CASES, seed=1)[0] > 0.95
