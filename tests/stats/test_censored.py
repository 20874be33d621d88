import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rlclinic import stats
from rlclinic.errors import UsageError

runs = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=9)


def made(data: list[tuple[int, bool]]) -> stats.Times:
    return stats.Times(np.array([float(step) for step, _ in data]), np.array([reached for _, reached in data]))


def censored(times: stats.Times) -> "scipy.stats.CensoredData":
    return scipy.stats.CensoredData(uncensored=times.steps[times.reached], right=times.steps[~times.reached])


# ── Kaplan and Meier ──


@given(data=runs)
def test_the_curve_agrees_with_scipy(data: list[tuple[int, bool]]) -> None:
    times = made(data)
    curve = stats.kaplan_meier(times)
    assert curve.steps[0] == 0.0
    assert curve.below[0] == 1.0
    np.testing.assert_allclose(scipy.stats.ecdf(censored(times)).sf.evaluate(curve.steps), curve.below, atol=1e-12)
    assert np.all(np.diff(curve.below) <= 0)


def test_the_curve_by_hand() -> None:
    # Five runs: reached at 2 and 5, stopped at 3 and 6, reached at 6.
    curve = stats.kaplan_meier(stats.Times.of([2.0, None, 5.0, None, 6.0], [9, 3, 9, 6, 9]))
    assert curve.steps.tolist() == [0.0, 2.0, 5.0, 6.0]
    assert curve.below.tolist() == pytest.approx([1.0, 0.8, 0.8 * 2 / 3, 0.8 * 2 / 3 * 1 / 2])


def test_the_median_is_where_half_have_arrived() -> None:
    assert stats.median_time(stats.Times.of([10.0, 20.0, 30.0, None], 100.0)) == 20.0
    assert stats.median_time(stats.Times.of([10.0, None, None], 100.0)) is None


# ── restricted means ──


@given(data=runs, horizon=st.integers(1, 12))
def test_the_restricted_mean_is_the_area_under_the_curve(data: list[tuple[int, bool]], horizon: int) -> None:
    times = made(data)
    curve = stats.kaplan_meier(times)
    at = np.searchsorted(curve.steps, np.arange(horizon), side="right") - 1
    assert stats.restricted_times(times, horizon) == pytest.approx(curve.below[at].sum())


@given(times=st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1, max_size=6))
def test_with_one_common_end_it_is_the_simple_mean(times: list[int | None]) -> None:
    assert stats.restricted_times(stats.Times.of(times, 50), 50) == pytest.approx(stats.restricted_mean(times, 50))


def test_all_censored_is_the_whole_horizon_and_nothing_to_tell_apart() -> None:
    times = stats.Times.of([None] * 8, 80.0)
    assert stats.restricted_times(times, 80.0) == 80.0
    assert stats.geometric_ratio(times, times, 80.0) == 1.0
    assert stats.middle_ratio(times, times, 80.0) == (1.0, 1.0, 1.0)
    test = stats.compare_times(times, times, 80.0)
    assert test is not None
    assert test.p == 1.0


def test_the_ratio_of_geometric_means_is_what_is_tested() -> None:
    fast, slow = stats.Times.of([10.0, 20.0, 40.0, None], 100.0), stats.Times.of([20.0, 40.0, 80.0, None], 100.0)
    assert stats.geometric_ratio(fast, slow, 100.0) == pytest.approx(0.5**0.75)
    test = stats.compare_times(fast, slow, 100.0)
    means = stats.compare_means(np.log([20.0, 40.0, 80.0, 100.0]), np.log([10.0, 20.0, 40.0, 100.0]))
    assert test is not None
    assert means is not None
    assert (test.statistic, test.p) == (means.statistic, means.p)
    assert test.statistic > 0


def test_runs_that_were_followed_for_less_than_the_horizon_are_compared_by_the_log_rank_test() -> None:
    stopped, other = stats.Times.of([20.0, None, 20.0], [100, 5, 100]), stats.Times.of([30.0, 40.0, 50.0], 100.0)
    assert stats.compare_times(stopped, other, 100.0) == stats.log_rank(stopped, other)
    assert stats.middle_ratio(stopped, other, 100.0) is None
    assert stats.geometric_ratio(stopped, other, 100.0) == pytest.approx(0.5)


def test_one_run_is_not_compared() -> None:
    assert stats.compare_times(stats.Times.of([10.0], 100.0), stats.Times.of([20.0, 40.0], 100.0), 100.0) is None


def test_the_interval_of_median_steps_reaches_beyond_what_was_followed() -> None:
    assert stats.median_time_interval(stats.Times.of([10.0, 20.0, 30.0, 40.0, 50.0], 100.0)) == (10.0, 50.0)
    assert stats.median_time_interval(stats.Times.of([10.0, 20.0, 30.0, None, None], 100.0)) == (10.0, None)
    assert stats.median_time_interval(stats.Times.of([10.0, None], 100.0)) is None


def test_a_run_that_was_stopped_early_does_not_count_as_never() -> None:
    stopped = stats.Times.of([20.0, None, 20.0], [100, 5, 100])
    never = stats.Times.of([20.0, None, 20.0], 100.0)
    assert stats.restricted_times(stopped, 100.0) == pytest.approx(20.0)
    assert stats.restricted_times(never, 100.0) == pytest.approx(140 / 3)


def test_curves_that_have_ended_are_known_for_ever() -> None:
    ended, open_end = stats.Times.of([5.0, 9.0], 100.0), stats.Times.of([5.0, None], [100, 40])
    assert ended.horizon == math.inf
    assert stats.shared_horizon(ended, open_end) == 40.0
    assert stats.shared_horizon(ended, ended) == 9.0


# ── the log-rank test ──


@given(a=runs, b=runs)
def test_the_log_rank_statistic_agrees_with_scipy(a: list[tuple[int, bool]], b: list[tuple[int, bool]]) -> None:
    ours, theirs = made(a), made(b)
    if not (ours.reached.any() or theirs.reached.any()):
        return
    with np.errstate(all="ignore"):
        oracle = scipy.stats.logrank(censored(ours), censored(theirs))
    if math.isfinite(oracle.statistic):
        assert abs(stats.log_rank(ours, theirs).statistic) == pytest.approx(abs(oracle.statistic), abs=1e-9)


def test_with_many_runs_p_is_scipys() -> None:
    rng = np.random.default_rng(0)
    sides = [stats.Times.of([None if time > 80 else time for time in rng.exponential(scale, 30)], 80.0) for scale in (30, 50)]
    oracle = scipy.stats.logrank(*(censored(side) for side in sides))
    test = stats.log_rank(*sides)
    assert test.p == pytest.approx(oracle.pvalue)
    assert test.method == "log-rank test, normal approximation"


def test_who_arrives_earlier_has_the_positive_statistic() -> None:
    early, late = stats.Times.of([5.0, 6.0, 7.0, 8.0], 50.0), stats.Times.of([20.0, 30.0, None, None], 50.0)
    test = stats.log_rank(early, late)
    assert test.statistic > 0
    assert test.p == pytest.approx(2 / 70)
    assert stats.log_rank(late, early).statistic == pytest.approx(-test.statistic)


@pytest.mark.parametrize("times", [[None, None, None], [7.0, 7.0, 7.0]])
def test_all_censored_or_all_tied_cannot_be_told_apart(times: list[float | None]) -> None:
    side = stats.Times.of(times, 50.0)
    assert stats.log_rank(side, side).p == 1.0
    assert stats.log_rank(side, side).statistic == 0.0


@pytest.mark.parametrize("n", [3, 6, 22])
def test_equal_groups_are_called_different_in_at_most_five_of_a_hundred_cases(n: int) -> None:
    rng = np.random.default_rng(n)
    found = []
    for _ in range(500):
        # Evaluations are rare, so times tie; a third of the runs never arrives.
        sides = [np.ceil(rng.exponential(45.0, n) / 5) * 5 for _ in range(2)]
        found.append(stats.log_rank(*(stats.Times.of([None if time > 50 else time for time in side], 50.0) for side in sides)).p < 0.05)
    assert np.mean(found) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


@pytest.mark.parametrize(("times", "followed"), [([], 10.0), ([None], math.inf), ([math.nan], 10.0), ([-1.0], 10.0)])
def test_times_that_make_no_sense_are_refused(times: list[float | None], followed: float) -> None:
    with pytest.raises(UsageError, match="times to a threshold"):
        stats.Times.of(times, followed)


@pytest.mark.parametrize("horizon", [0.0, -1.0, math.nan])
def test_a_horizon_must_be_positive(horizon: float) -> None:
    with pytest.raises(UsageError, match="horizon"):
        stats.restricted_times(stats.Times.of([1.0], 5.0), horizon)
