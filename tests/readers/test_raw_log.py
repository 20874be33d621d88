import numpy as np
import pytest

from rlclinic.readers.metric_aliases import Tag
from rlclinic.readers.raw_log import RawLog

RETURN = Tag("train/roll/ep_rew_mean", "ret")
ENTROPY = Tag("train/metrics/entropy", "ent", factor=-1.0, estimator="k1")


def recorded(steps: list[float], **columns: list[float]) -> RawLog:
    raw_log = RawLog()
    values = np.array(list(columns.values())).T
    raw_log.add_rows(columns, np.array(steps), values, np.zeros_like(values, dtype=bool))
    return raw_log


def test_a_tag_becomes_a_series_with_sign_and_origin() -> None:
    series = recorded([1, 2], ent=[-0.5, -0.4]).series([ENTROPY], {})
    found = series["train/metrics/entropy"]
    assert (found.values.tolist(), found.name, found.estimator) == ([0.5, 0.4], "ent", "k1")


def test_of_two_tags_for_one_metric_the_first_in_the_table_counts() -> None:
    series = recorded([1], a=[1.0], b=[2.0]).series([Tag("time/fps", "b"), Tag("time/fps", "a")], {})
    assert series["time/fps"].values.tolist() == [2.0]


def test_blank_cells_are_not_logged_and_nan_is_broken() -> None:
    raw_log = RawLog()
    values = np.array([[1.0], [np.nan], [np.nan], [4.0]])
    raw_log.add_rows(["vf"], np.array([1.0, 2.0, 3.0, 4.0]), values, np.array([[False], [True], [False], [False]]))
    found = raw_log.series([Tag("train/loss/value", "vf")], {})["train/loss/value"]
    assert (found.steps.tolist(), found.broken.tolist()) == ([1.0, 4.0], [3.0])


@pytest.mark.parametrize(
    ("returns", "losses", "broken"),
    [
        ([np.nan, 1.0, np.nan, 4.0], None, []),
        ([np.nan, 1.0, 2.0, np.nan], None, [4.0]),
        ([np.nan, 1.0, 2.0, np.nan], [1.0, 1.0, 1.0, 1.0], []),
        ([np.nan, 1.0, 2.0, np.nan], [1.0, 1.0, np.nan, np.nan], [1.0, 4.0]),
        ([1.0, np.inf, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0], [2.0]),
    ],
)
def test_a_mean_of_no_episodes_is_a_gap_and_no_broken_number(returns: list[float], losses: list[float] | None, broken: list[float]) -> None:
    raw_log, columns = RawLog(), [returns] if losses is None else [returns, losses]
    values = np.array(columns).T
    raw_log.add_rows(["ret", "vf"][: len(columns)], np.array([1.0, 2.0, 3.0, 4.0]), values, np.zeros_like(values, dtype=bool))
    found = raw_log.series([RETURN, Tag("train/loss/value", "vf")], {})
    assert found["train/roll/ep_rew_mean"].broken.tolist() == broken


def test_zeros_throughout_are_no_measurement_where_a_framework_writes_them_for_what_it_does_not_compute() -> None:
    raw_log, table = RawLog(), [Tag("train/metrics/kl_divergence", "kl", computed=True)]
    raw_log.add_rows(["kl"], np.array([1.0, 2.0]), np.zeros((2, 1)), np.zeros((2, 1), dtype=bool))
    assert raw_log.series(table, {}) == {}
    raw_log.add_rows(["kl"], np.array([3.0]), np.full((1, 1), 0.01), np.zeros((1, 1), dtype=bool))
    assert raw_log.series(table, {})["train/metrics/kl_divergence"].values.tolist() == [0.0, 0.0, 0.01]


def test_a_column_that_is_nan_from_the_start_is_still_a_series() -> None:
    raw_log = RawLog()
    raw_log.add_rows(["ret"], np.array([1.0, 2.0]), np.full((2, 1), np.nan), np.zeros((2, 1), dtype=bool))
    found = raw_log.series([RETURN], {})["train/roll/ep_rew_mean"]
    assert (len(found), found.broken.tolist()) == (0, [1.0, 2.0])


def test_rows_without_a_step_are_left_out() -> None:
    assert recorded([1, np.nan, 3], ret=[1.0, 2.0, 3.0]).series([RETURN], {})["train/roll/ep_rew_mean"].steps.tolist() == [1, 3]


def test_a_factor_turns_iterations_into_env_steps() -> None:
    raw_log = recorded([1, 2, 3, 4, 1, 2], ret=[1.0] * 6)
    raw_log.step_factor = 2_048.0
    assert raw_log.series([RETURN], {})["train/roll/ep_rew_mean"].steps.tolist() == [2_048 * step for step in (1, 2, 3, 4, 5, 6)]
    assert (raw_log.env_steps, raw_log.segments) == (6 * 2_048, (4 * 2_048,))


def test_single_episodes_become_mean_spread_best_and_count() -> None:
    raw_log = RawLog(["ret"])
    raw_log.add_column("ret", [10, 20, 30], [1.0, 3.0, 2.0])
    series = raw_log.series([Tag("train/roll/ep_rew_mean", "ret", episodic=True)], {})
    assert {name: found.last for name, found in series.items()} == {
        "train/roll/ep_rew_mean": 2.0,
        "train/roll/ep_rew_std": pytest.approx(np.std([1, 2, 3])),
        "train/roll/ep_rew_best": 3.0,
        "total_episodes": 3.0,
    }


def test_restarts_and_thinning_are_told_in_the_notes() -> None:
    assert any("began again once (after step 40)" in note for note in recorded([10, 20, 30, 40, 10, 20], ret=[1.0] * 6).notes)
    resumed = recorded([*range(0, 1_000, 10), *range(500, 700, 10)], ret=[1.0] * 120)
    assert any("went back once (990 to 500)" in note for note in resumed.notes)
    long = recorded(list(range(40_000)), ret=[1.0] * 40_000)
    assert any("1 in 2 values" in note for note in long.notes)


def test_nothing_recorded_is_nothing() -> None:
    empty = RawLog()
    assert (len(empty), empty.names, empty.env_steps, empty.segments, empty.notes, empty.series([RETURN], {})) == (0, [], None, (), [], {})
