"""One outcome of a run and one verdict on a group: by hand, and against a slow reference."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlclinic.metrics import EVAL_RETURN, TRAIN_RETURN
from rlclinic.runs import outcome
from rlclinic.runs.history import History, Series, make_series
from rlclinic.runs.outcome import Outcome

NAN, INF = math.nan, math.inf


def measured(pairs: Sequence[tuple[float, float]], threshold: float | None = 475.0) -> Outcome:
    steps, returns = zip(*pairs, strict=True) if pairs else ((), ())
    return outcome.measure(np.array(steps, dtype=float), np.array(returns, dtype=float), threshold)


def history(evaluations: Sequence[float] = (), training: Sequence[float] = (), source: str = "rlclinic", **more: object) -> History:
    made = {
        name: make_series(1_000.0 * (1 + np.arange(len(values))), values, name)
        for name, values in ((EVAL_RETURN, evaluations), (TRAIN_RETURN, training))
        if len(values)
    }
    series: dict[str, Series] = {name: each for name, each in made.items() if each is not None}
    return History("run", source, series=series, **{"threshold": 475.0, "state": "finished", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pairs", "reached", "best_at", "last", "held"),
    [
        ([(1_000, 100.0), (2_000, 475.0), (3_000, 480.0)], 2_000, 3_000, 480.0, True),
        ([(1_000, 474.999), (2_000, 474.0)], None, 1_000, 474.0, False),
        ([(0, 475.0), (1_000, 9.0)], 0, 0, 9.0, False),
        ([(1_000, 480.0), (2_000, 480.0)], 1_000, 1_000, 480.0, True),
        ([(1_000, NAN), (2_000, 480.0), (3_000, NAN)], 2_000, 2_000, 480.0, True),
        ([(1_000, INF), (2_000, -INF), (3_000, 10.0)], None, 3_000, 10.0, False),
        ([(3_000, 500.0), (1_000, 480.0), (2_000, 9.0)], 1_000, 3_000, 500.0, True),
        ([(1_000, 9.0), (1_000, 480.0), (2_000, 9.0), (2_000, 8.0)], 1_000, 1_000, 8.0, False),
        ([], None, None, None, False),
        ([(NAN, 500.0)], None, None, None, False),
    ],
    ids=[
        "the first at or above it", "never", "at step 0", "of equal ones the first", "NaN passes nothing", "infinity passes nothing",
        "written out of order", "twice at one step", "no return", "no step",
    ],
)  # fmt: skip
def test_a_run_reaches_the_threshold_at_its_first_finite_return_at_or_above_it(
    pairs: list[tuple[float, float]], reached: float | None, best_at: float | None, last: float | None, held: bool
) -> None:
    found = measured(pairs)
    assert (found.reached_at, found.best_at, found.last, found.held) == (reached, best_at, last, held)


numbers = st.one_of(st.floats(-10, 10), st.sampled_from([NAN, INF, -INF, 5.0]))


@given(st.lists(st.tuples(st.integers(0, 6).map(float), numbers), max_size=12), st.sampled_from([None, 5.0, -3.0]))
def test_the_outcome_equals_a_slow_reference(pairs: list[tuple[float, float]], threshold: float | None) -> None:
    known = sorted((pair for pair in pairs if math.isfinite(pair[1])), key=lambda pair: pair[0])
    passed = [step for step, value in known if threshold is not None and value >= threshold]
    found = measured(pairs, threshold)
    assert found.reached_at == (min(passed) if passed else None)
    assert found.last == (known[-1][1] if known else None)
    assert found.best == (max(value for _, value in known) if known else None)
    assert list(zip(found.steps.tolist(), found.returns.tolist(), strict=True)) == known


def test_a_group_is_judged_by_evaluations_as_soon_as_one_run_has_any() -> None:
    evaluated, not_evaluated = history([480.0], training=[9.0]), history(training=[490.0])
    found = outcome.measure_group([evaluated, not_evaluated], 475.0)
    assert [(each.source, each.reached_at) for each in found] == [("evaluation", 1_000.0), ("evaluation", None)]
    assert outcome.decide_verdict(found, ["finished", "failed"], 475.0) == "PARTLY SOLVED"


def test_an_evaluation_that_came_to_nan_was_made_and_passed_nothing() -> None:
    found = outcome.measure_group([history([NAN], training=[490.0])], 475.0)
    assert found[0].source == "evaluation"
    assert outcome.decide_verdict(found, ["finished"], 475.0) == "NOT SOLVED"


@pytest.mark.parametrize(("framework", "verdict"), [("rlclinic", "NOT EVALUATED"), ("sb3", "SOLVED"), ("cleanrl", "SOLVED")])
def test_training_returns_count_only_where_another_framework_wrote_nothing_else(framework: str, verdict: str) -> None:
    found = outcome.measure_group([history(training=[480.0], source=framework)] * 2, 475.0, framework)
    assert {each.source for each in found} == {"training"}
    assert outcome.decide_verdict(found, ["finished", "finished"], 475.0) == verdict


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
    found = outcome.measure_group([history([] if last is None else [last]) for last in lasts], threshold)
    assert outcome.decide_verdict(found, states, threshold) == verdict


@pytest.mark.parametrize("framework", ["rlclinic", "sb3"])
@pytest.mark.parametrize("threshold", [None, 475.0])
def test_without_any_return_nothing_else_can_be_said(framework: str, threshold: float | None) -> None:
    found = outcome.measure_group([history(source=framework)], threshold, framework)
    assert outcome.decide_verdict(found, ["finished"], threshold) == "NO RETURN"
