"""The rule of a trial: what it calls, how often it errs, and whether its intervals hold after an early stop."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import brunnermunzel, mannwhitneyu, norm, t

from rlclinic import stats
from rlclinic.treatment.trial import sequential
from rlclinic.treatment.trial.sequential import Bounds, Interval, Rule

HORIZON, EVERY = 100_000.0, 5_000.0
LIMITS = Bounds(2.361, 2.361)


def steps(rng: np.random.Generator, count: int = 8, ratio: float = 1.0, median: float = 60_000.0, sigma: float = 0.40) -> np.ndarray:
    """Steps to a threshold as evaluations see them: log-normal, rounded up to the next evaluation, censored at the horizon.

    The spread is the median of those in benchmarks/results/steps_to_threshold.json.
    """
    exact = ratio * median * np.exp(sigma * rng.standard_normal(count))
    seen = np.ceil(exact / EVERY) * EVERY
    return np.where(seen > HORIZON, np.inf, seen)


def run_trial(rng: np.random.Generator, draw, rule: Rule, bounds=None):
    """Looks until something is called: (call, control, treatment, bounds)."""
    control, treatment = [], []
    for look in range(1, rule.looks + 1):
        control.append(draw(rng, 1.0))
        treatment.append(draw(rng, None))
        limits = bounds[look - 1] if bounds else sequential.bound(control, {"rx": treatment}, rule, look)
        called = sequential.call(sequential.statistic(control, treatment), limits)
        if called:
            break
    return called, control, treatment, limits


def with_ratio(ratio: float):
    return lambda rng, control: steps(rng, ratio=ratio if control is None else 1.0)


# ── the statistic ──


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=12),
    st.lists(st.integers(0, 6), min_size=2, max_size=12),
)
def test_one_stratum_is_the_nearer_of_the_rank_sum_test_and_the_one_for_unequal_spreads(control, treatment):
    if len({*control, *treatment}) == 1:
        return
    ours = sequential.statistic([np.array(control, float)], [np.array(treatment, float)])
    p = mannwhitneyu(treatment, control, alternative="two-sided", method="asymptotic", use_continuity=False).pvalue
    z = -norm.ppf(p / 2)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        separate = abs(float(brunnermunzel(treatment, control).statistic))
    # Students t with the fewer runs' degrees of freedom, as a normal number.
    other = -norm.ppf(t.sf(separate, min(len(control), len(treatment)) - 1)) if math.isfinite(separate) else math.inf
    assert abs(ours) == pytest.approx(min(z, other), abs=0.03)


def test_strata_add_their_sums_and_their_variances():
    rng = np.random.default_rng(0)
    control, treatment = [rng.random(5), rng.random(8)], [rng.random(6), rng.random(8)]
    sums, variances = 0.0, 0.0
    for theirs, ours in zip(control, treatment, strict=True):
        n, m = len(theirs), len(ours)
        sums += sum(float(t < c) for t in ours for c in theirs) - n * m / 2
        variances += n * m * (n + m + 1) / 12
    seen = sequential.statistic(control, treatment)
    assert math.copysign(1, seen) == math.copysign(1, sums)
    assert abs(seen) <= abs(sums) / math.sqrt(variances) + 1e-12


def test_a_look_that_was_slow_for_both_arms_does_not_speak_against_either():
    quick, slow = np.array([1.0, 2.0, 3.0, 4.0]), np.array([101.0, 102.0, 103.0, 104.0])
    assert sequential.statistic([quick, slow], [quick, slow]) == 0.0


def test_swapping_the_arms_turns_the_sign():
    rng = np.random.default_rng(1)
    control, treatment = [steps(rng), steps(rng)], [steps(rng, ratio=0.6), steps(rng, ratio=0.6)]
    assert sequential.statistic(control, treatment) == pytest.approx(-sequential.statistic(treatment, control))
    assert sequential.statistic(control, treatment) > 0


def test_censored_runs_rank_last_and_are_ties_among_themselves():
    got_there, never = np.array([1e5] * 4), np.full(4, np.inf)
    assert sequential.statistic([never], [got_there]) > 2
    assert sequential.statistic([never], [never]) == 0.0


# ── deciding ──


def test_the_bounds_spend_what_extensions_leave_four_fifths_of_it_on_better():
    kept = 0.05 * 0.9
    for kind in ("wang-tsiatis", "pocock", "obrien-fleming"):
        better, worse = zip(*Rule(kind=kind).bounds, strict=True)
        assert stats.crossing_probability(better) == pytest.approx(2 * 0.8 * kept, abs=1e-5)
        assert stats.crossing_probability(worse) == pytest.approx(2 * 0.2 * kept, abs=1e-5)
    extensions = [Rule().extension_levels(number) for number in range(1, 40)]
    assert sum(map(sum, extensions)) == pytest.approx(0.05 * 0.1, abs=1e-9)


def test_somebody_who_tests_at_five_percent_whenever_they_look_errs_far_more_often():
    rule, rng = Rule(), np.random.default_rng(0)
    control, treatment = (rng.random((rule.looks, 4_000, 8)) for _ in range(2))
    seen = np.abs([sequential.statistics(control[:look], treatment[:look]) for look in range(1, 5)])
    assert (seen > 1.96).any(axis=0).mean() > 0.09


@pytest.mark.parametrize("censored", [0.0, 0.3, 0.8])
def test_the_rate_of_false_calls_over_many_trials_stays_below_five_percent(censored):
    rule, rng, trials = Rule(), np.random.default_rng(21), 6_000
    control, treatment = (rng.random((rule.looks, trials, rule.per_look)) for _ in range(2))
    control, treatment = (np.where(side > 1 - censored, np.inf, side) for side in (control, treatment))
    called = np.zeros(trials, dtype=bool)
    for look, limits in enumerate(rule.bounds, 1):
        called |= sequential.decide(sequential.statistics(control[:look], treatment[:look]), limits, None, 0.1, last=False) != 0
    assert 0.02 < called.mean() <= 0.05


@pytest.mark.parametrize("kind", ["wang-tsiatis", "pocock", "obrien-fleming"])
@pytest.mark.parametrize(("per_look", "looks"), [(2, 1), (2, 2), (3, 1), (3, 4), (4, 2), (5, 1), (6, 4)])
def test_a_few_seeds_a_look_do_not_call_equal_arms_different_more_often(per_look, looks, kind):
    rule, rng, trials = Rule(looks=looks, per_look=per_look, kind=kind), np.random.default_rng(22), 8_000
    control, treatment = (rng.random((looks, trials, per_look)) for _ in range(2))
    called = np.zeros(trials, dtype=bool)
    for look, limits in enumerate(rule.bounds, 1):
        called |= sequential.decide(sequential.statistics(control[:look], treatment[:look]), limits, None, 0.1, last=False) != 0
    # Three standard errors of 8,000 trials.
    assert called.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_ties_of_a_few_seeds_do_not_call_equal_arms_different_more_often():
    rule, rng, trials, called = Rule(looks=2, per_look=4), np.random.default_rng(5), 600, 0
    for _ in range(trials):
        control, treatment = [], []
        for look in (1, 2):
            # Evaluations are far apart, and a third of the runs never gets there.
            drawn = (np.round(6 * rng.random(4)) for _ in range(2))
            for side, seen in zip((control, treatment), drawn, strict=True):
                side.append(np.where(seen > 4, np.inf, seen))
            if sequential.call(sequential.statistic(control, treatment), sequential.bound(control, {"rx": treatment}, rule, look)):
                called += 1
                break
    assert called / trials <= 0.05


@pytest.mark.parametrize("worse", [[4.0, 5.0, 6.0], [4.0, 4.0, 4.0], [np.inf, np.inf, np.inf]])
@pytest.mark.parametrize("better", [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
def test_three_seeds_that_differ_completely_are_not_enough(worse, better):
    # One of ten trials of equal arms ends like this, with ties or without.
    rule, control, treatment = Rule(looks=1, per_look=3), [np.array(worse)], [np.array(better)]
    z = sequential.statistic(control, treatment)
    assert 1.75 < z <= sequential.bound(control, {"rx": treatment}, rule, 1).better
    assert Rule(looks=1, per_look=8).bounds[0].better == pytest.approx(-norm.ppf(0.036), abs=1e-3)


def test_a_known_thirty_percent_effect_is_called_better_in_three_of_four_trials():
    rng = np.random.default_rng(0)
    calls = [run_trial(rng, with_ratio(0.7), Rule())[0] for _ in range(400)]
    assert np.mean([call == "better" for call in calls]) >= 0.75
    assert "worse" not in calls


def test_several_arms_need_a_higher_bound_and_are_still_called_at_random_in_at_most_five_percent(monkeypatch):
    monkeypatch.setattr(sequential, "PERMUTATIONS", 500)
    rule, rng = Rule(looks=2), np.random.default_rng(5)
    wrong, limits = 0, []
    for _ in range(150):
        control, arms = [], {"a": [], "b": [], "c": []}
        for look in (1, 2):
            control.append(steps(rng))
            for strata in arms.values():
                strata.append(steps(rng))
            limits.append(sequential.bound(control, arms, rule, look))
            if any(sequential.call(sequential.statistic(control, strata), limits[-1]) for strata in arms.values()):
                wrong += 1
                break
    # Three standard errors above 5 %.
    assert wrong <= 15
    assert np.mean([limit.better for limit in limits]) > np.mean([limit.better for limit in rule.bounds]) + 0.1


def test_an_arm_that_was_dropped_takes_no_part_in_later_looks():
    rng = np.random.default_rng(2)
    control = [steps(rng), steps(rng)]
    arms = {"a": [steps(rng), steps(rng)], "b": [steps(rng), steps(rng)]}
    assert sequential.bound(control, arms, Rule(), 2).better >= Rule().bounds[1].better
    assert sequential.bound(control, {"a": arms["a"]}, Rule(), 2) == Rule().bounds[1]


# ── intervals ──


@pytest.mark.parametrize("ratio", [1.0, 0.7, 0.4])
def test_ratio_intervals_cover_the_truth_after_an_early_stop(ratio):
    rng = np.random.default_rng(11)
    held = []
    for _ in range(60):
        _, control, treatment, limit = run_trial(rng, with_ratio(ratio), Rule())
        found = sequential.ratio(control, treatment, limit, HORIZON, EVERY)
        held.append(found.low <= ratio <= found.high)
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize("gain", [0.0, 60.0])
def test_gain_intervals_cover_the_truth_after_an_early_stop(gain):
    rng = np.random.default_rng(12)

    def draw(rng, control):
        return -(200.0 + (gain if control is None else 0.0) + 50.0 * rng.standard_normal(8))

    held = []
    for _ in range(50):
        _, control, treatment, limit = run_trial(rng, draw, Rule())
        found = sequential.shift(control, treatment, limit)
        held.append(found.low <= gain <= found.high)
    assert np.mean(held) >= 0.93


def test_probability_intervals_cover_the_truth_after_an_early_stop():
    rng, shift = np.random.default_rng(13), 0.8
    truth = 0.5 * math.erfc(-shift / 2)
    held = []
    for _ in range(300):
        _, control, treatment, limit = run_trial(rng, lambda rng, control: rng.standard_normal(8) - (control is None) * shift, Rule())
        found = sequential.improvement(control, treatment, limit)
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.93


def test_a_control_that_never_gets_there_leaves_a_least_saving():
    control, treatment = [np.full(8, np.inf)], [np.linspace(28_000, 41_000, 8)]
    found = sequential.ratio(control, treatment, LIMITS, HORIZON)
    assert math.isnan(found.value)
    assert found.low == 0.0
    assert 0.3 < found.high < 0.42


def test_the_interval_of_equal_arms_lies_around_one_and_narrows_with_seeds():
    rng = np.random.default_rng(3)
    few = sequential.ratio([steps(rng)], [steps(rng)], LIMITS, HORIZON)
    many = sequential.ratio([steps(rng, 200)], [steps(rng, 200)], LIMITS, HORIZON)
    assert few.low < 1 < few.high
    assert 0.8 < many.low < 1 < many.high < 1.25
    assert math.log(many.high / many.low) < 0.5 * math.log(few.high / few.low)


def test_very_many_seeds_give_a_very_short_interval():
    rng = np.random.default_rng(8)
    control, treatment = [rng.lognormal(0.0, 0.1, 4_000)], [0.8 * rng.lognormal(0.0, 0.1, 4_000)]
    found = sequential.ratio(control, treatment, LIMITS)
    assert 0.79 < found.low < 0.8 < found.high < 0.81


def test_an_interval_agrees_with_the_test_that_it_inverts():
    rng = np.random.default_rng(4)
    for _ in range(20):
        control, treatment = [rng.lognormal(size=8)], [0.5 * rng.lognormal(size=8)]
        found = sequential.ratio(control, treatment, Bounds(2.0, 2.0))
        assert (abs(sequential.statistic(control, treatment)) <= 2.0) == (found.low <= 1.0 <= found.high)


@pytest.mark.parametrize(
    ("control", "treatment"),
    [
        ([np.full(8, np.inf)], [np.full(8, np.inf)]),
        ([np.array([5.0])], [np.array([3.0])]),
        ([np.array([1.0, np.inf])], [np.array([np.inf, 2.0, 3.0])]),
    ],
)
def test_data_that_decide_nothing_give_an_open_interval_and_no_warning(control, treatment):
    for found in (sequential.ratio(control, treatment, LIMITS, 10.0), sequential.shift(control, treatment, LIMITS)):
        assert found.low < found.high
        assert math.isinf(found.high) or math.isinf(found.low) or found.low == 0.0
    chance = sequential.improvement(control, treatment, LIMITS)
    assert 0.0 <= chance.low <= chance.value <= chance.high <= 1.0


def test_the_share_of_runs_that_got_there_has_the_interval_of_the_transcript():
    found = sequential.proportions((0, 8), (8, 8), 2.361)
    assert found.value == 1.0
    assert found.low == pytest.approx(0.42, abs=0.01)
    assert found.high == 1.0


def test_equivalence_takes_a_narrow_interval():
    rng = np.random.default_rng(6)
    few, many = ([steps(rng, count)] for count in (8, 3_000))
    other = [steps(rng, 3_000)]
    assert not sequential.refuses_both(sequential.ratio_test(few, few, HORIZON), math.log1p(0.1), 2.361)
    assert sequential.refuses_both(sequential.ratio_test(many, other, HORIZON), math.log1p(0.1), 2.361)


def test_the_seeds_that_it_would_take_follow_from_the_width():
    # Half as wide an interval takes a quarter of the seeds; an effect between 0 and the margin takes most.
    wide, narrow = (sequential.seeds_needed(Interval(0.0, -half, half), 32, 0.1, LIMITS, LIMITS) for half in (0.4, 0.2))
    assert wide == pytest.approx(4 * narrow, rel=0.01)
    assert sequential.seeds_needed(Interval(0.05, -0.15, 0.25), 32, 0.1, LIMITS, LIMITS) > sequential.seeds_needed(
        Interval(0.3, 0.1, 0.5), 32, 0.1, LIMITS, LIMITS
    )
    assert sequential.seeds_needed(Interval(math.nan, -math.inf, 0.2), 32, 0.1, LIMITS, LIMITS) is None
