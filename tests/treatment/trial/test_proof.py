"""Verdicts of trials when seeds collapse, tie and are cut off: simulated cases by fixed seeds (`benchmarks.proof` has 20,000)."""

import math

import numpy as np
import pytest

from benchmarks.proof import environments, scenarios, trials
from rlclinic.treatment.trial import analysis, power, sequential
from rlclinic.treatment.trial.sequential import Arrivals, Rule

CASES = 2_000


def allowed(rate: float, cases: int = CASES) -> float:
    """A rate with three standard errors of so many cases."""
    return rate + 3 * math.sqrt(rate * (1 - rate) / cases)


@pytest.mark.parametrize("name", trials.NULLS)
def test_arms_of_which_neither_is_better_are_called_different_in_at_most_five_percent(name):
    assert trials.find_false_verdicts(trials.NULLS[name], CASES) <= allowed(0.05)


@pytest.mark.parametrize("name", trials.COLLAPSES)
def test_a_faster_arm_that_fails_in_a_quarter_of_its_seeds_is_hardly_ever_adopted(name):
    draw, bar = trials.COLLAPSES[name]
    calls, _ = trials.carry_out(draw, CASES)
    assert (calls == sequential.BETTER).mean() <= allowed(bar)
    # Ranks alone would adopt it.
    alone, _ = trials.carry_out(draw, CASES, arrival=False)
    assert (alone == sequential.BETTER).mean() > 0.3


def test_thirty_percent_fewer_steps_are_seen_in_nine_of_ten_trials_with_both_outcomes_in_force():
    calls, seeds = trials.carry_out(trials.draw_pair({}, {"median": 0.7}), CASES)
    assert (calls == sequential.BETTER).mean() >= 0.88
    assert seeds.mean() <= 22


@pytest.mark.parametrize("arriving", [1.0, 0.95, 0.85])
def test_the_second_outcome_costs_little_where_arrival_is_equal(arriving):
    pair = trials.draw_pair({"arriving": arriving}, {"median": 0.5, "arriving": arriving})
    both, one = ((trials.carry_out(pair, CASES, arrival=arrival)[0] == sequential.BETTER).mean() for arrival in (True, False))
    assert one - both <= 0.03 + 3 * math.sqrt(0.03 / CASES)


@pytest.mark.parametrize("name", environments.NULLS)
def test_equal_arms_over_environments_of_any_spread_are_called_different_in_at_most_five_percent(name):
    calls, _ = environments.carry_out(environments.NULLS[name], CASES)
    assert environments.share(calls, sequential.BETTER, sequential.WORSE, environments.MIXED) <= allowed(0.05)


@pytest.mark.parametrize("name", environments.ONE_SIDED)
def test_helps_here_hurts_there_is_hardly_ever_said_where_nothing_hurts_or_nothing_helps(name):
    draws, wrong = environments.ONE_SIDED[name]
    assert environments.share(environments.carry_out(draws, CASES)[0], wrong) <= allowed(0.05)


@pytest.mark.parametrize("kind", environments.BARS)
@pytest.mark.parametrize("count", [2, 5])
def test_what_one_environment_loses_is_not_hidden_by_what_the_others_gain(kind, count):
    draws = environments.hidden(kind, count, 1 / 3)
    assert environments.share(environments.carry_out(draws, CASES)[0], sequential.BETTER) <= allowed(environments.BARS[kind])
    if count == 5:
        # The average alone would adopt it.
        assert environments.share(environments.carry_out(draws, CASES, each=False)[0], sequential.BETTER) > 0.9


def test_environments_together_see_as_much_as_as_many_runs_on_the_best_of_them_and_more_than_one_heap():
    for name in environments.CASES:
        found = {way: float(rows.mean()) for way, rows in environments.compare_power(name, CASES).items()}
        assert found["environments adopts"] >= found["heap adopts"], name
        assert found["environments adopts"] >= found["single adopts"] - 3 * math.sqrt(0.25 / CASES), name


def test_the_intervals_of_all_environments_hold_together():
    assert min(environments.coverage(40).values()) >= 0.92


def test_twelve_of_sixteen_solved_is_not_as_good_as_sixteen_of_sixteen():
    plan = trials.make_plan(outcome="return", looks=2)
    solved = trials.observe_returns(np.full(8, 500.0))
    fallen = trials.observe_returns(np.array([500.0] * 6 + [0.0] * 2))
    standing = trials.find_verdict(plan, lambda name, _: solved if name == "control" else fallen)
    assert analysis.verdict(standing)[0] != "equivalent"


def test_collapsing_seeds_are_not_called_equivalent_and_identical_arms_are():
    returns, success = trials.make_plan(outcome="return"), trials.make_plan(outcome="success")
    assert trials.count_verdicts(returns, trials.ends_with_collapse(0.25), 150, "equivalent") <= allowed(0.05, 150)
    assert trials.count_verdicts(success, trials.success_rates(0.9, 0.7), 150, "equivalent") <= allowed(0.05, 150)
    assert trials.count_verdicts(returns, trials.ends_with_collapse(0.0), 60, "equivalent") >= 0.8


@pytest.mark.parametrize("kind", ["exponential", "bimodal", "capped"])
def test_equal_arms_are_not_called_different_in_spread(kind):
    plan, rng, wrong = trials.make_plan(outcome="stability", looks=2), np.random.default_rng(1), 0
    for _ in range(150):
        standing = trials.find_verdict(plan, lambda name, count: trials.spreads_alike(kind)(rng, name, count))
        wrong += analysis.verdict(standing)[0] in ("adopt", "reject")
    assert wrong / 150 <= allowed(0.05, 150)


def test_an_adopted_arms_interval_leaves_no_effect_out_though_evaluations_are_coarse():
    assert trials.find_contradictions(120) <= 0.02


def test_any_number_of_extensions_errs_in_at_most_five_percent_whatever_made_somebody_extend():
    assert trials.extended_errors(CASES) <= allowed(0.05)


def test_an_undecided_trial_that_is_extended_may_still_be_adopted():
    # Where 20 % fewer steps matter: within the usual margin such an arm may end as an equivalent one.
    plan = trials.make_plan(futility=False, margin=0.1)
    longer = plan.model_copy(update={"extensions": (trials.Extension(seeds=64, seed0=10**6),)})
    rng = np.random.default_rng(3)

    def draw(name: str, count: int):
        return trials.observe_steps(scenarios.draw_times(rng, (count,), median=1.0 if name == "control" else 0.8))

    ends = [trials.find_verdict(longer, draw) for _ in range(40)]
    late = [standing for standing in ends if len(standing.looks) == 5]
    assert late
    assert sum(analysis.verdict(standing)[0] == "adopt" for standing in late) >= 0.5 * len(late)
    assert all(standing.looks[-1].pooled is not None for standing in late)


@pytest.mark.parametrize(("spread", "censored"), [(0.2, 0.0), (0.4, 0.3), (1.0, 0.3), (1.0, 0.7)])
def test_what_a_trial_can_see_is_said_from_all_measured_runs_not_from_those_that_arrived(spread, censored):
    horizon = scenarios.find_horizon(1.0 - censored if censored else 0.999, spread)
    times = scenarios.censor(scenarios.draw_times(np.random.default_rng(2), (200,), spread=spread), horizon)
    made = power.power(Rule(), [float(time) if np.isfinite(time) else None for time in times], horizon=horizon)
    assert made.sigma == pytest.approx(spread, rel=0.2)
    truth = power._simulate(Rule(), spread, min(1.0 - censored, 0.99), 0.3, "time")[0]
    assert made.by_effect["0.3"] == pytest.approx(truth, abs=0.1)


def test_a_few_runs_give_a_range_of_power():
    made = power.power(Rule(), [20_000.0, 31_000.0, 26_000.0, None, None, 45_000.0], horizon=60_000.0)
    low, high = made.range_by_effect["0.3"]
    assert low < made.by_effect["0.3"] < high or high - low > 0.16


def test_one_failure_stands_in_the_way_with_few_seeds_and_is_noise_with_many():
    assert sequential.speaks_of_a_drop(Arrivals(np.array(8), 8, np.array(7), 8), 0.1)
    assert not sequential.speaks_of_a_drop(Arrivals(np.array(8), 8, np.array(8), 8), 0.1)
    assert not sequential.speaks_of_a_drop(Arrivals(np.array(200), 256, np.array(195), 256), 0.1)
    # A sure drop that is within the margin is no reason.
    assert not sequential.speaks_of_a_drop(Arrivals(np.array(4_000), 4_000, np.array(3_900), 4_000), 0.1)


def test_an_arm_that_does_nothing_is_given_up_early_and_one_that_helps_is_not():
    rng, plan = np.random.default_rng(8), trials.make_plan()
    none = [trials.find_verdict(plan, lambda _, n: trials.observe_steps(scenarios.draw_times(rng, (n,)))) for _ in range(60)]
    assert np.mean([standing.looks[-1].seeds for standing in none]) < 30.5
    assert all(analysis.verdict(standing)[0] == "undecided" for standing in none if "futile" in standing.calls.values())
    rate = trials.count_verdicts(
        plan, lambda r, name, n: trials.observe_steps(scenarios.draw_times(r, (n,), median=1.0 if name == "control" else 0.7)), 120, "adopt"
    )
    assert rate >= 0.83
