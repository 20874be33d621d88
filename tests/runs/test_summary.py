from pathlib import Path

import numpy as np
import pytest

from rlclinic.runs import summary
from rlclinic.runs.record import Group
from rlclinic.runs.summary import summarize
from rlclinic.runs.writer import RunWriter
from tests.ops.recorded import record_group
from tests.runs.conftest import COLUMNS, MakeGroup

UP, DOWN = [100.0, 480.0], [100.0, 200.0]


@pytest.mark.parametrize(
    ("returns", "verdict", "reached"),
    [
        ([UP, UP, UP, UP], "SOLVED", 4),
        ([UP, UP, UP, DOWN], "PARTLY SOLVED", 3),
        ([UP, UP, DOWN, DOWN], "PARTLY SOLVED", 2),
        ([UP, DOWN, DOWN, DOWN], "NOT SOLVED", 1),
        ([DOWN, DOWN], "NOT SOLVED", 0),
        ([UP], "SOLVED", 1),
        ([[475.0]], "SOLVED", 1),
        ([[474.99]], "NOT SOLVED", 0),
    ],
)
def test_the_verdict_counts_the_seeds_that_reached_the_threshold(
    make_group: MakeGroup, returns: list[list[float]], verdict: str, reached: int
) -> None:
    found = summarize(make_group(returns))
    assert (found.verdict, found.n_reached) == (verdict, reached)
    assert make_group(returns).verdict == verdict


@pytest.mark.parametrize(
    ("states", "returns", "verdict"),
    [
        (["finished", "running"], [UP, UP], "RUNNING"),
        (["finished", "queued"], [UP, UP], "RUNNING"),
        (["failed", "failed"], [DOWN, []], "FAILED"),
        (["failed", "failed"], [DOWN, UP], "PARTLY SOLVED"),
        (["failed", "finished"], [DOWN, DOWN], "NOT SOLVED"),
        (["stopped", "stopped"], [DOWN, DOWN], "NOT SOLVED"),
    ],
)
def test_runs_that_go_on_or_broke_decide_the_verdict_first(
    make_group: MakeGroup, states: list[str], returns: list[list[float]], verdict: str
) -> None:
    assert summarize(make_group(returns, states)).verdict == verdict


def test_without_a_threshold_there_is_nothing_to_pass(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP, DOWN], threshold=None))
    assert (found.verdict, found.gap, found.gap_percent, found.steps_to_threshold) == ("NO THRESHOLD", None, None, None)
    assert found.score is not None
    assert found.score.value == 340.0


def test_training_returns_never_count_as_reached(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP, UP], evaluated=False))
    assert (found.verdict, found.source, found.n_reached, found.gap) == ("NOT EVALUATED", "training", 0, None)
    assert found.score is not None
    assert found.score.value == 480.0
    assert "training" in found.note


def test_the_gap_is_threshold_minus_score_also_in_percent(make_group: MakeGroup) -> None:
    found = summarize(make_group([[212.0]]))
    assert found.gap == 263.0
    assert found.gap_percent == pytest.approx(55.37, abs=0.01)
    below_zero = summarize(make_group([[-150.0]], threshold=-100.0))
    assert (below_zero.gap, below_zero.gap_percent) == (50.0, 50.0)
    assert summarize(make_group([[-1.0]], threshold=0.0)).gap_percent is None


def test_the_score_is_the_iqm_of_last_evaluations_with_an_interval(make_group: MakeGroup) -> None:
    found = summarize(make_group([[0.0, value] for value in (0.0, 100.0, 200.0, 300.0)]))
    assert found.score is not None
    assert found.score.value == 150.0
    assert found.score.low is not None
    assert found.score.high is not None
    assert 0.0 <= found.score.low < 150.0 < found.score.high <= 300.0


def test_one_seed_has_no_interval_and_says_so(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP]))
    assert found.score == (480.0, None, None)
    assert found.note == "n = 1: no interval"
    assert found.curve.low.tolist() == found.curve.iqm.tolist() == found.curve.high.tolist() == UP


def test_a_seed_that_fell_below_the_threshold_again_is_reached_and_lost(make_group: MakeGroup) -> None:
    found = summarize(make_group([[100.0, 490.0, 120.0], UP]))
    assert (found.verdict, found.n_reached, found.n_lost) == ("REACHED, THEN LOST", 2, 1)
    assert "1 of 2 seeds reached the threshold and fell below it again: use @best" in found.note
    assert found.seeds[0].reached_at == 20_000


def test_failures_and_stops_are_noted(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP, UP, UP], ["failed", "stopped", "finished"]))
    assert "1 of 3 seeds failed" in found.note
    assert "1 of 3 seeds were stopped early" in found.note


def test_the_best_evaluation_names_its_run_and_step_the_earlier_at_a_tie(make_group: MakeGroup) -> None:
    group = make_group([[100.0, 300.0, 200.0], [300.0, 50.0]])
    found = summarize(group)
    assert (found.best, found.best_at, found.best_run) == (300.0, 10_000, group.runs[1].id)


def test_steps_to_threshold_count_a_censored_seed_with_the_whole_budget(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP, [480.0], DOWN]))
    assert [seed.reached_at for seed in found.seeds] == [20_000, 10_000, None]
    assert found.steps_to_threshold is not None
    assert found.steps_to_threshold.value == pytest.approx((20_000 + 10_000 + 100_000) / 3)
    assert found.steps_to_threshold.low is not None
    assert found.steps_to_threshold.low >= 10_000


def test_the_curve_is_the_iqm_over_seeds_and_an_ended_seed_keeps_its_last_value(make_group: MakeGroup) -> None:
    found = summarize(make_group([[0.0, 480.0], [10.0, 20.0, 30.0], [20.0, 30.0, 40.0]]))
    assert found.curve.steps.tolist() == [10_000, 20_000, 30_000]
    np.testing.assert_allclose(found.curve.iqm, [10.0, 530.0 / 3, 550.0 / 3])
    assert (found.curve.low <= found.curve.iqm).all()
    assert (found.curve.iqm <= found.curve.high).all()


def test_a_long_curve_is_thinned_and_keeps_its_ends(make_group: MakeGroup) -> None:
    found = summarize(make_group([[float(step) for step in range(1_000)]]))
    assert len(found.curve.steps) == summary.MAX_POINTS
    assert found.curve.iqm[0] == 0.0
    assert found.curve.iqm[-1] == 999.0


def test_evaluations_that_are_no_number_are_left_out(make_group: MakeGroup) -> None:
    found = summarize(make_group([[10.0, float("nan")]]))
    assert (found.seeds[0].last, found.best) == (10.0, 10.0)


def test_throughput_is_the_share_of_each_phase(make_group: MakeGroup) -> None:
    found = summarize(make_group([UP, DOWN]))
    assert found.phases == {"env": 0.75, "learn": 0.25}
    assert list(found.phases) == ["env", "learn"]
    assert found.wall_seconds == 8.0
    assert found.fps == 1_000.0
    assert found.env_steps == 40_000


def test_a_group_that_has_not_begun_has_a_summary_without_numbers(make_group: MakeGroup) -> None:
    found = summarize(make_group([[], []], ["queued", "queued"]))
    assert (found.verdict, found.score, found.best, found.best_run, found.gap) == ("RUNNING", None, None, None, None)
    assert len(found.curve.steps) == 0
    assert found.phases == {}
    assert found.fps is None


def test_the_same_files_give_the_same_summary(make_group: MakeGroup) -> None:
    group = make_group([UP, DOWN, UP])
    first, again = summarize(group), summarize(Group(group.path))
    assert first.score == again.score
    np.testing.assert_array_equal(first.curve.low, again.curve.low)


def test_a_summary_of_a_live_group_shows_what_there_is_so_far(make_group: MakeGroup) -> None:
    group = make_group([UP, DOWN])
    with RunWriter(group.runs[1].path, COLUMNS, 0) as out:
        out.status("running", 30_000)
        found = group.summary
    assert found.verdict == "RUNNING"
    assert [seed.last for seed in found.seeds] == [480.0, None]


def test_one_seed_is_not_counted_out_of_one(tmp_path: Path) -> None:
    """It said: 1 of 1 seeds were stopped early."""
    note = record_group(tmp_path / "runs", seeds=(0,), state="stopped", share_done=0.5).summary.note
    assert "it was stopped early" in note
    assert "1 of 1" not in note
