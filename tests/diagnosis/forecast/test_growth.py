"""Growth charts: where a run lies among healthy ones."""

import numpy as np
import pytest

from rlclinic.config import files
from rlclinic.diagnosis.forecast import growth
from rlclinic.runs.history import History, make_series

RETURN = "train/roll/ep_rew_mean"


def run(level: float, end: float = 10_000.0) -> History:
    steps = np.linspace(100, end, 50)
    series = make_series(steps, level * steps / 10_000, RETURN)
    assert series is not None
    return History(id=f"r{level}", source="rlclinic", series={RETURN: series})


def chart(count: int = 11) -> growth.Chart:
    found = growth.of_runs("Some-v0", "ppo", [run(100.0 * place) for place in range(count)])
    assert found is not None
    return found


def test_the_middle_run_is_at_the_fiftieth_percentile() -> None:
    made = chart()
    assert made.runs == 11
    assert made.percentile(10_000, 500.0) == pytest.approx(50)
    assert made.percentile(5_000, 250.0) == pytest.approx(50, abs=1)
    assert made.percentile(10_000, 750.0) == pytest.approx(75)


def test_beyond_the_outermost_quantiles_the_percentile_stays_there() -> None:
    made = chart()
    assert made.percentile(10_000, -1e9) == pytest.approx(5)
    assert made.percentile(10_000, 1e9) == pytest.approx(95)


def test_outside_of_its_steps_a_chart_says_nothing() -> None:
    assert chart().percentile(10, 0.0) is None
    assert chart().percentile(11_000, 0.0) is None


def test_where_everyone_has_the_best_return_a_run_with_it_is_in_the_middle() -> None:
    made = growth.of_runs("Some-v0", "ppo", [run(100.0)] * 8)
    assert made is not None
    assert made.percentile(10_000, 100.0) == pytest.approx(50)


def test_too_few_runs_make_no_chart() -> None:
    assert growth.of_runs("Some-v0", "ppo", [run(1.0)] * 7) is None
    empty = History(id="x", source="rlclinic")
    assert growth.of_runs("Some-v0", "ppo", [empty] * 9) is None


def test_shipped_charts_are_of_environments_with_a_variant_and_rise_with_their_quantiles() -> None:
    known = {each.env for each in files.available() if each.shipped}
    assert growth.shipped("CartPole-v1", "ppo") is not None
    assert growth.shipped("Nowhere-v0", "ppo") is None
    for name in growth._shipped():
        env, _, algo = name.partition(":")
        found = growth.shipped(env, algo)
        assert found is not None
        assert env in known
        assert found.runs >= growth.FEWEST
        assert len(found.levels) == len(growth.QUANTILES)
        assert (np.diff(np.array(found.levels), axis=0) >= 0).all()
        assert (np.diff(found.steps) > 0).all()
