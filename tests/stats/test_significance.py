import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlclinic import stats
from rlclinic.errors import UsageError
from rlclinic.stats import significance

few = st.lists(st.integers(-9, 9).map(float), min_size=2, max_size=6)
some = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=12)


# ── permutation ──


def every_way(a: list[float], b: list[float]) -> float:
    """Slow reference: the share of all ways to deal the seeds out whose means differ at least as much."""
    pooled, found = [*a, *b], abs(np.mean(a) - np.mean(b))
    ways = list(itertools.combinations(range(len(pooled)), len(a)))
    hits = 0
    for chosen in ways:
        rest = [value for place, value in enumerate(pooled) if place not in chosen]
        hits += abs(np.mean([pooled[place] for place in chosen]) - np.mean(rest)) >= found - 1e-9
    return hits / len(ways)


@given(a=few, b=few)
def test_the_permutation_test_counts_every_way_to_deal_the_seeds_out(a: list[float], b: list[float]) -> None:
    test = stats.permutation(a, b)
    assert test.p == pytest.approx(every_way(a, b))
    assert test.method == "permutation test, exact"


def test_the_permutation_test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 7), rng.normal(0.8, 2, 6)
    oracle = scipy.stats.permutation_test(
        (a, b), lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis), n_resamples=np.inf, vectorized=True, alternative="two-sided"
    )
    found = (np.abs(oracle.null_distribution) >= abs(oracle.statistic) - 1e-12).mean()
    assert stats.permutation(a, b).p == pytest.approx(found)


def test_many_seeds_are_dealt_out_at_random_and_never_give_p_zero() -> None:
    a, b = np.arange(20.0), np.arange(20.0) + 1_000
    test = stats.permutation(a, b)
    assert test.method == "permutation test, drawn"
    assert 0 < test.p < 0.001
    assert stats.permutation(a, b) == test


def test_large_returns_lose_no_ties() -> None:
    assert stats.permutation([1e9, 1e9 + 1], [1e9, 1e9 + 1]).p == 1.0


# ── Welch ──


@given(a=some, b=some)
def test_welchs_test_agrees_with_scipy(a: list[float], b: list[float]) -> None:
    assume(np.std(a) > 1e-3 and np.std(b) > 1e-3)
    oracle = scipy.stats.ttest_ind(a, b, equal_var=False)
    test = stats.welch(a, b)
    np.testing.assert_allclose(test.statistic, oracle.statistic, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(test.p, oracle.pvalue, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("a", "b", "p"), [([5.0, 5.0], [5.0, 5.0], 1.0), ([5.0, 5.0], [4.0, 4.0], 0.0)])
def test_without_any_spread_welch_says_equal_or_not(a: list[float], b: list[float], p: float) -> None:
    assert stats.welch(a, b).p == p


# ── which test ──


def slow_means(a: list[float], b: list[float]) -> float:
    """Slow reference: the ways to deal the seeds out whose Welch's t is at least as extreme in the same direction, twice; or Welch's p."""
    pooled, t = [*a, *b], stats.welch(a, b).statistic
    found = []
    for chosen in itertools.combinations(range(len(pooled)), len(a)):
        rest = [value for place, value in enumerate(pooled) if place not in chosen]
        found.append(stats.welch([pooled[place] for place in chosen], rest).statistic)
    above, below = sum(each >= t - 1e-6 for each in found), sum(each <= t + 1e-6 for each in found)
    return max(min(1.0, 2 * min(above, below) / len(found)), stats.welch(a, b).p)


@given(a=few, b=few)
@settings(max_examples=30, deadline=None)
def test_means_are_compared_by_permuting_welchs_t_and_by_welch_and_the_larger_p_counts(a: list[float], b: list[float]) -> None:
    test = stats.compare_means(a, b)
    assert test is not None
    assert test.p == pytest.approx(slow_means(a, b))
    assert test.statistic == stats.welch(a, b).statistic


def test_rows_of_means_are_separate_cases() -> None:
    rng = np.random.default_rng(0)
    for m, n in ((5, 5), (3, 6)):
        a, b = rng.integers(0, 3, (20, m)).astype(float), rng.normal(size=(20, n))
        t, p = stats.compare_means_by_row(a, b)
        for row in range(20):
            alone = stats.compare_means(a[row], b[row])
            assert alone is not None
            assert p[row] == pytest.approx(alone.p)
            assert t[row] == pytest.approx(alone.statistic)


def test_a_side_without_spread_is_compared_with_one_that_collapses() -> None:
    all_solved, some = [500.0] * 20, [10.0] * 5 + [500.0] * 15
    test = stats.compare_means(all_solved, some)
    assert test is not None
    assert test.statistic > 0
    # Fisher's exact p of 0 against 5 collapsed of 20.
    assert test.p == pytest.approx(scipy.stats.fisher_exact([[20, 0], [15, 5]]).pvalue, rel=0.1)


def test_means_without_any_spread_are_as_improbable_as_dealing_them_out() -> None:
    apart, equal = stats.compare_means([500.0] * 4, [10.0] * 4), stats.compare_means([500.0] * 4, [500.0] * 4)
    assert apart is not None
    assert equal is not None
    assert (apart.p, equal.p) == (pytest.approx(2 / math.comb(8, 4)), 1.0)


def test_one_seed_cannot_be_judged() -> None:
    assert stats.compare_means([1.0], [2.0, 3.0]) is None


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="no values"):
        stats.compare_means([], [1.0])


@pytest.mark.parametrize("n", [3, 5, 8, 20])
@pytest.mark.parametrize("shape", ["normal", "skewed", "few values", "unequal numbers"])
def test_equal_groups_are_called_different_in_at_most_five_of_a_hundred_cases(n: int, shape: str) -> None:
    rng = np.random.default_rng(n)
    draw = {
        "normal": lambda size: rng.normal(size=size),
        "skewed": lambda size: rng.lognormal(0, 1.5, size),
        "few values": lambda size: rng.integers(0, 3, size).astype(float),
        "unequal numbers": lambda size: rng.normal(size=size),
    }[shape]
    p = stats.compare_means_by_row(draw((600, n)), draw((600, n + 4 if shape == "unequal numbers" else n)))[1]
    # Three standard errors above the promise.
    assert np.mean(p < 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


# ── ranks ──


@given(a=st.lists(st.integers(0, 5).map(float), min_size=1, max_size=9), b=st.lists(st.integers(0, 5).map(float), min_size=1, max_size=9))
def test_the_rank_test_agrees_with_scipy_also_in_ties(a: list[float], b: list[float]) -> None:
    assume(len({*a, *b}) > 1)
    oracle = scipy.stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=True)
    assert min(1.0, 2 * stats.normal_tail(abs(stats.rank_z(a, b)[0]))) == pytest.approx(oracle.pvalue)


def test_rows_of_the_rank_statistic_are_separate_cases() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (30, 5)).astype(float), rng.integers(0, 4, (30, 7)).astype(float)
    alone = [stats.rank_z(a[row], b[row])[0] for row in range(30)]
    np.testing.assert_allclose(stats.rank_z(a, b), alone)


def test_runs_that_never_arrive_rank_last_and_tie() -> None:
    never = math.inf
    assert stats.rank_z([never, never, never], [never, never, never])[0] == 0.0
    assert stats.rank_z([never, never, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0])[0] > 1.9
    assert stats.rank_z([1.0, never], [1.0, never])[0] == 0.0


@given(a=some, b=some)
def test_swapping_the_sides_only_turns_the_sign(a: list[float], b: list[float]) -> None:
    assert stats.rank_z(a, b)[0] == pytest.approx(-stats.rank_z(b, a)[0])
    assert stats.permutation(a[:5], b[:5]).p == pytest.approx(stats.permutation(b[:5], a[:5]).p)


# ── Holm ──


def slow_holm(p: list[float]) -> list[float]:
    """Slow reference: the smallest level at which the step-down procedure rejects each question."""
    order = sorted(range(len(p)), key=lambda place: p[place])
    return [min(1.0, max((len(p) - rank) * p[order[rank]] for rank in range(order.index(place) + 1))) for place in range(len(p))]


@given(p=st.lists(st.floats(0, 1), max_size=8))
def test_holm_agrees_with_stepping_down(p: list[float]) -> None:
    assert stats.holm(p) == pytest.approx(slow_holm(p))


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.2]) == [0.2]
    assert stats.holm([]) == []


def test_ways_to_deal_out_hold_the_right_number_of_seeds() -> None:
    rows, exact = significance.splits(3, 4)
    assert exact
    assert len(rows) == 35
    assert np.all(rows.sum(axis=1) == 3)
    drawn, exact = significance.splits(15, 15)
    assert not exact
    assert np.all(drawn.sum(axis=1) == 15)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=0.02)


# ── what has no order ──


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_without_a_mean_are_refused_and_not_called_different(bad: float) -> None:
    for test in (stats.permutation, stats.welch, stats.compare_means):
        with pytest.raises(UsageError, match=r"NaN|infinite"):
            test([1.0, bad, 3.0], [1.0, 2.0, 3.0])


def test_nan_has_no_rank() -> None:
    for test in (stats.rank_z, stats.improvement):
        with pytest.raises(UsageError, match="NaN"):
            test([1.0, math.nan], [1.0, 2.0])
