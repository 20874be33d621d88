import math

import numpy as np
import pytest

from rlclinic import stats
from rlclinic.comparison import power, regression
from rlclinic.comparison.regression import Baseline, SeedResult
from rlclinic.comparison.sides import Side
from rlclinic.errors import UsageError
from tests.comparison import builders
from tests.comparison.builders import rows, run, side


def kept(
    steps: list[float | None] | None = None,
    *,
    returns: list[float | None] | None = None,
    success: list[float] | None = None,
    seconds: list[float | None] | None = None,
    threshold: float | None = 475.0,
    horizon: float = 100_000.0,
) -> Baseline:
    """A baseline of outcomes written by hand."""
    count = len(steps or returns or success or seconds or [])

    def at(values: list[float | None] | list[float] | None, place: int) -> float | None:
        return None if values is None else values[place]

    seeds = [
        SeedResult(
            run=f"r{place}",
            final=at(returns, place),
            reached=at(steps, place),
            followed=horizon,
            seconds=at(seconds, place),
            success=at(success, place),
            failed=False,
        )
        for place in range(count)
    ]
    return Baseline(
        name="base",
        env="CartPole-v1",
        algo="ppo",
        measure="evaluation",
        threshold=threshold,
        env_steps=horizon,
        fingerprint="abc",
        settings={},
        versions={},
        seeds=seeds,
    )


def spread_out(centre: float, n: int, seed: int = 0, width: float = 0.15) -> list[float | None]:
    rng = np.random.default_rng(seed)
    return [float(centre * math.exp(width * rng.normal())) for _ in range(n)]


def decide(before: Baseline, after: Baseline, outcome: regression.GateOutcome = "steps", margin: float = 0.1) -> regression.Look:
    rule = regression.gate(before, outcome, margin, 0.05, 1, len(after.seeds))
    return regression.judge(before, after, rule, 1)


# ── decisions ──


def test_a_candidate_that_needs_twice_the_steps_is_a_regression() -> None:
    look = decide(kept(spread_out(30_000, 8)), kept(spread_out(60_000, 8, 1)))
    assert look.decision == "regression"
    assert look.alarm is not None
    assert look.alarm > look.bound == pytest.approx(1.645, abs=0.001)
    assert look.effect.value == pytest.approx(2.0, rel=0.2)


def test_the_same_speed_passes_once_there_are_enough_seeds() -> None:
    assert decide(kept(spread_out(30_000, 64)), kept(spread_out(30_000, 64, 1))).decision == "passed"
    few = decide(kept(spread_out(30_000, 6)), kept(spread_out(30_000, 6, 1)))
    assert few.decision == "undecided"


def test_a_faster_candidate_passes() -> None:
    assert decide(kept(spread_out(30_000, 8)), kept(spread_out(15_000, 8, 1))).decision == "passed"


def test_worse_and_within_the_margin_is_no_pass() -> None:
    look = decide(kept(spread_out(30_000, 200, width=0.05)), kept(spread_out(31_500, 200, 1, width=0.05)), margin=0.3)
    assert look.alarm is not None
    assert look.passing is not None
    assert min(look.alarm, look.passing) > look.bound
    assert look.decision == "undecided"


def test_a_loss_that_is_shown_is_a_regression_where_nobody_gave_a_margin() -> None:
    before, after = kept(spread_out(30_000, 200, width=0.05)), kept(spread_out(31_500, 200, 1, width=0.05))
    rule = regression.gate(before, "steps", None, 0.05, 1, 200)
    assert not rule.tolerates
    assert rule.margin == pytest.approx(0.43, abs=0.01)
    assert regression.judge(before, after, rule, 1).decision == "regression"


def test_a_candidate_whose_seeds_collapse_does_not_pass() -> None:
    before, good = kept(returns=[500.0] * 16), [500.0] * 14
    for collapsed in (1, 2):
        look = decide(before, kept(returns=[10.0] * collapsed + [500.0] * (8 - collapsed)), "return")
        # The middle of the seeds is as good as ever: ranks alone would pass it.
        assert look.passing is not None
        assert look.passing > look.bound
        assert look.failed == (0, collapsed)
        assert look.decision != "passed"
    assert decide(before, kept(returns=[10.0, 10.0, *good]), "return").decision != "passed"
    assert decide(before, kept(returns=[10.0] * 8 + [500.0] * 8), "return").decision == "regression"


def test_what_so_few_seeds_cannot_exclude_stands_beside_a_pass() -> None:
    look = decide(kept(returns=[500.0] * 16), kept(returns=[500.0] * 8), "return")
    assert look.decision == "passed"
    assert look.failed == (0, 0)
    assert look.could_fail == pytest.approx(1 - 0.05 ** (1 / 8))


def test_a_candidate_that_comes_in_batches_does_not_pass_before_sixteen_seeds() -> None:
    before = kept(returns=[500.0] * 16)
    rule = regression.gate(before, "return", 0.1, 0.05, 4, 8)
    assert regression.judge(before, kept(returns=[500.0] * 8), rule, 1).decision == "undecided"
    assert regression.judge(before, kept(returns=[500.0] * 16), rule, 2).decision == "passed"


def test_runs_that_arrive_and_collapse_afterwards_have_failed() -> None:
    ends: list[float | None] = [480.0 + seed for seed in range(16)]
    before = kept(spread_out(30_000, 16), returns=ends)
    after = kept(spread_out(10_000, 8, 1), returns=[12.0, 30.0, *ends[:6]])
    look = decide(before, after)
    assert look.failed == (0, 2)
    assert look.decision != "passed"
    assert decide(before, kept(spread_out(10_000, 8, 1), returns=ends[:8])).decision == "passed"


def test_more_failures_than_luck_explains_are_a_regression_whatever_the_rest_does() -> None:
    # Three quarters of the seeds are much faster, so that ranks lean to neither side.
    after: list[float | None] = [*spread_out(15_000, 24, 1), *[None] * 16]
    look = decide(kept(spread_out(30_000, 32)), kept(after))
    assert look.alarm is not None
    assert look.alarm < look.bound
    assert look.decision == "regression"


def test_a_baseline_with_a_collapsed_run_of_its_own_still_tells_who_collapsed() -> None:
    before = kept(returns=[10.0] + [480.0 + seed for seed in range(15)])
    assert decide(before, kept(returns=[10.0] * 4 + [480.0 + seed for seed in range(12)]), "return").failed == (1, 4)


def test_runs_that_never_arrive_count_as_slow() -> None:
    half: list[float | None] = [None] * 4
    assert decide(kept(spread_out(30_000, 8)), kept(spread_out(30_000, 4, 1) + half)).decision == "undecided"
    assert decide(kept(spread_out(30_000, 8)), kept([None] * 8)).decision == "regression"


def test_returns_are_judged_against_the_size_of_the_baselines() -> None:
    good: list[float | None] = [480.0, 485.0, 490.0, 495.0, 500.0, 482.0, 488.0, 493.0]
    assert decide(kept(returns=good), kept(returns=good), "return").decision == "passed"
    worse: list[float | None] = [300.0 + place for place in range(8)]
    assert decide(kept(returns=good), kept(returns=worse), "return").decision == "regression"


def test_negative_returns_have_a_margin_too() -> None:
    good: list[float | None] = [-150.0 - place for place in range(8)]
    assert decide(kept(returns=good), kept(returns=good), "return").decision == "passed"
    assert decide(kept(returns=good), kept(returns=[-400.0 - place for place in range(8)]), "return").decision == "regression"


def test_a_run_without_a_return_is_worse_than_any() -> None:
    good: list[float | None] = [480.0 + place for place in range(8)]
    assert decide(kept(returns=good), kept(returns=[None] * 8), "return").decision == "regression"


@pytest.mark.parametrize("value", [500.0, 0.0, -1.0])
def test_returns_without_any_spread_are_handled(value: float) -> None:
    assert decide(kept(returns=[value] * 8), kept(returns=[value] * 8), "return").decision == "passed"
    assert decide(kept(returns=[value] * 6), kept(returns=[value - 1_000] * 6), "return").decision == "regression"


@pytest.mark.parametrize(("seeds", "decision"), [(3, "undecided"), (7, "undecided"), (8, "passed")])
def test_fewer_than_eight_seeds_never_pass(seeds: int, decision: str) -> None:
    # A candidate that collapses in a quarter of its runs shows none of it in 13 % of cases with 7 seeds, in 42 % with 3.
    assert decide(kept(returns=[500.0] * 16), kept(returns=[500.0] * seeds), "return").decision == decision


def test_success_of_whole_runs_is_judged_by_shares() -> None:
    all_of_them, none = [1.0] * 12, [0.0] * 12
    assert decide(kept(success=all_of_them), kept(success=none), "success").decision == "regression"
    # Twelve of twelve twice cannot exclude a loss of 10 points, which ranks of shifted values would claim.
    look = decide(kept(success=all_of_them), kept(success=all_of_them), "success")
    assert look.decision == "undecided"
    assert look.alarm is None
    assert decide(kept(success=[1.0] * 60), kept(success=[1.0] * 60), "success").decision == "passed"


def test_success_rates_between_0_and_1_are_judged_by_ranks() -> None:
    high, low = [0.9, 0.95, 0.85, 0.92, 0.88, 0.97], [0.5, 0.45, 0.6, 0.4, 0.55, 0.52]
    assert decide(kept(success=high), kept(success=low), "success").decision == "regression"


def test_seconds_are_judged_like_steps() -> None:
    assert decide(kept(seconds=spread_out(30, 8)), kept(seconds=spread_out(90, 8, 1)), "wall").decision == "regression"


def test_one_seed_decides_nothing() -> None:
    look = decide(kept(spread_out(30_000, 8)), kept([90_000.0]))
    assert look.decision == "undecided"
    assert look.alarm is None
    assert look.effect.value is not None


# ── rules that make no sense ──


def test_steps_need_a_threshold() -> None:
    with pytest.raises(UsageError, match="has no threshold"):
        regression.gate(kept([1.0, 2.0], threshold=None), "steps", 0.1, 0.05, 1, 8)


def test_a_baseline_that_never_arrives_has_no_steps_to_lose() -> None:
    with pytest.raises(UsageError, match="--outcome return"):
        regression.gate(kept([None, None]), "steps", 0.1, 0.05, 1, 8)


@pytest.mark.parametrize(("margin", "alpha"), [(0.0, 0.05), (0.1, 0.0), (0.1, 0.7), (float("nan"), 0.05)])
def test_margins_and_error_rates_must_be_possible(margin: float, alpha: float) -> None:
    with pytest.raises(UsageError, match="margin"):
        regression.gate(kept([1.0, 2.0]), "steps", margin, alpha, 1, 8)


def test_the_usual_outcome_is_steps_where_most_seeds_arrive() -> None:
    assert regression.choose_outcome(kept([1.0, 2.0, None])) == "steps"
    assert regression.choose_outcome(kept([1.0, None, None])) == "return"
    assert regression.choose_outcome(kept([1.0, 2.0], threshold=None)) == "return"


# ── error rates ──


def outcomes_of(n: int, loss: float, rng: np.random.Generator, cases: int) -> np.ndarray:
    """Steps to the threshold, on a grid of evaluations, some of them never."""
    steps = np.ceil(30_000 * (1 + loss) * rng.lognormal(0, 0.5, (cases, n)) / 2_000) * 2_000
    return np.where(steps > 100_000, math.inf, steps)


def rates(looks: int, per_look: int, loss: float, n: int = 16, cases: int = 2_000) -> tuple[float, float]:
    """How often a gate alarms and passes: a fresh baseline and a fresh candidate in every case."""
    rng = np.random.default_rng(looks)
    before, after = outcomes_of(n, 0.0, rng, cases), outcomes_of(looks * per_look, loss, rng, cases)
    rule = regression.gate(kept([10_000.0] * n), "steps", 0.1, 0.05, looks, per_look)
    alarmed, passed = np.zeros(cases, dtype=bool), np.zeros(cases, dtype=bool)
    for look in range(1, looks + 1):
        alarm, passing = regression.scores(before, after[:, : look * per_look], rule, 100_000.0)
        still = ~(alarmed | passed)
        passed |= still & (passing > rule.bounds[look - 1])
        alarmed |= still & (alarm > rule.bounds[look - 1]) & ~passed
    return float(alarmed.mean()), float(passed.mean())


@pytest.mark.parametrize(("looks", "per_look"), [(1, 3), (1, 8), (4, 4), (4, 8)])
def test_an_unchanged_candidate_is_alarmed_about_in_at_most_five_of_a_hundred_cases(looks: int, per_look: int) -> None:
    assert rates(looks, per_look, 0.0)[0] <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 2_000)


@pytest.mark.parametrize(("looks", "per_look"), [(1, 8), (4, 8)])
def test_a_candidate_that_lost_the_margin_passes_in_at_most_five_of_a_hundred_cases(looks: int, per_look: int) -> None:
    assert rates(looks, per_look, 0.1)[1] <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 2_000)


def test_the_bound_of_a_single_test_at_every_look_would_alarm_too_often() -> None:
    rng = np.random.default_rng(4)
    before, after = outcomes_of(64, 0.0, rng, 2_000), outcomes_of(32, 0.0, rng, 2_000)
    naive = [stats.rank_z(after[:, : 8 * look], before) > 1.645 for look in range(1, 5)]
    assert np.any(naive, axis=0).mean() > 0.08


def test_a_large_loss_is_seen() -> None:
    assert rates(4, 8, 0.8)[0] > 0.9


# ── power, and what it would take ──


def test_simulated_power_rises_with_the_loss_and_keeps_the_promise_without_one() -> None:
    before = kept(spread_out(30_000, 16, width=0.3))
    rule = regression.gate(before, "steps", 0.1, 0.05, 4, 8)
    found = {each.loss: each for each in power.simulate(before, rule, cases=800)}
    assert found[0.5].alarm > found[0.3].alarm > found[0.1].alarm > found[0.0].alarm
    assert found[0.0].alarm <= 0.07
    assert found[0.5].alarm > 0.8
    assert found[0.0].passed > found[0.3].passed
    assert 8 <= found[0.5].seeds < 32
    assert power.simulate(before, rule, cases=800) == power.simulate(before, rule, cases=800)


def test_the_simulation_stops_at_the_first_decision_of_each_case() -> None:
    before = kept(spread_out(30_000, 8, width=0.3))
    rule = regression.gate(before, "steps", 0.1, 0.05, 3, 4)
    (found,) = power.simulate(before, rule, (0.2,), cases=150, seed=3)
    # Slow reference: case by case, look by look, with the same draws.
    data, rng = regression.values(before, "steps", 100_000.0), np.random.default_rng(3)
    ours = data[rng.integers(8, size=(150, 8))]
    theirs = (1.2 * data)[rng.integers(8, size=(150, 12))]
    ends, seeds = [], []
    for case in range(150):
        end, used = "undecided", 12
        for look in (1, 2, 3):
            alarm, passing = regression.scores(ours[case], theirs[case, : 4 * look], rule, 100_000.0)
            if passing[0] > rule.bounds[look - 1] or alarm[0] > rule.bounds[look - 1]:
                end, used = ("passed" if passing[0] > rule.bounds[look - 1] else "regression"), 4 * look
                break
        ends.append(end)
        seeds.append(used)
    assert found.alarm == pytest.approx(ends.count("regression") / 150)
    assert found.passed == pytest.approx(ends.count("passed") / 150)
    assert found.seeds == pytest.approx(np.mean(seeds))
    assert min(seeds) < 12


def test_a_loss_that_leads_past_the_horizon_means_never() -> None:
    data = np.array([50.0, 95.0, math.inf])
    assert regression.worsen(data, "steps", 0.1, 1.0, 100.0).tolist() == pytest.approx([55.0, math.inf, math.inf])
    assert regression.worsen(data, "wall", 0.1, 1.0, 100.0).tolist() == pytest.approx([55.0, 104.5, math.inf])
    assert regression.worsen(np.array([-500.0]), "return", 0.1, 500.0, 100.0).tolist() == [-450.0]


def test_simulated_power_of_successes_is_that_of_shares() -> None:
    before = kept(success=[1.0] * 20)
    rule = regression.gate(before, "success", 0.1, 0.05, 1, 20)
    found = {each.loss: each.alarm for each in power.simulate(before, rule, cases=300)}
    assert found[0.5] > 0.9
    assert found[0.0] == 0.0


def test_one_seed_has_no_power_to_simulate() -> None:
    before = kept([1.0])
    assert power.simulate(before, regression.gate(before, "steps", 0.1, 0.05, 1, 8)) == []


def test_an_undecided_end_says_how_many_seeds_would_settle_it() -> None:
    before, after = kept(spread_out(30_000, 12, width=0.3)), kept(spread_out(30_000, 12, 2, width=0.3))
    rule = regression.gate(before, "steps", 0.1, 0.05, 1, 12)
    look = regression.judge(before, after, rule, 1)
    assert look.decision == "undecided"
    needed = power.seeds_needed(before, rule, look)
    assert needed is not None
    assert needed[0] > 12


def test_seeds_that_lean_to_neither_side_promise_nothing() -> None:
    before = kept(spread_out(30_000, 8))
    rule = regression.gate(before, "steps", 0.1, 0.05, 1, 8)
    look = regression.judge(before, before, rule, 1).model_copy(update={"alarm": 0.0, "passing": -1.0})
    assert power.seeds_needed(before, rule, look) is None


# ── baselines from runs ──


def test_a_baseline_keeps_what_each_seed_came_to() -> None:
    timed = {"time/env": [1.0] * 10, "val/roll/success_rate": [0.0] * 5 + [1.0] * 4 + [0.8]}
    group = side(run([100.0 * step for step in range(10)], more=timed), run([0.0] * 10, state="failed"), name="g7k2")
    found = regression.baseline_of(group, {"rlclinic": "1"})
    assert (found.name, found.threshold, found.env_steps) == ("g7k2", 475.0, 10_000.0)
    first, second = found.seeds
    assert (first.reached, first.final, first.seconds, first.success) == (6_000.0, 900.0, 6.0, 0.8)
    assert (second.reached, second.failed) == (None, True)
    assert Baseline.model_validate_json(found.model_dump_json()) == found


def test_a_group_without_returns_is_no_baseline() -> None:
    with pytest.raises(UsageError, match="no returns yet"):
        regression.baseline_of(Side("g7k2", "group", {}, True, (run([]),)), {})


def test_the_fingerprint_is_of_the_settings_and_not_of_seed_name_or_machine() -> None:
    first = builders.dotted(builders.config())
    assert regression.fingerprint(first) == regression.fingerprint({**first, "seed": 9, "name": "other", "run.threads": 8})
    assert regression.fingerprint(first) != regression.fingerprint({**first, "algo.gamma": 0.5})


def test_a_baseline_stays_small() -> None:
    group = side(*rows(32, 480), name="g7k2")
    assert len(regression.baseline_of(group, {}).model_dump_json(indent=1)) < 16_000
