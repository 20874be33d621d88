"""One outcome of a run and one verdict on a group: by hand, against a slow reference, and simulated."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.runs import outcome
from rlclinic.runs.goal import Goal
from rlclinic.runs.history import History, Series, make_series
from rlclinic.runs.outcome import Outcome

NAN, INF = math.nan, math.inf


def measured(
    pairs: Sequence[tuple[float, float]], threshold: float | None = 475.0, rates: Sequence[float] | None = None, **more: object
) -> Outcome:
    steps, returns = zip(*pairs, strict=True) if pairs else ((), ())
    goal = Goal(threshold, **more)  # type: ignore[arg-type]
    known = None if rates is None else np.array(rates, dtype=float)
    return outcome.measure(np.array(steps, dtype=float), np.array(returns, dtype=float), goal, rates=known)


def ended(*returns: float, threshold: float | None = 475.0, **more: object) -> Outcome:
    """A run with an evaluation every 1,000 env steps."""
    return measured([(1_000.0 * place, value) for place, value in enumerate(returns, 1)], threshold, **more)  # type: ignore[arg-type]


def history(
    evaluations: Sequence[float] = (),
    training: Sequence[float] = (),
    source: str = "rlclinic",
    rates: Sequence[float] = (),
    spreads: Sequence[float] = (),
    **more: object,
) -> History:
    columns = (
        (EVAL_RETURN, evaluations),
        (TRAIN_RETURN, training),
        ("val/roll/success_rate", rates),
        ("val/roll/ep_rew_std", spreads),
    )
    made = {name: make_series(1_000.0 * (1 + np.arange(len(values))), values, name) for name, values in columns if len(values)}
    series: dict[str, Series] = {name: each for name, each in made.items() if each is not None}
    return History("run", source, series=series, **{"threshold": 475.0, "state": "finished", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pairs", "reached", "best_at", "last", "lost"),
    [
        ([(1_000, 100.0), (2_000, 475.0), (3_000, 480.0)], 2_000, 3_000, 480.0, False),
        ([(1_000, 474.999), (2_000, 474.0)], None, 1_000, 474.0, False),
        ([(0, 475.0), (1_000, 9.0)], 0, 0, 9.0, True),
        ([(1_000, 480.0), (2_000, 480.0)], 1_000, 1_000, 480.0, False),
        ([(1_000, NAN), (2_000, 480.0), (3_000, NAN)], 2_000, 2_000, 480.0, False),
        ([(1_000, INF), (2_000, -INF), (3_000, 10.0)], None, 3_000, 10.0, False),
        ([(3_000, 500.0), (1_000, 480.0), (2_000, 9.0)], 1_000, 3_000, 500.0, False),
        ([(1_000, 9.0), (1_000, 480.0), (2_000, 9.0), (2_000, 8.0)], 1_000, 1_000, 8.0, True),
        ([], None, None, None, False),
        ([(NAN, 500.0)], None, None, None, False),
    ],
    ids=[
        "the first at or above it", "never", "at step 0", "of equal ones the first", "NaN passes nothing", "infinity passes nothing",
        "written out of order", "twice at one step", "no return", "no step",
    ],
)  # fmt: skip
def test_a_run_reaches_the_threshold_at_its_first_finite_return_at_or_above_it(
    pairs: list[tuple[float, float]], reached: float | None, best_at: float | None, last: float | None, lost: bool
) -> None:
    found = measured(pairs)
    assert (found.reached_at, found.best_at, found.last, found.lost) == (reached, best_at, last, lost)


numbers = st.one_of(st.floats(-10, 10), st.sampled_from([NAN, INF, -INF, 5.0]))
shares = st.one_of(st.floats(0, 1), st.sampled_from([NAN, 0.0, 0.9, 1.0]))


@given(
    st.lists(st.tuples(st.integers(0, 6).map(float), numbers, shares), max_size=12),
    st.sampled_from([None, 5.0, -3.0]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
)
def test_the_outcome_equals_a_slow_reference(
    rows: list[tuple[float, float, float]], threshold: float | None, success: float | None
) -> None:
    known = sorted((row for row in rows if math.isfinite(row[1])), key=lambda row: row[0])
    reported = any(not math.isnan(rate) for _, _, rate in known)
    required = success if success is not None else 0.9 if reported else 0.0
    passed = [
        (threshold is not None or required > 0) and (threshold is None or value >= threshold) and (required == 0 or rate >= required)
        for _, value, rate in known
    ]
    found = measured([row[:2] for row in rows], threshold, [row[2] for row in rows], success=success)
    assert found.reached_at == (known[passed.index(True)][0] if any(passed) else None)
    assert found.last == (known[-1][1] if known else None)
    assert found.best == (max(value for _, value, _ in known) if known else None)
    assert list(zip(found.steps.tolist(), found.returns.tolist(), strict=True)) == [row[:2] for row in known]
    assert not found.lost or (any(passed) and not passed[-1])
    assert outcome.arrived(found) == (any(passed) and not found.lost)


# ── lost ──


@pytest.mark.parametrize(
    ("returns", "lost"),
    [
        ((20.0, 480.0), False),
        ((480.0,), False),
        ((20.0, 480.0, 231.0), True),
        ((20.0, 480.0, 500.0, 231.0), True),
        ((20.0, 480.0, 500.0, 20.0, 20.0, 20.0), True),
        ((20.0, 480.0, 20.0, 20.0, 500.0), False),
        ((20.0, 480.0, 470.0, 471.0, 472.0), False),
        ((20.0, 480.0, 430.0, 430.0, 430.0), False),
        ((20.0, 480.0, 429.0, 429.0, 429.0), True),
        ((20.0, 480.0, *[500.0] * 97, 231.0), True),
        ((20.0, 480.0, *[500.0] * 97, 320.0), False),
        ((20.0, *[480.0, 300.0] * 10, 480.0), False),
        ((480.0, 476.0, 470.0, 474.0, 471.0), False),
        ((480.0, 200.0, 200.0), True),
        ((20.0, 30.0), False),
        ((20.0, 480.0, NAN, 231.0), True),
        ((20.0, 480.0, 231.0, NAN), True),
        ((20.0, 480.0, 500.0, NAN, INF), False),
    ],
    ids=[
        "reached at the end", "one evaluation", "reached and gone", "only the last one saw it", "long gone", "came back", "just below",
        "a tenth of the way below", "more than a tenth", "a late collapse", "a late dip", "unsteady, but good at the end",
        "passed at once and stays near", "passed at once and lost", "never reached", "NaN between", "NaN at the end",
        "NaN and infinity at the end",
    ],
)  # fmt: skip
def test_a_run_is_lost_if_it_reached_the_threshold_and_ended_clearly_below(returns: tuple[float, ...], lost: bool) -> None:
    assert ended(*returns).lost is lost
    assert outcome.arrived(ended(*returns)) is (any(value >= 475 for value in returns if value < INF) and not lost)


@pytest.mark.parametrize("shift", [-475.0, -10_000.0, 3.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_neither_the_scale_nor_the_zero_of_the_return_decides_what_is_lost(scale: float, shift: float) -> None:
    for last, lost in ((231.0, True), (470.0, False)):
        returns = [scale * (value + shift) for value in (20.0, 480.0, last, last)]
        assert ended(*returns, threshold=scale * (475.0 + shift)).lost is lost


def test_a_wide_spread_over_few_episodes_explains_a_shortfall() -> None:
    returns = (20.0, 480.0, 400.0, 400.0, 400.0)
    wide, narrow = ([spread] * 5 for spread in (200.0, 20.0))
    for spreads, episodes, lost in ((wide, 10, False), (wide, 200, True), (narrow, 10, True), ((), 10, True)):
        found = history(returns, spreads=spreads, settings={"run.eval_episodes": episodes})
        assert outcome.measure_history(found).lost is lost


def test_training_returns_of_another_framework_are_lost_by_their_last_tenth() -> None:
    rising = [min(500.0, 10.0 * row) for row in range(200)]
    dip, collapse = [*rising[:-5], *[100.0] * 5], [*rising[:-20], *[100.0] * 20]
    assert [outcome.measure_history(history(training=each, source="sb3")).lost for each in (rising, dip, collapse)] == [False, True, True]
    short_dip = [*rising[:-2], 100.0, 100.0]
    assert not outcome.measure_history(history(training=short_dip, source="sb3")).lost


SIMULATED = 2_000
EVALUATIONS, EPISODES, SPREAD, THRESHOLD, START = 20, 20, 80.0, 475.0, 20.0


def share_lost(level: float, wandering: float = 0.0, collapse: int | None = None) -> float:
    """The share of simulated runs that are called lost, of those that reached the threshold."""
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(SIMULATED):
        truth = np.concatenate([np.linspace(START, level, 5), np.full(EVALUATIONS - 5, level)]) + rng.normal(0, wandering, EVALUATIONS)
        if collapse is not None:
            truth[-collapse:] = (START + level) / 2
        returns = truth + rng.normal(0, SPREAD / math.sqrt(EPISODES), EVALUATIONS)
        spreads = SPREAD * np.sqrt(rng.chisquare(EPISODES - 1, EVALUATIONS) / EPISODES)
        found = outcome.measure(np.arange(EVALUATIONS) * 1_000.0, returns, Goal(THRESHOLD, eval_episodes=EPISODES), spreads=spreads)
        if found.reached_at is not None:
            verdicts.append(found.lost)
    assert len(verdicts) > 0.9 * SIMULATED
    return float(np.mean(verdicts))


@pytest.mark.parametrize(
    ("level", "wandering", "most"),
    [(475.0, 0.0, 0.001), (480.0, 0.0, 0.001), (475.0, 25.0, 0.012), (475.0, 50.0, 0.075), (485.0, 50.0, 0.035)],
)
def test_noise_at_the_threshold_is_not_called_lost(level: float, wandering: float, most: float) -> None:
    assert share_lost(level, wandering) <= most


@pytest.mark.parametrize(("collapse", "least"), [(1, 0.92), (2, 0.999), (3, 0.999), (10, 0.999)])
def test_a_fall_to_half_is_called_lost(collapse: int, least: float) -> None:
    assert share_lost(490.0, 10.0, collapse) >= least


# ── success ──


@pytest.mark.parametrize(
    ("threshold", "required", "returns", "rates", "reached", "lost"),
    [
        (None, None, (1.0, 2.0, 3.0), (0.0, 0.9, 1.0), 2_000, False),
        (None, None, (1.0, 2.0, 3.0), (0.0, 0.8, 0.89), None, False),
        (None, 0.5, (1.0, 2.0, 3.0), (0.0, 0.5, 0.4), 2_000, False),
        (475.0, None, (480.0, 490.0, 500.0), (0.0, 0.0, 0.0), None, False),
        (475.0, None, (480.0, 490.0, 500.0), (0.0, 0.95, 1.0), 2_000, False),
        (475.0, None, (100.0, 490.0, 500.0), (1.0, 1.0, 1.0), 2_000, False),
        (475.0, 0.0, (480.0, 490.0, 500.0), (0.0, 0.0, 0.0), 1_000, False),
        (475.0, 0.5, (480.0, 490.0, 500.0), (NAN, NAN, NAN), None, False),
        (475.0, None, (480.0, 490.0, 500.0), (NAN, NAN, NAN), 1_000, False),
        (475.0, None, (480.0, 490.0, 500.0), (NAN, 1.0, NAN), 2_000, True),
        (None, None, (1.0, 1.0, 1.0, 1.0), (1.0, 0.0, 0.0, 0.0), 1_000, True),
        (475.0, None, (20.0, 500.0, 500.0, 500.0, 500.0), (0.0, 1.0, 0.1, 0.2, 0.1), 2_000, True),
        (None, None, (1.0, 1.0, 1.0, 1.0), (1.0, 0.85, 0.85, 0.85), 1_000, False),
    ],
    ids=[
        "success alone", "nearly", "a share of its own", "a farmed reward", "both, later than the return", "both, later than success",
        "not required", "required and never reported", "neither required nor reported", "silent evaluations pass nothing", "lost success",
        "lost success while the return stays", "a little below",
    ],
)  # fmt: skip
def test_success_is_required_where_the_environment_reports_it(
    threshold: float | None,
    required: float | None,
    returns: tuple[float, ...],
    rates: tuple[float, ...],
    reached: float | None,
    lost: bool,
) -> None:
    found = ended(*returns, threshold=threshold, rates=rates, success=required, eval_episodes=20)
    assert (found.reached_at, found.lost) == (reached, lost)


def test_success_rates_come_with_their_episodes_and_wilsons_interval() -> None:
    found = ended(1.0, 2.0, 3.0, 4.0, threshold=None, rates=(0.0, 0.8, 1.0, 0.9), eval_episodes=10)
    assert found.last_success is not None
    assert found.recent_success is not None
    assert (found.last_success.successes, found.last_success.episodes, found.last_success.rate) == (9, 10, 0.9)
    assert found.last_success.low == pytest.approx(0.596, abs=1e-3)
    assert found.last_success.high == pytest.approx(0.982, abs=1e-3)
    assert (found.recent_success.successes, found.recent_success.episodes) == (27, 30)


def test_a_rate_of_unknown_episodes_has_no_interval() -> None:
    found = ended(1.0, 2.0, threshold=None, rates=(0.5, 0.75)).recent_success
    assert found is not None
    assert (found.rate, found.successes, found.episodes, found.low) == (0.625, None, None, None)


def test_a_run_that_reports_no_success_has_none() -> None:
    found = ended(480.0, 490.0)
    assert (found.last_success, found.recent_success, found.required_success) == (None, None, None)


def test_a_farmed_reward_is_not_solved_where_success_is_reported() -> None:
    found = outcome.measure_group([history([480.0, 500.0], rates=[0.0, 0.0])] * 2, Goal(475.0))
    assert outcome.decide_verdict(found, ["finished"] * 2) == "NOT SOLVED"


@pytest.mark.parametrize(("rates", "verdict"), [((0.0, 1.0), "SOLVED"), ((0.0, 0.5), "NOT SOLVED"), ((), "NO THRESHOLD")])
def test_success_is_a_goal_where_there_is_no_threshold(rates: tuple[float, ...], verdict: str) -> None:
    found = outcome.measure_group([history([1.0, 2.0], rates=rates, threshold=None)], Goal())
    assert outcome.decide_verdict(found, ["finished"]) == verdict


# ── groups ──


def test_a_group_is_judged_by_evaluations_as_soon_as_one_run_has_any() -> None:
    evaluated, not_evaluated = history([480.0], training=[9.0]), history(training=[490.0])
    found = outcome.measure_group([evaluated, not_evaluated], Goal(475.0))
    assert [(each.source, each.reached_at) for each in found] == [("evaluation", 1_000.0), ("evaluation", None)]
    assert outcome.decide_verdict(found, ["finished", "failed"]) == "PARTLY SOLVED"


def test_an_evaluation_that_came_to_nan_was_made_and_passed_nothing() -> None:
    found = outcome.measure_group([history([NAN], training=[490.0])], Goal(475.0))
    assert found[0].source == "evaluation"
    assert outcome.decide_verdict(found, ["finished"]) == "NOT SOLVED"


@pytest.mark.parametrize(("framework", "verdict"), [("rlclinic", "NOT EVALUATED"), ("sb3", "SOLVED"), ("cleanrl", "SOLVED")])
def test_training_returns_count_only_where_another_framework_wrote_nothing_else(framework: str, verdict: str) -> None:
    found = outcome.measure_group([history(training=[480.0], source=framework)] * 2, Goal(475.0), framework)
    assert {each.source for each in found} == {"training"}
    assert outcome.decide_verdict(found, ["finished", "finished"]) == verdict


@pytest.mark.parametrize(
    ("states", "lasts", "threshold", "verdict"),
    [
        (["running", "finished"], [480.0, 480.0], 475.0, "RUNNING"),
        (["queued", "finished"], [None, None], 475.0, "RUNNING"),
        (["failed", "crashed"], [9.0, 9.0], 475.0, "FAILED"),
        (["failed", "failed"], [480.0, 480.0], 475.0, "SOLVED"),
        (["finished", "failed"], [9.0, None], None, "NO THRESHOLD"),
        (["finished", "finished"], [480.0, 9.0], 475.0, "PARTLY SOLVED"),
        (["finished", "stopped", "unknown"], [480.0, 9.0, 9.0], 475.0, "NOT SOLVED"),
    ],
)
def test_the_verdict_is_the_first_line_that_fits(
    states: list[str], lasts: list[float | None], threshold: float | None, verdict: str
) -> None:
    found = outcome.measure_group([history([] if last is None else [last]) for last in lasts], Goal(threshold))
    assert outcome.decide_verdict(found, states) == verdict


KEPT, LOST, MISSED = [20.0, 480.0], [20.0, 480.0, 231.0], [20.0, 30.0]


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([LOST], "REACHED, THEN LOST"),
        ([LOST, LOST], "REACHED, THEN LOST"),
        ([KEPT] * 7 + [LOST], "REACHED, THEN LOST"),
        ([KEPT] * 4 + [LOST] * 3 + [MISSED], "PARTLY SOLVED"),
        ([KEPT] * 3 + [LOST] * 4 + [MISSED], "REACHED, THEN LOST"),
        ([LOST, MISSED], "REACHED, THEN LOST"),
        ([LOST, MISSED, MISSED], "NOT SOLVED"),
        ([KEPT, MISSED], "PARTLY SOLVED"),
        ([KEPT] * 8, "SOLVED"),
    ],
    ids=["one", "all", "one of eight", "half kept it", "fewer than half kept it", "half reached it", "few reached it", "half", "none"],
)
def test_runs_that_lost_the_threshold_are_not_solved(runs: list[list[float]], verdict: str) -> None:
    found = outcome.measure_group([history(each) for each in runs], Goal(475.0))
    assert outcome.decide_verdict(found, ["finished"] * len(runs)) == verdict
    failed = ["failed"] * len(runs)
    assert outcome.decide_verdict(found, failed) == verdict, "a run that failed afterwards counts as it stands"


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=9))
def test_only_a_group_that_kept_everything_is_solved(runs: list[int]) -> None:
    found = outcome.measure_group([history((KEPT, LOST, MISSED)[each]) for each in runs], Goal(475.0))
    verdict = outcome.decide_verdict(found, ["finished"] * len(runs))
    assert (verdict == "SOLVED") == all(outcome.arrived(each) for each in found)
    assert (verdict == "REACHED, THEN LOST") <= (1 in runs)


@pytest.mark.parametrize("framework", ["rlclinic", "sb3"])
@pytest.mark.parametrize("threshold", [None, 475.0])
def test_without_any_return_nothing_else_can_be_said(framework: str, threshold: float | None) -> None:
    found = outcome.measure_group([history(source=framework)], Goal(threshold), framework)
    assert outcome.decide_verdict(found, ["finished"]) == "NO RETURN"


def test_percentages_are_no_shares_that_pass_at_once() -> None:
    rising = [(1_000.0 * step, 0.0) for step in range(1, 5)]
    assert measured(rising, None, rates=[7.0, 30.0, 70.0, 95.0]).reached_at == 4_000
    assert measured(rising, None, rates=[7.0, 7.0, 7.0, 7.0]).reached_at is None
    assert measured(rising, None, rates=[500.0, -3.0, 2_000.0, 500.0]).required_success is None
