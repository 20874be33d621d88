"""How often compare and regress are wrong, simulated with the functions that they decide by; `python -m benchmarks.proof` repeats this with
more cases and all scenarios."""

import math

import numpy as np
import pytest

from benchmarks.proof import compare, intervals, regress
from rlclinic import stats

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


# ── regress ──


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_candidate_of_which_a_quarter_collapses_hardly_ever_passes(noise: float) -> None:
    once, twice, in_batches = (regress.end(regress.collapsing(0.25, noise, *plan), CASES, seed=1) for plan in ((1, 8), (1, 16), (4, 8)))
    assert once.passed <= at_most(0.12)
    assert twice.passed <= at_most(0.03)
    assert in_batches.passed <= at_most(0.03)


@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_a_candidate_like_the_baseline_passes_within_32_seeds(noise: float) -> None:
    ends = regress.end(regress.collapsing(0.0, noise, 4, 8), CASES, seed=1)
    assert ends.passed >= 0.8
    assert ends.alarmed <= at_most(0.05)


@pytest.mark.parametrize("scenario", ["steps, a fifth never arrives in both, 4 x 8", "returns, a tenth collapses in both, 1 x 8"])
def test_a_candidate_that_fails_as_often_as_the_baseline_is_rarely_alarmed_about(scenario: str) -> None:
    assert regress.end(regress.EQUAL[scenario], CASES, seed=1).alarmed <= at_most(0.05)


def test_the_seeds_that_would_settle_it_settle_it() -> None:
    held, asked = regress.count_settled(np.random.default_rng(1), 120)
    assert held / asked >= 0.8 - 3 * math.sqrt(0.8 * 0.2 / asked)


# ── intervals ──


@pytest.mark.parametrize(
    ("scenario", "seeds"), [("normal", 8), ("30 % collapse", 8), ("30 % collapse", 16), ("log steps, 30 % never arrive", 8)]
)
def test_the_interval_of_an_iqm_covers_it(scenario: str, seeds: int) -> None:
    assert intervals.cover_iqm(intervals.SCENARIOS[scenario], seeds, CASES, seed=1) >= 0.92


@pytest.mark.parametrize("size", [8, 16])
def test_intervals_of_many_samples_at_once_are_those_of_each(size: int) -> None:
    rng = np.random.default_rng(2)
    # In order, as `bound_iqms` takes them: which seed of a sample is drawn is chance, and another order is another draw.
    sides = [np.sort(side) for side in (rng.standard_normal((6, size)), np.where(rng.random((6, 9)) < 0.3, 0.0, 5.0))]
    low, high = intervals.bound_iqms(sides[:1])
    both = intervals.bound_iqms(sides, level=0.9)
    for row in range(6):
        alone = stats.estimate(sides[0][row], resamples=intervals.RESAMPLES)
        assert (low[row], high[row]) == (pytest.approx(alone.low), pytest.approx(alone.high))
        pair = stats.estimate_difference(*(side[row] for side in sides), level=0.9, resamples=intervals.RESAMPLES)
        assert (both[0][row], both[1][row]) == (pytest.approx(pair.low), pytest.approx(pair.high))


@pytest.mark.parametrize("scenario", ["exponential", "30 % collapse against none"])
def test_the_interval_of_a_difference_covers_it(scenario: str) -> None:
    assert intervals.cover_difference(intervals.PAIRS[scenario], 8, CASES, seed=1) >= 0.92


@pytest.mark.parametrize("seeds", intervals.SIZES)
def test_the_intervals_of_medians_improvements_and_shares_cover_them(seeds: int) -> None:
    assert intervals.cover_median(intervals.SCENARIOS["30 % collapse"], seeds, CASES, seed=1) >= 0.92
    assert intervals.cover_improvement(intervals.PAIRS["30 % collapse against none"], seeds, CASES, seed=1) >= 0.92
    assert all(intervals.cover_share(share, seeds) >= 0.95 for share in intervals.SHARES)
    assert intervals.cover_share_difference((0.95, 0.7), seeds) >= 0.92


@pytest.mark.parametrize("scenario", ["normal", "exponential"])
def test_a_difference_that_would_be_seen_in_8_of_10_cases_is_seen(scenario: str) -> None:
    assert all(intervals.keep_promise(intervals.SCENARIOS[scenario], seeds, CASES, seed=1) >= 0.75 for seeds in (5, 8))
