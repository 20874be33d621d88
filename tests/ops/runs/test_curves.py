import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rlclinic.errors import UsageError
from rlclinic.ops.runs import series
from rlclinic.ops.runs.detail import group_detail
from rlclinic.ops.runs.series import get_curves
from rlclinic.runs.writer import RunWriter
from tests.ops.recorded import COLUMNS, flat, record_group

TRAIN, EVAL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"


def test_every_row_of_a_short_group_is_a_place_of_the_axis(tmp_path: Path) -> None:
    group = record_group(tmp_path)
    found = get_curves([group.id], tmp_path, names=[TRAIN, EVAL])
    assert found.x[:2] == [1024.0, 2048.0]
    assert found.rows == 10
    assert found.threshold == 475.0
    train, evaluated = found.series
    assert [len(line.mean) for line in train.seeds] == [10, 10, 10]
    assert (train.lowest[0], train.highest[0]) == (pytest.approx(36.0), pytest.approx(52.0)), "over the three seeds"
    assert evaluated.center[4] == pytest.approx(315.0)
    assert evaluated.low[4] < evaluated.center[4] < evaluated.high[4]


def test_whoever_asks_for_a_series_gets_the_rows_of_the_file(tmp_path: Path) -> None:
    run = record_group(tmp_path, seeds=(0,)).runs[0]
    logged = [3.0, math.nan, None, 7.25, math.inf, 2.0]
    (run.path / "metrics.csv").unlink()
    with RunWriter(run.path, COLUMNS) as writer:
        for row, value in enumerate(logged, 1):
            there = {} if value is None else {TRAIN: value}
            writer.row({"time": 1.0e9 + row, "total_timesteps": 50 * row, "epoch": row, **there})
        writer.status("finished", 300)
    terminal = series.get_run_metrics(run.id, [TRAIN], tmp_path).series[0]
    chart, picture = series.run_series(run, [TRAIN]), get_curves([run.id], tmp_path, names=[TRAIN])
    answers: dict[str, Iterable[tuple[Any, Any]]] = {
        "terminal": zip(terminal.steps, terminal.values, strict=True),
        "agent": [(row["total_timesteps"], row.get(TRAIN)) for row in series.get_metric_rows(run.id, [TRAIN], tmp_path).rows],
        "chart": zip(chart.steps, chart.columns[TRAIN].mean, strict=True),
        "picture": zip(picture.x, picture.series[0].seeds[0].mean, strict=True),
    }
    for who, rows in answers.items():
        numbers = {step: value for step, value in rows if isinstance(value, float) and math.isfinite(value)}
        assert numbers == {50.0: 3.0, 200.0: 7.25, 300.0: 2.0}, who


def test_a_spike_of_one_row_survives_thinning(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0,), changes=["run.max_env_steps=100000"])
    (group.runs[0].path / "metrics.csv").unlink()
    with RunWriter(group.runs[0].path, COLUMNS) as writer:
        for row in range(1, 2001):
            writer.row({"time": 1.0e9 + row, "total_timesteps": 50 * row, "epoch": row, TRAIN: 900.0 if row == 777 else 1.0})
        writer.status("finished", 100_000)
    found = get_curves([group.id], tmp_path, points=50)
    drawn = found.series[0]
    assert len(found.x) == 50
    assert found.rows == 2000
    assert max(value for value in drawn.highest if value is not None) == 900.0
    assert max(value for value in drawn.seeds[0].mean if value is not None) < 100.0


def test_wall_time_starts_with_the_run(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0, 1))
    found = get_curves([group.id], tmp_path, axis="seconds")
    assert found.x == [float(second) for second in range(10)]
    assert found.healthy is None, "healthy runs of other machines took other times"


def test_updates_and_episodes_are_axes_and_a_change_has_its_place_on_each(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0,))
    path = group.runs[0].path
    (path / "metrics.csv").unlink()
    with RunWriter(path, [*COLUMNS, "total_episodes"] if "total_episodes" not in COLUMNS else COLUMNS) as writer:
        for row in range(1, 6):
            writer.row({"time": 1.0e9 + 2 * row, "total_timesteps": 100 * row, "epoch": row, "total_episodes": row // 2, TRAIN: float(row)})
        writer.intervention({"env_steps": 250, "set": {"algo.learning_rate": 0.1}})
        writer.status("finished", 500)
    assert get_curves([group.id], tmp_path, axis="updates").x == [1.0, 2.0, 3.0, 4.0, 5.0]
    episodes = get_curves([group.id], tmp_path, axis="episodes")
    assert episodes.x == [0.0, 1.0, 2.0]
    assert episodes.series[0].center == [1.0, 3.0, 5.0], "rows without a new episode are one place: the last of them counts"
    places = {axis: get_curves([group.id], tmp_path, axis=axis).changes[0].x for axis in ("steps", "updates", "episodes")}
    assert places == {"steps": 300.0, "updates": 3.0, "episodes": 1.0}, "that of the first row after it"


def test_runs_of_several_groups_are_drawn_together_and_growth_is_known(tmp_path: Path) -> None:
    one, two = record_group(tmp_path), record_group(tmp_path, returns=flat, seeds=(7,))
    found = get_curves([one.id, two.runs[0].id], tmp_path)
    assert [run.seed for run in found.runs] == [0, 1, 2, 7]
    assert found.healthy is not None
    assert found.healthy.low[3] <= found.healthy.middle[3] <= found.healthy.high[3]
    assert EVAL in found.available
    assert "total_timesteps" not in found.available


def test_between_evaluations_nothing_is_made_up(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0,), evaluate=False)
    (group.runs[0].path / "metrics.csv").unlink()
    with RunWriter(group.runs[0].path, COLUMNS) as writer:
        for row in range(1, 10):
            evaluated = {EVAL: 5.0 * row} if row in (4, 8) else {}
            writer.row({"time": 2.0e9 + row, "total_timesteps": 1024 * row, TRAIN: 1.0, **evaluated})
        writer.status("finished", 9216)
    found = get_curves([group.id], tmp_path, names=[TRAIN, EVAL])
    assert [(place, value) for place, value in zip(found.x, found.series[1].center, strict=True) if value is not None] == [
        (4096.0, 20.0),
        (8192.0, 40.0),
    ]


def test_a_run_without_rows_has_no_series_and_no_places(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0,))
    (group.runs[0].path / "metrics.csv").unlink()
    found = get_curves([group.id], tmp_path)
    assert (found.x, found.series, found.rows) == ([], [], 0)


def test_too_much_at_once_and_nothing_at_all_are_refused(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0,))
    with pytest.raises(UsageError, match="at most 64"):
        get_curves([group.id], tmp_path, names=[f"m{number}" for number in range(65)])
    with pytest.raises(UsageError, match="no run to draw"):
        get_curves([], tmp_path)


def test_a_first_look_at_a_long_file_is_said_to_be_rough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = record_group(tmp_path, seeds=(0, 1))
    monkeypatch.setattr(series, "ROUGH_BYTES", 100)
    rough = get_curves([group.id], tmp_path, names=[TRAIN, EVAL], rough=True)
    assert rough.rough
    whole = get_curves([group.id], tmp_path, names=[TRAIN, EVAL])
    assert not whole.rough
    assert rough.series[0].seeds[0].mean[0] == whole.series[0].seeds[0].mean[0]
    again = get_curves([group.id], tmp_path, names=[TRAIN, EVAL], rough=True)
    assert not again.rough, "what was read is at hand"


def test_a_group_says_what_its_numbers_are_now_and_which_of_them_somebody_changed(tmp_path: Path) -> None:
    group = record_group(tmp_path, seeds=(0, 1))
    for seed, run in enumerate(group.runs):
        (run.path / "metrics.csv").unlink()
        with RunWriter(run.path, [*COLUMNS, "train/hp/learning_rate", "train/hp/gamma"]) as writer:
            for row in (1, 2):
                rates = {"train/hp/learning_rate": 0.1 * seed + row, "train/hp/gamma": 0.99}
                writer.row({"time": 1.0e9, "total_timesteps": 100 * row, "epoch": row, **rates})
            if seed:
                writer.intervention({"env_steps": 100, "set": {"algo.learning_rate": 2.1}})
    current = group_detail(group).current
    rate, gamma = current["algo.learning_rate"], current["algo.gamma"]
    assert (rate.low, rate.high, rate.changed_at) == (2.0, 2.1, 100)
    assert (gamma.low, gamma.high, gamma.changed_at) == (0.99, 0.99, None)
