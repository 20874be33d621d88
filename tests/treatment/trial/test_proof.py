"""Verdicts of trials when seeds collapse, tie and are cut off: simulated cases by fixed seeds (`benchmarks.proof` has 20,000)."""

import math

import numpy as np
import pytest

from benchmarks.proof import environments, fresh, scenarios, trials
from rlclinic.report import trial as words
from rlclinic.treatment.trial import analysis, power, sequential
from rlclinic.treatment.trial import environments as several
from rlclinic.treatment.trial.sequential import Arrivals, Rule

CASES = 800


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


@pytest.mark.parametrize(("ratios", "spreads"), environments.COVERED)
def test_the_intervals_of_all_environments_hold_together_at_every_look(ratios, spreads):
    assert environments.coverage(ratios, spreads, CASES) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / CASES)


def test_twelve_of_sixteen_solved_is_not_as_good_as_sixteen_of_sixteen():
    plan = trials.make_plan(outcome="return", looks=2)
    solved = trials.observe_returns(np.full(8, 500.0))
    fallen = trials.observe_returns(np.array([500.0] * 6 + [0.0] * 2))
    standing = trials.find_verdict(plan, lambda name, _: solved if name == "control" else fallen)
    assert analysis.verdict(standing)[0] != "equivalent"


@pytest.mark.parametrize("name", trials.ALIKE)
def test_collapsing_seeds_are_not_called_equivalent_and_identical_arms_are(name):
    draw, bar, better = trials.ALIKE[name]
    found = trials.count_calls(draw, CASES, trials.EQUIVALENT)
    assert found >= bar if better == "higher" else found <= allowed(bar)


def test_a_quarter_of_the_runs_that_takes_six_times_the_steps_is_not_called_equivalent():
    fall = fresh.FALLS["a quarter of the treated runs takes six times the steps, all arrive"]
    assert trials.count_calls(fall.draw, CASES, *fall.calls) <= allowed(fall.bar)


@pytest.mark.parametrize("name", trials.ALIKE)
def test_many_trials_at_once_end_as_each_of_them_does_from_its_runs(name):
    ends = trials.ALIKE[name][0](np.random.default_rng(3), (4, 12, 8))
    outcome = "success" if "success" in name else "return" if ends.spacing is None else "steps"
    calls, seeds = trials.end_trials(ends)
    words = {
        sequential.BETTER: "adopt",
        sequential.WORSE: "reject",
        sequential.LESS_RELIABLE: "less reliable",
        trials.EQUIVALENT: "equivalent",
    }
    for case, call in enumerate(calls):
        runs = {"control": iter(ends.control[:, case]), "rx1": iter(ends.treatment[:, case])}

        def draw(name: str, _: int, runs=runs):
            scores = next(runs[name])
            if outcome == "steps":
                return [trials.observe(score if np.isfinite(score) else None, 500.0) for score in scores]
            if outcome == "return":
                return trials.observe_returns(-scores)
            return [trials.observe(50_000 if score < -0.5 else None, 0.0, float(-score)) for score in scores]

        standing = trials.find_verdict(trials.make_plan(outcome=outcome), draw)
        assert (analysis.verdict(standing)[0], standing.looks[-1].seeds) == (words.get(int(call), "undecided"), seeds[case])


@pytest.mark.parametrize("kind", trials.SPREADS_ALIKE)
def test_equal_arms_are_not_called_different_in_spread(kind):
    assert trials.count_unequal_spreads(kind, np.random.default_rng(1), CASES, looks=2) / CASES <= allowed(0.05)


def test_an_adopted_arms_interval_leaves_no_effect_out_though_evaluations_are_coarse():
    refused, adopted = trials.count_refused(np.random.default_rng(6), CASES)
    assert adopted > 0.8 * CASES
    assert refused == adopted
    held, adopted = trials.count_contradictions(np.random.default_rng(6), 20)
    assert (held, adopted > 10) == (0, True)


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
    faster = trials.end_steps(*(scenarios.draw_times(rng, (4, CASES, 8), median=own) for own in (1.0, 0.7)))
    assert (trials.end_trials(faster)[0] == sequential.BETTER).mean() >= 0.83


def test_the_final_return_is_no_guardrail_where_it_is_what_was_asked():
    runs = trials.observe_returns(np.full(8, 500.0)), trials.observe_returns(np.array([500.0] * 5 + [0.0] * 3))
    for outcome, guarded in (("return", False), ("success", True)):
        standing = trials.find_verdict(trials.make_plan(outcome=outcome, looks=1), lambda name, _: runs[name != "control"])
        assert ("final return" in [guard.name for guard in analysis.effects(standing)[0].guardrails]) is guarded


@pytest.mark.parametrize(("called", "factor"), [("better", 0.9), ("worse", 1.1), ("better", 1.1)])
def test_what_seeds_of_an_extension_showed_by_themselves_has_an_interval_that_ends_at_no_effect(called, factor):
    standing, times = analysis.Standing(trials.make_plan(looks=1)), np.arange(10, 18) / 10
    standing.add({name: trials.observe_steps(times * own, 20_000.0) for name, own in (("control", 1.0), ("rx1", factor))})
    limits = sequential.Bounds(2.9, 2.9)
    assert standing.ratio("rx1", limits).low < 1.0 < standing.ratio("rx1", limits).high
    shown = analysis.measure_effect(standing, "rx1", (), analysis.Judged(2.6, 2.5, limits, called, alone=True))
    if (factor < 1) != (called == "better"):
        assert shown.ratio is None  # all seeds together point the other way: P(improvement) is said instead
    elif called == "better":
        assert (shown.ratio.high, shown.improvement.low) == (1.0, 0.5)
    else:
        assert (shown.ratio.low, shown.improvement.high) == (1.0, 0.5)


def test_a_ratio_that_no_environment_knows_is_not_called_zero():
    plan = environments.make_plan(looks=1, per_look=4, futility=False)
    standing = environments.SeveralStanding(plan)
    early, never = [trials.observe(20_000, 500.0)] * 4, [trials.observe(None, 0.0)] * 4
    standing.add_environments([{"control": never, "rx1": early}, {"control": never, "rx1": early}, {"control": never, "rx1": never}])
    ratio = several.effects(standing)[0].ratio
    assert ratio.value is None
    assert words.ratio_text(ratio)
