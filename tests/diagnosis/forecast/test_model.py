"""Forecasts: what they depend on, what they must not depend on, and when a run is called doomed."""

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.forecast import model as forecast
from rlclinic.diagnosis.forecast.features import CURVE, FEATURES, POLICY, features, prefix
from rlclinic.runs.history import History, Series, make_series
from tests.diagnosis import recorded

RETURN, EVAL, KL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/metrics/kl_divergence"
RETURNS = ("ep_rew_mean", "ep_rew_std", "ep_rew_best", "ep_rew_min")


def made(values: Callable[[np.ndarray], Any], used: float = 0.5, rows: int = 40, **more: Any) -> History:
    """A running run of 100,000 env steps whose training return is a function of the share of the budget."""
    share = np.linspace(0.01, used, rows)
    series = make_series(100_000 * share, values(share), RETURN)
    assert series is not None
    known: dict[str, Any] = {"threshold": 100.0, "max_env_steps": 100_000, "env_steps": int(100_000 * used), "state": "running"}
    return History(id="r", source="csv", algo="ppo", series={RETURN: series}, **{**known, **more})


def rising(share: np.ndarray) -> Any:
    return 150 * share


def flat(share: np.ndarray) -> Any:
    return 1.0 + 0.1 * np.sin(60 * share)


def changed(history: History, change: Callable[[str, Series], Series]) -> History:
    return replace(history, series={name: change(name, each) for name, each in history.series.items()})


def chance(history: History) -> float:
    found = forecast.forecast(history).probability
    assert found is not None
    return found


def test_a_run_that_rises_towards_its_threshold_is_likelier_than_one_that_lies_still() -> None:
    up, still = forecast.forecast(made(rising)), forecast.forecast(made(flat))
    assert up.probability is not None
    assert still.probability is not None
    assert up.probability > 4 * still.probability
    assert up.low is not None
    assert up.high is not None
    assert up.low <= up.probability <= up.high
    assert "at the recent rate it gets there" in up.reason
    assert "50 % of the budget left" in still.reason


def test_the_less_budget_is_left_the_less_likely_a_run_that_lies_still() -> None:
    found = [chance(made(flat, used)) for used in (0.2, 0.5, 0.9)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.1


def test_a_run_that_is_there_is_sure_and_one_that_ended_without_is_not() -> None:
    there = forecast.forecast(made(lambda share: 250 * share))
    assert (there.probability, there.doomed) == (1.0, False)
    assert there.reached_at == pytest.approx(40_000, rel=0.05)
    ended = forecast.forecast(made(flat, state="finished"))
    assert (ended.probability, ended.doomed) == (0.0, False)
    failed = forecast.forecast(made(flat, state="failed", reason="the environment raised\nmore"))
    assert failed.reason == "it failed: the environment raised"


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (made(flat, threshold=None), "there is no threshold"),
        (made(flat, max_env_steps=None), "the budget is unknown"),
        (replace(made(flat), series={}), "no return was logged yet"),
    ],
)
def test_what_cannot_be_told_is_said(history: History, reason: str) -> None:
    found = forecast.forecast(history)
    assert found.probability is None
    assert not found.doomed
    assert reason in found.reason


def test_a_loss_that_is_no_number_any_more_is_doomed() -> None:
    loss = make_series([10_000, 20_000, 30_000], [0.1, math.nan, math.nan], "train/loss/value")
    assert loss is not None
    base = made(rising)
    found = forecast.forecast(replace(base, series={**base.series, "train/loss/value": loss}))
    assert found.doomed
    assert "train/loss/value is NaN or infinite since 20k env steps" in found.reason
    healed = make_series([10_000, 20_000, 30_000], [0.1, math.nan, 0.1], "train/loss/value")
    assert healed is not None
    assert not forecast.forecast(replace(base, series={**base.series, "train/loss/value": healed})).doomed


@pytest.mark.parametrize("name", ["cp-healthy", "cp-lr-d100", "pd-healthy"])
@pytest.mark.parametrize(("factor", "shift"), [(10.0, 0.0), (1.0, -1000.0), (0.01, 3.0)])
def test_the_unit_and_the_zero_of_the_return_do_not_matter(name: str, factor: float, shift: float) -> None:
    base = prefix(recorded.histories(name)[0], 8_000)

    def change(column: str, series: Series) -> Series:
        if not column.endswith(RETURNS):
            return series
        return replace(series, values=factor * series.values + (0.0 if column.endswith("std") else shift))

    other = replace(changed(base, change), threshold=factor * (base.threshold or 0.0) + shift)
    # Not beyond rounding: recorded numbers have twelve bits.
    assert chance(other) == pytest.approx(chance(base), abs=0.02)


def test_how_densely_a_run_was_logged_matters_little() -> None:
    base = made(lambda share: 60 * share + np.sin(50 * share), rows=400)
    sparse = changed(base, lambda name, each: replace(each, steps=each.steps[::12], values=each.values[::12]))
    assert chance(sparse) == pytest.approx(chance(base), abs=0.1)


def test_a_prefix_is_the_run_as_it_stood() -> None:
    whole = recorded.histories("cp-healthy")[0]
    half = prefix(whole, 25_000)
    assert half.state == "running"
    assert half.env_steps == 25_000
    assert all(len(each) == 0 or each.steps[-1] <= 25_000 for each in half.series.values())
    assert len(half[RETURN]) < len(whole[RETURN])
    assert prefix(whole, -1).series == {}


def test_no_healthy_run_is_called_doomed_at_any_time() -> None:
    healthy = [name for name in recorded.names() if recorded.load(name)[0]["cause"] == "healthy"]
    assert healthy
    for name in healthy:
        runs = recorded.histories(name)
        budget = runs[0].max_env_steps or 0
        for used in np.arange(0.1, 1.0, 0.15):
            found = forecast.forecasts([prefix(run, used * budget) for run in runs])
            assert not any(each.doomed for each in found), f"{name} at {used:.0%}: {found[0].reason}"


def test_runs_that_cannot_learn_are_called_doomed_before_the_end() -> None:
    for name in ("cp-rew-none", "cp-rew-flip", "cp-obs-const"):
        runs = recorded.histories(name)
        budget = runs[0].max_env_steps or 0
        assert all(each.doomed for each in forecast.forecasts([prefix(run, 0.9 * budget) for run in runs]))


ALL_DOOMED = replace(forecast.shipped(), doomed_below=1.0)


def test_a_forecast_above_the_level_dooms_nobody() -> None:
    assert forecast.forecast(made(flat, 0.8), ALL_DOOMED).doomed
    assert not forecast.forecast(made(flat, 0.8), replace(ALL_DOOMED, doomed_below=0.0)).doomed


def test_nobody_is_doomed_early_or_while_rising_or_after_having_been_well_on_the_way() -> None:
    assert not forecast.forecast(made(flat, 0.1), ALL_DOOMED).doomed
    assert not forecast.forecast(made(lambda share: 60 * share, 0.4), ALL_DOOMED).doomed
    assert not forecast.forecast(made(lambda share: np.where(share < 0.1, 0, np.where(share < 0.4, 60.0, 0.0)), 0.9), ALL_DOOMED).doomed
    assert forecast.forecast(made(lambda share: np.where(share < 0.1, 0, np.where(share < 0.4, 20.0, 0.0)), 0.9), ALL_DOOMED).doomed


def test_a_rise_that_leads_nowhere_saves_nobody() -> None:
    assert forecast.forecast(made(lambda share: 20 * share, 0.8), ALL_DOOMED).doomed


def test_siblings_that_are_on_their_way_save_a_run_that_lies_low() -> None:
    low, ahead = made(flat, 0.8), made(lambda share: 90 * share, 0.8)
    assert forecast.forecasts([low, made(flat, 0.8)], ALL_DOOMED)[0].doomed
    assert not forecast.forecasts([low, ahead], ALL_DOOMED)[0].doomed


def test_training_that_does_not_show_in_evaluations_saves_nobody() -> None:
    rising_fast = made(lambda share: 90 * share, 0.6)
    judged = make_series(np.linspace(5_000, 60_000, 10), np.full(10, 1.0), EVAL)
    assert judged is not None
    assert not forecast.forecast(rising_fast, ALL_DOOMED).doomed
    assert forecast.forecast(replace(rising_fast, series={**rising_fast.series, EVAL: judged}), ALL_DOOMED).doomed


def test_the_earlier_a_run_is_called_doomed_the_surer_that_must_be() -> None:
    level = float(forecast.logit(0.1))
    early, settled, late = (forecast.is_doomed(level - 0.1, True, used, 0.1, 0.15) for used in (0.2, 0.3, 0.6))
    assert (bool(early), bool(settled), bool(late)) == (False, True, False)
    assert forecast.is_doomed(level - 0.6, True, 0.2, 0.1, 0.15)
    assert not forecast.is_doomed(level - 0.6, False, 0.2, 0.1, 0.15)


def test_a_learning_rate_that_has_run_out_counts_against_a_run() -> None:
    plain = made(flat, 0.4, settings={"algo.learning_rate": 3e-4, "env.n_envs": 8, "algo.n_steps": 128})
    ended = replace(plain, settings={**plain.settings, "algo.learning_rate": {"start": 3e-4, "end": 0.0, "to": 0.05}})
    assert chance(ended) < chance(plain)
    assert "the learning rate has run out" in forecast.forecast(ended).reason


def test_siblings_that_got_there_make_a_run_likelier_and_those_that_failed_less_so() -> None:
    run, there, failed = made(lambda share: 40 * share), made(lambda share: 250 * share), made(flat, state="failed")
    alone = chance(run)
    assert (forecast.forecasts([run, there])[0].probability or 0) > alone > (forecast.forecasts([run, failed])[0].probability or 1)


def test_a_groups_probability_is_the_share_of_seeds_that_should_get_there() -> None:
    found = forecast.forecasts([made(lambda share: 250 * share), made(flat, state="finished")])
    assert forecast.together(found) == (0.5, 0.5, 0.5)
    assert forecast.together([forecast.forecast(made(flat, threshold=None))]) is None


def test_a_prefix_has_everything_that_features_are_made_of() -> None:
    for name in ("cp-healthy", "pd-healthy", "cpa2c-healthy"):
        whole = recorded.histories(name)[0]
        assert features(Case(prefix(whole, whole.env_steps or 0))) == pytest.approx(features(Case(whole)), nan_ok=True)


def test_without_policy_metrics_a_forecast_is_still_made() -> None:
    base = prefix(recorded.histories("cp-healthy")[0], 10_000)
    bare = replace(base, series={name: each for name, each in base.series.items() if "/roll/" in name})
    known = features(Case(bare))
    assert known is not None
    assert all(math.isnan(known[name]) for name in POLICY if name not in ("episode_spread", "no_rate", "few_rollouts"))
    assert 0 <= chance(bare) <= 1


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32) | st.floats(-1e300, 1e300), min_size=1, max_size=30),
    used=st.floats(0.01, 1.5),
    threshold=st.floats(-1e6, 1e6),
)
def test_any_log_gets_an_answer(values: list[float], used: float, threshold: float) -> None:
    steps = np.linspace(1, 100_000 * used, len(values))
    series = {name: found for name in (RETURN, EVAL, KL, "train/roll/ep_rew_std") if (found := make_series(steps, values, name))}
    history = History(
        id="r", source="csv", series=series, threshold=threshold, max_env_steps=100_000, env_steps=int(100_000 * used), state="running"
    )
    found = forecast.forecast(history)
    assert found.probability is None or 0 <= (found.low or 0) <= found.probability <= (found.high or 1) <= 1
    assert found.reason


def test_the_shipped_model_knows_every_feature() -> None:
    model = forecast.shipped()
    assert len(model.mean) == len(FEATURES)
    assert model.weights.shape[1] == 1 + 2 * len(FEATURES)
    assert len(model.weights) >= 5
    assert 0 < model.doomed_below < 0.3
    assert set(CURVE).isdisjoint(POLICY)


def test_status_imports_neither_torch_nor_scipy_nor_matplotlib() -> None:
    code = (
        "import sys; from rlclinic.ops.status import forecast, status, alerts; from rlclinic.ops.runs import detail; "
        "from rlclinic.diagnosis.forecast import model; model.shipped(); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_sentence_about_a_run_does_not_contradict_itself() -> None:
    few = forecast.forecast(made(rising, used=0.05, rows=2)).reason
    assert "has not moved" not in few
    assert "ends at" not in few
    still = forecast.forecast(made(lambda share: 1.0 + 0.01 * share, used=0.8)).reason
    assert not ("has not moved" in still and "still rising" in still)
    for used in (0.3, 0.5, 0.8):
        said = forecast.forecast(made(lambda share: 20 + 40 * share, used=used)).reason
        if "ends at" in said:
            now, end = float(said.split(" %")[0]), float(said.split("ends at ")[1].split(" %")[0])
            assert end > now, said
