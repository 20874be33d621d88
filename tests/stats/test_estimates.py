import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rlclinic import stats
from rlclinic.errors import UsageError

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


# ── the middle ──


def test_the_iqm_drops_a_quarter_at_each_end() -> None:
    assert stats.iqm([-1_000.0, 1.0, 3.0, 1_000.0]) == 2.0
    assert stats.iqm([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 700.0]) == 3.5


@pytest.mark.parametrize("values", [[7.0], [1.0, 3.0], [1.0, 2.0, 6.0]])
def test_with_fewer_than_four_values_the_iqm_is_the_mean(values: list[float]) -> None:
    assert stats.iqm(values) == np.mean(values)


@given(values=numbers)
def test_the_iqm_agrees_with_a_trimmed_mean(values: list[float]) -> None:
    np.testing.assert_allclose(stats.iqm(values), scipy.stats.trim_mean(values, 0.25), rtol=1e-9, atol=1e-6)


def test_the_iqm_of_an_axis_is_that_of_each_column() -> None:
    table = np.random.default_rng(0).normal(size=(9, 5))
    np.testing.assert_allclose(stats.iqm(table, axis=0), [stats.iqm(table[:, column]) for column in range(5)])


def test_nothing_has_no_middle() -> None:
    with pytest.raises(UsageError, match="no values"):
        stats.iqm([])


# ── intervals ──


def test_a_small_bootstrap_agrees_with_counting_every_resample() -> None:
    values = [1.0, 2.0, 10.0]
    every = [np.mean(draw) for draw in itertools.product(values, repeat=3)]
    low, high = stats.bootstrap_interval(values, np.mean, level=0.8, resamples=50_000)
    assert low == pytest.approx(np.percentile(every, 10), abs=0.35)
    assert high == pytest.approx(np.percentile(every, 90), abs=0.35)


def test_the_bootstrap_agrees_with_scipys_percentile_interval() -> None:
    values = np.random.default_rng(3).normal(100.0, 20.0, 12)
    oracle = scipy.stats.bootstrap((values,), stats.iqm, method="percentile", n_resamples=20_000, rng=np.random.default_rng(0))
    low, high = stats.bootstrap_interval(values)
    assert low == pytest.approx(oracle.confidence_interval.low, abs=0.5)
    assert high == pytest.approx(oracle.confidence_interval.high, abs=0.5)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(0.0, 1.0, (400, 16))
    inside = sum(low <= 0.0 <= high for low, high in (stats.bootstrap_interval(sample, np.mean, resamples=400) for sample in samples))
    assert 0.88 <= inside / 400 <= 0.97


def test_the_same_values_give_the_same_interval_and_another_seed_another() -> None:
    values = [1.0, 5.0, 2.0, 8.0, 3.0]
    assert stats.bootstrap_interval(values) == stats.bootstrap_interval(values)
    assert stats.bootstrap_interval(values, np.mean, resamples=200) != stats.bootstrap_interval(values, np.mean, resamples=200, seed=1)


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=10))
def test_an_interval_lies_within_the_values(values: list[float]) -> None:
    low, high = stats.bootstrap_interval(values, resamples=50)
    assert min(values) - 1e-6 <= low <= high <= max(values) + 1e-6


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_value_has_no_interval(values: list[float]) -> None:
    with pytest.raises(UsageError, match=r"--seeds|no values"):
        stats.bootstrap_interval(values)


def test_an_estimate_of_one_value_is_that_value_alone() -> None:
    assert stats.estimate([3.0]) == (3.0, None, None)
    value, low, high = stats.estimate([1.0, 2.0, 3.0, 4.0])
    assert value == 2.5
    assert (low, high) == stats.bootstrap_interval([1.0, 2.0, 3.0, 4.0])


def test_a_band_is_the_interval_of_each_point() -> None:
    curves = np.random.default_rng(1).normal(size=(9, 4))
    low, high = stats.bootstrap_band(curves, resamples=500)
    for point in range(4):
        assert (low[point], high[point]) == pytest.approx(stats.estimate(curves[:, point], resamples=500)[1:])


def test_below_eight_seeds_a_band_is_their_range() -> None:
    curves = np.random.default_rng(1).normal(size=(7, 4))
    low, high = stats.bootstrap_band(curves)
    np.testing.assert_array_equal(low, curves.min(axis=0))
    np.testing.assert_array_equal(high, curves.max(axis=0))


def test_a_band_of_curves_begins_where_all_have_begun_and_an_ended_curve_keeps_its_last_value() -> None:
    long, short = (np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, 2.0, 3.0, 4.0])), (np.array([15.0, 20.0]), np.array([5.0, 6.0]))
    band = stats.band_of_curves([long, short], most_points=10)
    assert band.x.tolist() == [15.0, 20.0, 30.0, 40.0]
    assert band.low.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert band.high.tolist() == [5.0, 6.0, 6.0, 6.0]
    assert band.center.tolist() == [3.0, 4.0, 4.5, 5.0]
    assert stats.band_of_curves([long, short], most_points=2).x.tolist() == [15.0, 40.0]


# ── comparing ──


def test_probability_of_improvement_by_hand() -> None:
    assert stats.probability_of_improvement([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert stats.probability_of_improvement([1.0], [1.0]) == 0.5
    assert stats.probability_of_improvement([1.0, 3.0], [2.0]) == 0.5
    assert stats.probability_of_improvement([0.0], [1.0, 2.0]) == 0.0


@given(a=st.lists(st.integers(0, 9), min_size=1, max_size=8), b=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_probability_of_improvement_agrees_with_mann_whitney(a: list[int], b: list[int]) -> None:
    oracle = scipy.stats.mannwhitneyu(a, b, method="asymptotic").statistic / (len(a) * len(b)) if len({*a, *b}) > 1 else 0.5
    assert stats.probability_of_improvement(a, b) == pytest.approx(oracle)
    assert stats.probability_of_improvement(b, a) == pytest.approx(1 - oracle)


def area_below_threshold(times: list[int | None], horizon: int) -> float:
    """Slow reference: at each step, the share of runs that have not reached the threshold yet, added up."""
    return sum(sum(time is None or time > step for time in times) / len(times) for step in range(horizon))


@given(times=st.lists(st.one_of(st.none(), st.integers(1, 60)), min_size=1, max_size=6), horizon=st.integers(1, 50))
def test_the_restricted_mean_is_the_area_under_the_runs_still_below(times: list[int | None], horizon: int) -> None:
    assert stats.restricted_mean(times, horizon) == pytest.approx(area_below_threshold(times, horizon))


def test_runs_that_never_arrive_count_the_whole_horizon() -> None:
    assert stats.restricted_mean([10.0, None, 30.0], 100.0) == pytest.approx(140 / 3)
    assert stats.restricted_mean([None, None], 100.0) == 100.0


def test_a_method_is_not_rewarded_for_failing_its_hard_seeds() -> None:
    assert stats.restricted_mean([10.0, None], 100.0) > stats.restricted_mean([10.0, 90.0], 100.0)


def test_a_ratio_of_restricted_means_by_hand() -> None:
    ratio = stats.restricted_mean_ratio([10.0, 20.0], [40.0, None], 80.0)
    assert ratio.value == pytest.approx(15 / 60)
    assert ratio.low is not None
    assert ratio.high is not None
    # All four extreme resamples have probability 1/16 or more, so the interval reaches them.
    assert ratio.low == pytest.approx(10 / 80)
    assert ratio.high == pytest.approx(20 / 40)


def test_the_ratio_of_a_side_to_itself_is_one_and_lies_inside_its_interval() -> None:
    times = [10.0, 25.0, 40.0, None, 70.0, 15.0, 33.0, None]
    ratio = stats.restricted_mean_ratio(times, times, 100.0)
    assert ratio.value == 1.0
    assert ratio.low is not None
    assert ratio.high is not None
    # Both sides are drawn separately: the same draws on both would give an interval of no width.
    assert ratio.low < 0.8
    assert ratio.high > 1.25


def test_the_interval_of_a_ratio_is_about_the_log_normal_one() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(50.0, 5.0, 40), rng.normal(100.0, 10.0, 40)
    ratio = stats.restricted_mean_ratio(list(a), list(b), 1e9)
    spread = 1.96 * np.sqrt(a.var() / 40 / a.mean() ** 2 + b.var() / 40 / b.mean() ** 2)
    centre = np.log(a.mean() / b.mean())
    assert (ratio.low, ratio.high) == pytest.approx((np.exp(centre - spread), np.exp(centre + spread)), rel=0.02)


def test_one_seed_has_a_ratio_but_no_interval() -> None:
    assert stats.restricted_mean_ratio([50.0], [100.0, 100.0], 200.0) == (0.5, None, None)


@pytest.mark.parametrize(("times", "horizon"), [([], 10.0), ([1.0], 0.0), ([1.0], float("nan"))])
def test_nothing_to_average_is_refused(times: list[float | None], horizon: float) -> None:
    with pytest.raises(UsageError, match="restricted mean"):
        stats.restricted_mean(times, horizon)


# ── against rliable ──

# python -m venv v; v/bin/pip install rliable==1.2.0 "arch<8" "pandas<3"; then, in v/bin/python:
#   from rliable import library, metrics
#   library.get_interval_estimates({"a": A, "b": B}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=50_000)
#   library.get_interval_estimates({"ba": (B, A)}, metrics.probability_of_improvement, reps=2_000)
# with A and B as columns of one task.
A = [110.1, 95.0, 85.9, 113.5, 84.1, 140.6, 116.2, 108.3, 49.4, 34.5]
B = [69.4, 159.0, 143.0, 57.9, 158.2, 93.0, 93.1, 225.4, 138.3, 151.6, 152.6, 57.2]


def test_iqms_and_their_intervals_agree_with_rliable() -> None:
    assert stats.bootstrap_interval(A) == pytest.approx((72.5325, 113.56666667), abs=1.5)
    assert stats.bootstrap_interval(B) == pytest.approx((86.86666667, 153.96666667), abs=1.5)
    assert stats.iqm(A) == pytest.approx(99.48333333)


def test_the_interval_of_an_estimate_is_wider_than_the_plain_bootstrap_of_so_few() -> None:
    low, high = stats.bootstrap_interval(A)
    found = stats.estimate(A)
    assert found.low is not None
    assert found.high is not None
    assert found.low < low < found.value < high < found.high


def test_below_eight_seeds_an_estimate_has_their_range_and_a_difference_has_nothing() -> None:
    assert stats.estimate([3.0, 1.0, 2.0, 9.0, 4.0]) == (3.0, 1.0, 9.0)
    assert stats.estimate([3.0]) == (3.0, None, None)
    assert stats.estimate_difference(np.arange(8.0), np.arange(7.0))[1:] == (None, None)
    assert stats.estimate_difference(np.arange(8.0), np.arange(8.0)).low is not None


def test_a_mean_has_a_range_and_never_an_interval() -> None:
    assert stats.estimate_mean([1.0, 2.0, 6.0]) == (3.0, 1.0, 6.0)
    assert stats.estimate_mean([1.0]) == (1.0, None, None)


@pytest.mark.parametrize(("n", "least", "most"), [(5, 0.9375, 0.9375), (8, 0.945, 0.955), (16, 0.945, 0.955), (31, 0.945, 0.955)])
def test_the_interval_of_a_median_holds_for_any_distribution(n: int, least: float, most: float) -> None:
    uniform = np.random.default_rng(n).random((4_000, n))
    ends = [stats.median_interval(sample) or (2.0, 2.0) for sample in uniform]
    covered = np.mean([low <= 0.5 <= high for low, high in ends])
    slack = 3 * np.sqrt(0.95 * 0.05 / 4_000)
    assert least - slack <= covered <= most + slack


def test_a_median_among_runs_that_never_arrived_has_no_upper_end() -> None:
    assert stats.median_interval([1.0, 2.0, 3.0, np.inf, np.inf]) == (1.0, np.inf)
    assert stats.median_interval([1.0, 2.0, 3.0, 4.0]) is None
    assert stats.median_interval([5.0] * 9) == (5.0, 5.0)


def test_the_probability_of_improvement_agrees_with_rliable() -> None:
    found = stats.improvement(B, A)
    assert found.value == pytest.approx(0.69166667)
    # rliable's bootstrap gives [0.425, 0.9]; the score interval is a little wider downwards and narrower upwards.
    assert found.low == pytest.approx(0.425, abs=0.05)
    assert found.high == pytest.approx(0.9, abs=0.05)


# ── differences ──


def test_a_difference_draws_each_side_among_its_own_seeds() -> None:
    oracle = scipy.stats.bootstrap(
        (np.array(B), np.array(A)),
        lambda x, y, axis: stats.iqm(x, axis=axis) - stats.iqm(y, axis=axis),
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(0),
        vectorized=True,
    )
    found = stats.bootstrap_difference(B, A)
    assert found.value == pytest.approx(128.6 - 99.48333333)
    assert found.low == pytest.approx(oracle.confidence_interval.low, abs=1.5)
    assert found.high == pytest.approx(oracle.confidence_interval.high, abs=1.5)


def test_equal_values_differ_by_nothing() -> None:
    assert stats.bootstrap_difference([5.0] * 4, [5.0] * 6) == (0.0, 0.0, 0.0)


def test_a_difference_with_one_seed_has_no_interval() -> None:
    assert stats.bootstrap_difference([5.0], [3.0, 4.0]) == (1.5, None, None)


# ── probability of improvement with an interval ──


def test_seeds_that_all_win_are_not_certain_to_win() -> None:
    found = stats.improvement([2.0] * 8, [1.0] * 8)
    assert found.value == 1.0
    assert found.high == pytest.approx(1.0)
    assert found.low == pytest.approx(0.731, abs=0.001)


@given(a=st.lists(st.floats(-9, 9), min_size=2, max_size=9), b=st.lists(st.floats(-9, 9), min_size=2, max_size=9))
def test_the_interval_of_an_improvement_holds_it_and_mirrors(a: list[float], b: list[float]) -> None:
    ours, theirs = stats.improvement(a, b), stats.improvement(b, a)
    assert ours.low is not None
    assert ours.high is not None
    assert 0 <= ours.low <= ours.value <= ours.high <= 1
    assert (theirs.low, theirs.high) == pytest.approx((1 - ours.high, 1 - ours.low), abs=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_of_an_improvement_covers_the_truth(shift: float) -> None:
    rng = np.random.default_rng(5)
    truth = scipy.stats.norm.cdf(shift / np.sqrt(2))
    found = [stats.improvement(rng.normal(shift, 1, 8), rng.normal(0, 1, 8)) for _ in range(400)]
    inside = sum(each.low <= truth <= each.high for each in found if each.low is not None and each.high is not None)
    assert inside / 400 >= 0.93


# ── shares ──


@pytest.mark.parametrize(("hits", "of"), [(0, 8), (3, 8), (8, 8), (1, 1), (40, 90)])
def test_exact_bounds_of_a_share_agree_with_scipy(hits: int, of: int) -> None:
    oracle = scipy.stats.binomtest(hits, of).proportion_ci(method="exact")
    assert stats.exact_share_interval(hits, of) == pytest.approx((hits / of, oracle.low, oracle.high), abs=1e-9)
    one_sided = scipy.stats.binomtest(hits, of, alternative="less").proportion_ci(method="exact")
    assert stats.share_upper_bound(hits, of) == pytest.approx(one_sided.high, abs=1e-9)


@pytest.mark.parametrize(("hits", "of"), [(0, 8), (3, 8), (8, 8), (1, 1), (40, 90)])
def test_wilsons_interval_agrees_with_scipy(hits: int, of: int) -> None:
    oracle = scipy.stats.binomtest(hits, of).proportion_ci(method="wilson")
    assert stats.share_interval(hits, of) == pytest.approx((hits / of, oracle.low, oracle.high), abs=1e-12)


def test_newcombes_interval_by_the_published_examples() -> None:
    # Newcombe (1998), table II, method 10: 56/70 against 48/80, and 10/10 against 0/10.
    assert stats.share_difference((56, 70), (48, 80)) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)
    assert stats.share_difference((10, 10), (0, 10)) == pytest.approx((1.0, 0.6075, 1.0), abs=1e-4)


@pytest.mark.parametrize(("hits", "of"), [(1, 0), (3, 2), (-1, 4)])
def test_a_share_of_nothing_is_refused(hits: int, of: int) -> None:
    with pytest.raises(UsageError, match="no share"):
        stats.share_interval(hits, of)
