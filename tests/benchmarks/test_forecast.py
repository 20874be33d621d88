"""The forecast's benchmark: its sums by hand, and that fitting finds what was put in."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.diagnosis import forecast, forecast_fit, growth
from benchmarks.diagnosis.forecast_fit import Looks
from rlclinic.diagnosis.forecast.features import FEATURES
from rlclinic.diagnosis.forecast.model import SHARED, THERE, Model
from tests.diagnosis import recorded

COVERED = FEATURES.index("covered")


def table(runs: list[tuple[str, str, float]], rng: np.random.Generator | None = None) -> Looks:
    """Looks at made-up runs: (name, env, reached). Those that get there are ahead on `covered`."""
    rng = rng or np.random.default_rng(0)
    rows, columns = [], []
    for name, env, reached in runs:
        for used in (0.1, 0.15, 0.2, 0.25):
            row = np.full(len(FEATURES), np.nan)
            row[FEATURES.index("used")] = used
            row[COVERED] = 0.1 + 0.15 * reached + 0.01 * rng.standard_normal()
            row[[FEATURES.index(name) for name in ("now", "evaluated", "projected", "projected_long")]] = row[COVERED]
            rows.append(row)
            columns.append((reached, used, env, name, name[:1]))
    reached, used, env, run, cell = (np.array(column) for column in zip(*columns, strict=True))
    return Looks(np.array(rows), reached.astype(float), used.astype(float), env, run, cell, np.array(rows)[:, COVERED])


RUNS = [(f"{env}{place}", env, float(place % 2)) for env in "abc" for place in range(10)]


def test_fitting_finds_what_tells_runs_apart_on_environments_that_it_has_not_seen() -> None:
    data = table(RUNS)
    model = forecast_fit.fit(data.where(data.env != "c"))
    here = data.where(data.env == "c")
    p = forecast_fit.probabilities(here, model, alone=True)
    assert p[here.reached == 1].min() > p[here.reached == 0].max()
    assert model.weights.shape == (3, 1 + 2 * len(FEATURES))


def test_what_is_written_is_what_is_read() -> None:
    data = table(RUNS)
    model = forecast_fit.fit(data)
    again = Model.read(json.loads(json.dumps(forecast_fit.record(model, data, ["a", "b", "c"]))))
    assert again.log_odds(data.rows) == pytest.approx(model.log_odds(data.rows), abs=1e-3)
    assert again.doomed_below == model.doomed_below
    assert again.calibration == pytest.approx(model.calibration, rel=1e-3)


def test_newtons_method_finds_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    design = np.hstack([np.ones((4_000, 1)), rng.standard_normal((4_000, 2))])
    truth = np.array([0.3, 1.5, -2.0])
    target = (rng.random(4_000) < 1 / (1 + np.exp(-design @ truth))).astype(float)
    found = forecast_fit.logistic(design, target, np.ones(4_000), 1e-6)
    assert found == pytest.approx(truth, abs=0.2)
    p = 1 / (1 + np.exp(-design @ found))
    assert design.T @ (target - p) == pytest.approx(np.zeros(3), abs=1e-3)


def test_a_run_is_flagged_at_its_first_bad_look_with_enough_budget_used() -> None:
    data = table([("a0", "a", 0.0)])  # looks at 10, 15, 20 and 25 %
    assert forecast_fit.flagged(data, np.array([0.001, 0.001, 0.001, 0.001]), 0.05) == {"a0": 0.15}
    assert forecast_fit.flagged(data, np.array([0.001, 0.5, 0.5, 0.001]), 0.05) == {"a0": 0.25}
    # Just below the level is enough at 30 % of the budget, not before.
    assert forecast_fit.flagged(data, np.array([0.045, 0.045, 0.045, 0.045]), 0.05) == {}
    hopeful, rising = data.rows.copy(), data.rows.copy()
    hopeful[:, COVERED], rising[:, FEATURES.index("projected")] = 0.8, 0.9
    assert forecast_fit.flagged(replace(data, rows=hopeful), np.zeros(4), 0.05) == {}
    assert forecast_fit.flagged(replace(data, rows=rising), np.zeros(4), 0.05) == {}


def test_a_run_lies_low_only_while_its_siblings_do() -> None:
    data = table([("a0", "a", 0.0), ("a1", "a", 0.0)])
    assert forecast_fit.low(data).all()
    rows = data.rows.copy()
    rows[data.run == "a1", COVERED] = 0.9
    ahead = replace(data, rows=rows)
    assert not forecast_fit.low(ahead).any()
    assert forecast_fit.low(ahead, alone=True).tolist() == (data.run == "a0").tolist()


def test_siblings_are_pooled_at_the_same_look_and_those_that_are_there_count_as_sure() -> None:
    data = table([("a0", "a", 0.0), ("a1", "a", 1.0)])
    data = data.where(~((data.run == "a1") & (data.used > 0.12)))  # a1 got there after its first look
    found = forecast_fit.pool(data, np.array([-1.0, -1.0, -1.0, -1.0, 2.0]))
    first, later = (1 - SHARED) * -1 + SHARED * 2, (1 - SHARED) * -1 + SHARED * THERE
    assert found == pytest.approx([first, later, later, later, (1 - SHARED) * 2 - SHARED])


def test_the_doomed_level_leaves_almost_everyone_alone_who_gets_there() -> None:
    data = table(RUNS)
    p = np.where(data.reached == 1, 0.2, 0.05)
    assert forecast_fit.doomed_level(data, lambda below: forecast_fit.flagged(data, p, below)) == pytest.approx(0.24)
    everyone = np.full(len(data), 0.0)
    assert forecast_fit.doomed_level(data, lambda below: forecast_fit.flagged(data, everyone, below)) == 0.005


def test_measures_by_hand() -> None:
    data = table([("a0", "a", 0.0), ("b0", "b", 1.0)])
    found = forecast.measure(data, np.array([0.01, 0.01, 0.01, 0.01, 0.9, 0.9, 0.9, 0.9]), 0.05)
    assert found["brier"] == pytest.approx((0.01**2 + 0.1**2) / 2, abs=1e-4)
    assert found["calibration_error"] == pytest.approx((0.01 + 0.1) / 2, abs=1e-4)
    assert (found["wrong_stops"], found["doomed_flagged"], found["doomed_median_share"]) == (0, 1, 0.15)
    assert forecast.calibration_error(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0
    assert forecast.wilson(0, 100) == pytest.approx((0.0, 0.0370), abs=1e-3)
    assert forecast.wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-3)
    assert "wrong stops 0/1" in forecast.table("x", found)


def test_the_constant_rate_baseline_believes_in_straight_lines() -> None:
    data = table(RUNS)
    p, level = forecast.baseline(data, data)
    assert p[data.reached == 1].mean() > p[data.reached == 0].mean()
    assert 0 < level < 1


def test_recorded_runs_are_looked_at_until_they_are_there() -> None:
    cells = [("healthy", recorded.histories("cp-healthy")), ("sick", recorded.histories("cp-obs-const"))]
    data = forecast_fit.looks(cells)
    assert set(data.reached[data.cell == "healthy"]) == {1.0}
    assert data.used[data.cell == "sick"].max() == 0.95
    assert data.used[data.cell == "healthy"].max() < 0.95


def test_growth_charts_are_made_of_runs_that_got_there() -> None:
    made = growth.charts([*recorded.histories("cp-healthy"), *recorded.histories("cp-obs-const")] * 3)
    assert made["CartPole-v1:ppo"]["runs"] == 9
