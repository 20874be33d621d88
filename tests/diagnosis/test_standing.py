"""How a run stands: what noise may explain, and how long a run with a replay may still do anything."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlclinic.diagnosis import engine, registry
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.forecast.model import forecast
from rlclinic.runs.history import History, make_series

RETURN, EVAL, SUCCESS = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/roll/success_rate"


def case(judged: list[float], **more: Any) -> Case:
    """A run whose training returns rise from 0, with evaluations at even distances."""
    steps = np.linspace(1_000, 10_000, 40)
    series = {
        RETURN: make_series(steps, np.linspace(0.0, 90.0, 40), RETURN),
        EVAL: make_series(np.linspace(1_000, 10_000, len(judged)), judged, EVAL),
    }
    known: dict[str, Any] = {"threshold": 100.0, "max_env_steps": 10_000, "env_steps": 10_000, "state": "finished", "algo": "ppo"}
    return Case(History(id="r", source="rlclinic", series={name: s for name, s in series.items() if s is not None}, **{**known, **more}))


def test_what_ends_within_the_scatter_of_its_evaluations_has_not_lost_the_threshold() -> None:
    assert case([0, 30, 60, 80, 105, 88, 106, 90, 104, 92]).standing == "solved"


def test_what_ends_below_without_scatter_has_lost_it() -> None:
    assert case([0, 30, 60, 100, 102, 101, 95, 94, 94, 94]).standing == "lost"


def test_no_scatter_explains_more_than_a_tenth_of_the_way() -> None:
    assert case([0, 30, 120, 20, 105, 40, 110, 30, 60, 30]).standing == "lost"


def test_two_evaluations_above_the_threshold_outweigh_training_returns_that_lag_behind() -> None:
    solved = case([50.0, 120.0])
    assert solved.standing == "solved"
    assert case([120.0, 50.0]).standing == "lost"
    facts = engine.diagnose([solved.history]).facts
    assert (facts.last, facts.best, facts.best_at) == (120.0, 120.0, 10_000.0)


def running(algo: str, used: float, **settings: Any) -> Case:
    names = {f"algo.{name}": value for name, value in settings.items()}
    return case([1.0, 2.0, 1.0, 2.0], algo=algo, state="running", max_env_steps=int(10_000 / used), settings=names)


@pytest.mark.parametrize(
    ("run", "early"),
    [
        (running("ppo", 0.15), True),
        (running("ppo", 0.25), False),
        (running("dqn", 0.25), True),
        (running("dqn", 0.45), False),
        (running("dqn", 0.45, exploration_fraction=0.3), True),
        (running("sac", 0.45, learning_starts=10_000), True),
        # However long it explores: after three fifths it is judged.
        (running("dqn", 0.65, exploration_fraction=1.0), False),
    ],
)
def test_a_run_with_a_replay_is_early_for_longer(run: Case, early: bool) -> None:
    assert run.is_early is early


def test_a_running_run_that_passed_by_chance_in_its_first_part_has_lost_nothing() -> None:
    assert case([0, 120, 20, 25, 30, 25], algo="dqn", state="running", max_env_steps=40_000).standing == "early"


def test_a_run_that_took_off_late_is_learning_and_its_budget_is_not_ruled_out() -> None:
    """Nearly all of it lay still, and its last rows left that far behind: "it does not rise any more" stood beside such a curve."""
    share = np.linspace(0.01, 1.0, 100)
    values = np.where(share < 0.95, 20.0, 20.0 + 120.0 * (share - 0.95) / 0.05) + 3 * np.random.default_rng(1).standard_normal(100)
    series = {RETURN: made} if (made := make_series(100_000 * share, values, RETURN)) is not None else {}
    history = History(id="r", source="sb3", series=series, threshold=475.0, max_env_steps=100_000, env_steps=100_000, state="finished")
    late = Case(history)
    assert late.standing == "learning"
    diagnosis = engine.diagnose([history])
    assert diagnosis.causes[0].id == "budget-too-small"
    assert not any("does not rise" in each.text for each in diagnosis.ruled_out)


def farmed(state: str = "running", max_env_steps: int = 40_000, given_up: float = 0.5) -> History:
    """Success is learned and then given up for a return that stays above its threshold."""
    steps = np.linspace(500, 10_000, 40)
    share = steps / 10_000
    series = {
        RETURN: make_series(steps, 10 + 20 * np.minimum(3 * share, 1) + 0.05 * np.sin(50 * share), RETURN),
        SUCCESS: make_series(steps, np.where(share < given_up, np.minimum(5 * share, 1), 0.0), SUCCESS),
    }
    known: dict[str, Any] = {"threshold": 15.0, "max_env_steps": max_env_steps, "env_steps": 10_000, "state": state, "algo": "ppo"}
    return History(id="r", source="rlclinic", series={name: each for name, each in series.items() if each is not None}, **known)


def test_a_return_above_its_threshold_without_the_success_that_it_had_is_not_solved_while_it_still_runs() -> None:
    """A live run that had found a loop was called healthy, and was forecast to get there at 0.90."""
    for state, budget in (("finished", 10_000), ("running", 40_000), ("running", 400_000)):
        run = farmed(state, budget)
        assert Case(run).standing == "lost"
        assert engine.diagnose([run]).causes[0].id == "reward-gamed"
    assert Case(farmed(given_up=2.0)).standing == "solved"
    assert engine.diagnose([farmed(given_up=2.0)]).causes[0].kind == "nothing wrong"


def test_no_forecast_of_returns_is_given_where_the_return_is_there_and_success_is_not() -> None:
    seen = forecast(farmed())
    assert seen.probability is None
    assert "while 0 % of episodes succeed" in seen.reason
    assert "succeed" not in forecast(farmed(given_up=2.0)).reason


def test_a_log_that_still_grows_was_not_stopped_too_early() -> None:
    steps = np.linspace(500, 10_000, 40)
    series = {RETURN: make_series(steps, np.linspace(20.0, 200.0, 40), RETURN)}
    log = History(id="r", source="sb3", series=series, threshold=475.0, env_steps=10_000, state="running", algo="ppo")  # type: ignore[arg-type]
    rule = registry.find("BUD101")
    assert not engine.examine(rule, [Case(log)]).findings
    assert engine.examine(rule, [Case(replace(log, state="finished"))]).findings
