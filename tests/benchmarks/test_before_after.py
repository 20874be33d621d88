"""Two trees of the source, compared by what both did while both trained."""

import numpy as np
import pytest

from benchmarks import before_after, table


def rows(begin: float, steps_per_second: float, seconds: int) -> np.ndarray:
    """A run that logs every second, [rows, 2]."""
    return np.array([(begin + second, steps_per_second * second) for second in range(seconds + 1)])


def test_speeds_are_those_of_the_time_in_which_both_sides_trained() -> None:
    slow = rows(100.0, 10.0, 20)
    # The other began 2.5 s later; what the slow one did before, and after the other was done, does not count.
    slow[:3, 1] = 0.0
    fast = rows(102.5, 20.0, 10)
    before, after = before_after.compute_speeds([[slow], [fast]])
    assert after == pytest.approx(20.0)
    assert before == pytest.approx((125.0 - 15.0) / 10.0)


def test_runs_of_a_side_are_added_up() -> None:
    assert before_after.compute_speeds([[rows(0.0, 10.0, 5)] * 8, [rows(0.0, 10.0, 5)]]) == pytest.approx([80.0, 10.0])


def test_sides_that_never_trained_at_the_same_time_are_no_pair() -> None:
    with pytest.raises(SystemExit, match="more env steps"):
        before_after.compute_speeds([[rows(0.0, 10.0, 5)], [rows(6.0, 10.0, 5)]])


def test_a_bar_on_the_lower_end_is_missed_by_a_wide_interval() -> None:
    row = before_after.to_row("ppo", before_after.CONTESTS["ppo"], [[1.0, 1.0], [1.0, 0.9], [1.0, 1.1]])
    assert row["value"] == 1.0
    assert row["interval"][0] < before_after.BAR
    assert table.verdict(row) == "missed"
