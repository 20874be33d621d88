import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic import stats
from rlclinic.comparison import outcomes, pairs
from rlclinic.comparison.compare import compare_sides
from rlclinic.comparison.models import Compared, Pair
from rlclinic.comparison.sides import Side
from rlclinic.errors import UsageError
from rlclinic.report import comparison as report
from tests.comparison.builders import rows, run, side, trained_with


def only(compared: Compared) -> Pair:
    (found,) = compared.pairs
    return found


def contrast(pair: Pair, name: str) -> object:
    return next(each for each in pair.contrasts if each.outcome == name)


# ── verdicts ──


def test_a_clearly_better_group_is_called_better_with_its_numbers() -> None:
    compared = compare_sides([side(*rows(8, 300, seed=1)), side(*rows(8, 700, seed=2))])
    pair = only(compared)
    assert pair.verdict == "better"
    assert pair.improvement is not None
    assert pair.improvement.value == 1.0
    returns, steps, *_ = pair.contrasts
    assert returns.difference.value == pytest.approx(400, abs=10)
    assert returns.p == pytest.approx(2 / math.comb(16, 8))
    assert returns.p_holm == pytest.approx(4 / math.comb(16, 8))
    assert returns.method == "permutation of Welch's t, and Welch's test"
    assert returns.better
    assert steps.ratio is not None
    assert steps.ratio.value is not None
    assert steps.ratio.value == pytest.approx(0.7, abs=0.02)
    assert compared.env == "CartPole-v1"
    assert compared.threshold == 475.0


def test_the_same_two_groups_the_other_way_round_are_called_worse() -> None:
    assert only(compare_sides([side(*rows(8, 500, seed=2)), side(*rows(8, 300, seed=1))])).verdict == "worse"


def test_equal_groups_show_no_difference_and_say_what_could_have_been_seen() -> None:
    pair = only(compare_sides([side(*rows(8, 300, seed=1)), side(*rows(8, 300, seed=2))]))
    assert pair.verdict == "no difference shown"
    assert pair.detectable is not None
    assert f"{pair.detectable:.3g}" in pair.reason
    assert pair.seeds_needed is not None
    assert pair.seeds_needed > 8


def test_the_seeds_that_would_show_a_difference_are_those_of_the_textbook_and_a_few_more() -> None:
    before, after = [[float(value)] for value in (0, 2) * 8], [[float(value) + 0.5] for value in (0, 2) * 8]
    pair = only(compare_sides([side(*before, threshold=None), side(*after, threshold=None)]))
    # Two-sided 5 %, power 0.8: n = (1.96 + 0.84)^2 x 2 x variance / difference^2, with a variance of 16/15; a sixteenth more of its root.
    textbook = 7.8489 * 2 * (16 / 15) / 0.25 * (17 / 16) ** 2
    assert pair.seeds_needed is not None
    assert textbook < pair.seeds_needed < textbook + 3


def test_so_few_seeds_that_no_test_can_show_anything_are_called_that() -> None:
    few = [[[100.0], [101.0], [102.0]], [[1.0], [2.0], [3.0]]]
    pair = only(compare_sides([side(*each, threshold=None) for each in few]))
    # 20 ways to deal six seeds out, and both ends count: p is 0.1 at best.
    assert pair.verdict == "no difference shown"
    assert pair.smallest_p == pytest.approx(0.1)
    assert "so few seeds cannot show any difference (p is 0.1 at best)" in pair.reason
    enough = int(pair.reason.rpartition("): ")[2].split()[0])
    more = [[[value + 0.1 * n] for n in range(enough)] for value in (100.0, 1.0)]
    assert only(compare_sides([side(*each, threshold=None) for each in more])).verdict == "worse"


def test_a_return_that_rises_while_steps_rise_too_is_mixed() -> None:
    fast = [[480.0] * 2 + [300.0 + seed] * 8 for seed in range(8)]
    slow = [[10.0] * 9 + [490.0 + seed] for seed in range(8)]
    assert only(compare_sides([side(*fast), side(*slow)])).verdict == "mixed"


def test_one_seed_is_not_assessable_and_yet_compared() -> None:
    compared = compare_sides([side(*rows(8, 300)), side([10.0, 500.0])])
    pair = only(compared)
    assert pair.verdict == "not assessable"
    assert pair.reason.startswith("n = 1, not assessable")
    assert all(each.p is None and each.method == "not assessable" for each in pair.contrasts)
    assert pair.contrasts[0].difference.value is not None
    assert pair.contrasts[0].difference.low is None
    assert "B: n = 1, not assessable" in compared.notes


def test_identical_data_has_no_difference_at_all() -> None:
    data = rows(6, 480)
    pair = only(compare_sides([side(*data), side(*data)]))
    assert pair.verdict == "no difference shown"
    returns, *_ = pair.contrasts
    assert (returns.difference.value, returns.p) == (0.0, 1.0)


def test_groups_without_any_spread_are_handled() -> None:
    assert only(compare_sides([side(*[[100.0, 200.0]] * 5), side(*[[100.0, 200.0]] * 5)])).verdict == "no difference shown"
    pair = only(compare_sides([side(*[[100.0, 200.0]] * 5), side(*[[100.0, 300.0]] * 5)]))
    assert pair.verdict == "better"
    assert pair.detectable == 0.0
    assert pair.seeds_needed is None


def test_negative_returns_are_returns() -> None:
    before = [[-1_500.0, -900.0 - seed] for seed in range(6)]
    after = [[-1_500.0, -150.0 - seed] for seed in range(6)]
    pair = only(compare_sides([side(*before, threshold=-200.0), side(*after, threshold=-200.0)]))
    assert pair.verdict == "better"
    assert pair.contrasts[0].difference.value == pytest.approx(750)


def test_the_direction_is_that_of_the_means_that_are_tested() -> None:
    # The IQM of the side that collapses in a quarter of its seeds is the higher one; its mean is lower by 115.
    before, after = [[10.0]] * 5 + [[500.0]] * 15, [[490.0 + 0.1 * seed] for seed in range(20)]
    pair = only(compare_sides([side(*before, threshold=None), side(*after, threshold=None)]))
    assert stats.iqm([run[0] for run in before]) > stats.iqm([run[0] for run in after])
    assert pair.verdict == "better"
    assert pair.contrasts[0].difference.value == pytest.approx(490.95 - 377.5)
    assert pair.contrasts[0].better
    assert only(compare_sides([side(*after, threshold=None), side(*before, threshold=None)])).verdict == "worse"


def test_seeds_that_collapse_on_one_side_are_counted() -> None:
    before, after = [[10.0]] * 2 + [[480.0 + seed] for seed in range(14)], [[480.0 + seed] for seed in range(16)]
    pair = only(compare_sides([side(*before, threshold=None), side(*after, threshold=None)]))
    assert pair.collapsed == (2, 0)
    assert "collapsed: 2 of 16 seeds of A, 0 of 16 seeds of B" in pair.reason
    # A side that is lower as a whole has not collapsed.
    assert only(compare_sides([side(*[[10.0]] * 16, threshold=None), side(*after, threshold=None)])).collapsed is None


def test_a_verdict_says_where_spreads_differ() -> None:
    even, wide = [[480.0 + 0.1 * seed] for seed in range(16)], [[482.0 + 4 * (seed - 8)] for seed in range(16)]
    assert "the seeds of B scatter more" in only(compare_sides([side(*even, threshold=None), side(*wide, threshold=None)])).reason


# ── what is compared ──


def test_unequal_lengths_are_compared_where_both_have_returns() -> None:
    short, long = side(*rows(4, 300, length=10, seed=1)), side(*rows(4, 600, length=20, seed=2))
    compared = compare_sides([short, long])
    assert compared.common_env_steps == 10_000
    assert only(compared).contrasts[0].difference.value == pytest.approx(0, abs=10)
    assert compared.outcomes[1].last.value == pytest.approx(600, abs=10)
    assert any("20,000 env steps; returns are compared at 10,000" in note for note in compared.notes)


def test_a_run_that_ended_early_keeps_its_last_return() -> None:
    compared = compare_sides([side(*rows(4, 300)), side([100.0], [200.0] * 10, [300.0] * 10)])
    assert compared.outcomes[1].common.value == 200.0


def test_training_returns_are_compared_where_a_side_was_not_evaluated() -> None:
    evaluated = side(*(replace(run(values, more={"train/roll/ep_rew_mean": [0.5 * v for v in values]})) for values in rows(4, 400)))
    compared = compare_sides([evaluated, side(*rows(4, 200), trained=True)])
    assert compared.measure == "training"
    assert only(compared).contrasts[0].difference.value == pytest.approx(0, abs=10)
    assert any("training returns are compared" in note for note in compared.notes)


def test_sides_without_a_common_return_are_not_tested() -> None:
    compared = compare_sides([side(*rows(4, 400)), side(*rows(4, 200), trained=True)])
    assert compared.measure is None
    assert compared.pairs == []
    assert compared.outcomes == []
    assert any("no return in common" in note for note in compared.notes)


def test_two_environments_are_shown_and_not_tested() -> None:
    compared = compare_sides([side(*rows(4, 400)), side(*rows(4, 200), env="Acrobot-v1")])
    assert compared.env is None
    assert compared.pairs == []
    assert len(compared.outcomes) == 2
    assert any("different environments" in note for note in compared.notes)
    assert compared.threshold is None, "nor is one judged by the return that solves the other"
    assert all(outcome.reached is None for outcome in compared.outcomes)


def test_configs_alone_give_the_difference_of_settings() -> None:
    compared = compare_sides([trained_with(), trained_with("algo.n_epochs=10")])
    assert [each.key for each in compared.config.differences] == ["algo.n_epochs"]
    assert compared.outcomes == compared.pairs == compared.curves == []


def test_a_group_against_a_config_says_that_the_config_has_no_runs() -> None:
    compared = compare_sides([side(*rows(3, 400)), trained_with("algo.n_epochs=10")])
    assert any(note.startswith("B: a config without runs") for note in compared.notes)
    assert len(compared.outcomes) == 1


def test_different_thresholds_are_named_and_the_first_is_used() -> None:
    sides = [side(*rows(3, 400)), side(*rows(3, 400), threshold=100.0)]
    compared = compare_sides(sides)
    assert compared.threshold == 475.0
    assert any("different thresholds" in note for note in compared.notes)
    assert compare_sides(sides, threshold=200.0).threshold == 200.0


def test_without_a_threshold_nothing_is_counted_to_it() -> None:
    compared = compare_sides([side(*rows(3, 400), threshold=None), side(*rows(3, 400, seed=4), threshold=None)])
    assert [each.outcome for each in only(compared).contrasts] == ["return"]
    assert compared.outcomes[0].reached is None
    assert compared.outcomes[0].steps is None


def test_a_comparison_needs_two() -> None:
    with pytest.raises(UsageError, match="two sides or more"):
        compare_sides([side(*rows(3, 400))])


# ── several groups ──


def test_several_groups_are_compared_with_the_first_and_holm_counts_them_all() -> None:
    sides = [side(*rows(8, level, seed=place), threshold=None) for place, level in enumerate((300, 303, 306, 500))]
    compared = compare_sides(sides)
    assert [(pair.first, pair.second) for pair in compared.pairs] == [("A", "B"), ("A", "C"), ("A", "D")]
    raw = [pair.contrasts[0].p or 0.0 for pair in compared.pairs]
    assert [pair.contrasts[0].p_holm for pair in compared.pairs] == pytest.approx(stats.holm(raw))


def test_pairwise_compares_every_two() -> None:
    sides = [side(*rows(4, level)) for level in (300, 400, 500)]
    assert [(pair.first, pair.second) for pair in compare_sides(sides, pairwise=True).pairs] == [("A", "B"), ("A", "C"), ("B", "C")]


def test_equal_groups_are_rarely_called_different_even_when_there_are_four() -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        found = []
        for _ in range(4):
            ends = rng.normal(470, 20, 6)
            found.append([outcome(float(end), float(rng.integers(1, 12))) for end in ends])
        judged = pairs.decide([pairs.compare_pair(("A", found[0]), ("B", each), 0.0, 10_000.0) for each in found[1:]])
        wrong += any(pair.verdict in ("better", "worse", "mixed") for pair in judged)
    # At most 5 of 100, and three standard errors.
    assert wrong / 60 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)


def outcome(end: float, reached: float) -> outcomes.Reading:
    at = None if reached > 9 else 1_000.0 * reached
    return outcomes.Reading("run", False, False, np.array([10_000.0]), np.array([end]), 10_000.0, end, end, at, None, None)


# ── broken runs ──


def test_a_run_without_any_return_counts_as_the_lowest_and_is_not_dropped() -> None:
    broken = run([math.nan, math.nan], state="failed")
    healthy = [run(values) for values in rows(3, 400)]
    compared = compare_sides([side(*rows(4, 200)), side(*healthy, broken)])
    assert compared.outcomes[1].runs == 4
    assert compared.outcomes[1].lowest == pytest.approx(min(compared.outcomes[0].lowest or 0.0, 200), abs=20)
    assert any("1 of 4 runs have no return" in note for note in compared.notes)
    assert any("1 of 4 runs failed" in note for note in compared.notes)


def test_nan_between_returns_is_left_out() -> None:
    compared = compare_sides([side([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]), side([1.0, 2.0, math.inf], [1.0, 2.0, 3.0])])
    assert compared.outcomes[0].common.value == 3.0
    assert compared.outcomes[1].common.value == 2.5


def test_a_failed_run_never_arrives_and_a_stopped_one_is_censored_where_it_stands() -> None:
    failed, stopped = run([10.0] * 2, state="failed"), run([10.0] * 2, state="stopped")
    found = outcomes.readings(side(failed, stopped, [500.0] * 10), "evaluation", 10_000.0, 475.0)
    times = outcomes.times(found)
    assert times.steps.tolist() == [10_000.0, 2_000.0, 1_000.0]
    assert times.reached.tolist() == [False, False, True]


def test_runs_that_stop_at_the_threshold_hold_their_return_to_the_end_of_the_budget() -> None:
    settings = {"run.stop_at_threshold": True, "run.max_env_steps": 10_000}
    quick = side([100.0, 500.0], [490.0], [100.0, 480.0], settings=settings)
    compared = compare_sides([quick, side(*rows(3, 400))])
    assert compared.common_env_steps == 10_000
    assert compared.horizon_env_steps == 10_000
    assert compared.outcomes[0].common.value == pytest.approx(490)
    assert compared.outcomes[0].steps is not None
    assert compared.outcomes[0].steps.value == pytest.approx(5_000 / 3)
    assert compared.outcomes[1].steps is not None
    assert compared.outcomes[1].steps.value == 10_000.0
    assert any("stop at the threshold" in note for note in compared.notes)


def test_a_side_that_had_more_steps_gets_no_credit_for_arriving_later() -> None:
    compared = compare_sides([side(*[[1.0] * 5] * 3), side(*[[1.0] * 9 + [500.0]] * 3)])
    assert compared.horizon_env_steps == 5_000
    assert [each.reached for each in compared.outcomes] == [0, 0]


def test_a_threshold_that_was_reached_and_lost_is_told() -> None:
    compared = compare_sides([side([500.0, 100.0], [500.0, 500.0]), side([1.0, 1.0], [1.0, 1.0])])
    assert (compared.outcomes[0].reached, compared.outcomes[0].kept) == (2, 1)
    assert compared.outcomes[0].fall is not None
    assert compared.outcomes[0].fall.value == 200.0


def test_all_censored_and_none_censored_are_both_fine() -> None:
    never, always = [[1.0, 2.0 + seed] for seed in range(4)], [[480.0 + seed, 490.0] for seed in range(4)]
    pair = only(compare_sides([side(*never), side(*always)]))
    steps = pair.contrasts[1]
    assert steps.ratio is not None
    assert steps.ratio.value == pytest.approx(0.5)
    assert pair.reached is not None
    assert pair.reached.value == 1.0


def test_where_nobody_arrived_no_steps_are_compared_and_no_error_is_spent_on_them() -> None:
    low, high = rows(6, 100, seed=1), rows(6, 112, seed=2)
    compared = compare_sides([side(*low), side(*high)])
    steps = only(compared).contrasts[1]
    assert (steps.p, steps.ratio, steps.difference.value, steps.why) == (None, None, None, pairs.NOBODY)
    (said,) = report.verdicts(compared)
    assert "the steps" not in said.text
    assert "no run of either side reached the threshold" in said.text
    alone = compare_sides([side(*low, threshold=None), side(*high, threshold=None)])
    assert only(compared).contrasts[0].p_holm == only(alone).contrasts[0].p_holm  # the only question that was asked
    assert only(compared).detectable == only(alone).detectable


# ── stability, gap, success, clock ──


def test_the_spread_over_seeds_is_tested() -> None:
    calm, wild = rows(8, 300, spread=1, seed=1), rows(8, 300, spread=60, seed=2)
    pair = only(compare_sides([side(*calm), side(*wild)]))
    assert pair.spread is not None
    assert pair.spread.p is not None
    assert pair.spread.p < 0.05
    assert only(compare_sides([side(*calm[:3]), side(*wild[:3])])).spread is None


def test_the_gap_of_evaluation_and_training_is_that_of_the_last_third() -> None:
    each = run([100.0] * 9, more={"train/roll/ep_rew_mean": [0.0] * 6 + [70.0] * 3})
    compared = compare_sides([side(each, each), side(each)])
    assert compared.outcomes[0].gap is not None
    assert compared.outcomes[0].gap.value == pytest.approx(30 + 70 / 4)


def test_the_success_rate_is_the_last_that_was_reported() -> None:
    each = run([1.0, 2.0], more={"val/roll/success_rate": [0.0, 0.75]})
    found = compare_sides([side(each, each), side(each)]).outcomes
    assert found[0].success is not None
    assert found[0].success.value == 0.75


def test_wall_time_comes_from_the_phases_of_our_runs() -> None:
    each = run([100.0, 500.0], more={"time/env": [1.0, 2.0], "time/learn": [3.0, 4.0], "time/fps": [250.0, 166.0]})
    clock = outcomes.wall_clock(each)
    assert clock is not None
    assert clock.values.tolist() == [4.0, 10.0]
    found = compare_sides([side(each, each), side(each, each)]).outcomes[0]
    assert found.wall is not None
    assert found.wall.value == 10.0
    assert found.split == {"learn": 0.7, "env": 0.3}
    assert found.seconds_per_100k == pytest.approx(500)
    assert found.fps == pytest.approx(208)


def test_wall_time_of_others_comes_from_their_steps_per_second() -> None:
    clock = outcomes.wall_clock(run([1.0, 2.0], source="sb3", more={"time/fps": [500.0, 400.0]}))
    assert clock is not None
    assert clock.values.tolist() == [2.0, 5.0]
    assert outcomes.wall_clock(run([1.0], source="sb3")) is None
    assert outcomes.wall_clock(run([1.0], source="sb3", more={"time/fps": [0.0]})) is None


# ── curves ──


def test_curves_are_on_env_steps_and_on_wall_time_with_bands() -> None:
    timed = [run(values, more={"time/env": [2.0] * 10}) for values in rows(4, 300)]
    compared = compare_sides([side(*timed), side(*rows(4, 400))])
    assert [(band.label, band.axis) for band in compared.curves] == [("A", "env steps"), ("B", "env steps"), ("A", "wall seconds")]
    steps, _, wall = compared.curves
    assert steps.x == [1_000.0 * place for place in range(1, 11)]
    assert wall.x == [2.0 * place for place in range(1, 11)]
    assert all(low <= centre <= high for low, centre, high in zip(steps.low, steps.center, steps.high, strict=True))


def test_a_curve_begins_where_all_runs_have_a_return_and_ends_with_the_longest() -> None:
    late = run([math.nan, math.nan, 30.0, 40.0])
    band = compare_sides([side(late, [10.0, 20.0, 30.0]), side([1.0])]).curves[0]
    assert band.x == [3_000.0, 4_000.0]
    assert band.center == [30.0, 35.0]


def test_one_runs_curve_has_no_width() -> None:
    band = compare_sides([side([1.0, 2.0]), side([3.0, 4.0])]).curves[0]
    assert band.low == band.center == band.high == [1.0, 2.0]


# ── properties ──

returns = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=4)
groups = st.lists(returns, min_size=1, max_size=4)


@settings(max_examples=25)
@given(a=groups, b=groups, threshold=st.one_of(st.none(), st.floats(-1e4, 1e4)))
def test_whatever_the_returns_a_comparison_comes_out_and_mirrors(
    a: list[list[float]], b: list[list[float]], threshold: float | None
) -> None:
    sides = [side(*group, threshold=threshold) for group in (a, b)]
    there, back = only(compare_sides(sides)), only(compare_sides(sides[::-1]))
    mirrored = {"better": "worse", "worse": "better"}
    assert back.verdict == mirrored.get(there.verdict, there.verdict)
    ours, theirs = there.contrasts[0], back.contrasts[0]
    assert (ours.p is None) == (min(len(a), len(b)) < 2)
    assert ours.p == (None if theirs.p is None else pytest.approx(theirs.p))
    assert ours.difference.value == pytest.approx(-(theirs.difference.value or 0.0), abs=1e-9)


def test_the_same_comparison_is_the_same_bytes() -> None:
    def made() -> str:
        return compare_sides([side(*rows(5, 300)), side(*rows(5, 400, seed=3))]).model_dump_json()

    assert made() == made()


def test_a_side_says_what_it_is() -> None:
    found = compare_sides([side(*rows(2, 300), name="g7k2"), side(run([1.0], state="failed"), name="g9")]).sides
    assert (found[0].label, found[0].name, found[0].runs, found[0].states) == ("A", "g7k2", 2, {"finished": 2})
    assert found[1].states == {"failed": 1}
    assert isinstance(side([1.0]), Side)
