"""Runs that other frameworks logged, with a fault planted and without: what is read, and what diagnosis says."""

from pathlib import Path

import pytest

from rlclinic import readers
from rlclinic.diagnosis import engine
from rlclinic.runs.history import History

RETURN, EVALUATION = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean"
FAULTS = [
    ("wandb", "rate", "learning-rate-too-high"),
    ("wandb", "discount", "discount-too-low"),
    ("mlflow/mlflow.db", "rate", "learning-rate-too-high"),
    ("d3rlpy", "dqn_rate", "learning-rate-too-high"),
]
SOUND = [
    ("wandb", "healthy"),
    ("wandb", "xgk9cacr"),
    ("mlflow/mlflow.db", "healthy"),
    ("mlflow/mlruns", "healthy"),
    ("d3rlpy", "dqn_healthy"),
    ("d3rlpy", "sac_offline"),
]
CALM = ("nothing wrong", "cannot tell", "symptom")


def find(samples: Path, path: str, name: str) -> History:
    return {history.id: history for history in readers.read(samples / path)}[name]


@pytest.mark.parametrize(("path", "name", "cause"), FAULTS)
def test_a_planted_fault_is_named_first(samples: Path, path: str, name: str, cause: str) -> None:
    assert engine.diagnose([find(samples, path, name)]).causes[0].id == cause


@pytest.mark.parametrize(("path", "name"), SOUND)
def test_of_a_sound_run_nothing_is_said_but_that_it_was_short(samples: Path, path: str, name: str) -> None:
    first = engine.diagnose([find(samples, path, name)]).causes[0]
    assert first.kind in CALM or first.id == "budget-too-small"


def test_d3rlpy_tells_returns_of_training_and_of_evaluation_apart(samples: Path) -> None:
    found = find(samples, "d3rlpy", "dqn_healthy")
    assert (found.source, found.algo, found.env_steps) == ("d3rlpy", "dqn", 4_000)
    assert (found[EVALUATION].last, found[EVALUATION].name, found[RETURN].name) == (290.8, "evaluation", "rollout_return")
    assert found["train/loss/td"].name == "loss"
    assert (found.settings["algo.learning_rate"], found.settings["algo.target_update_interval"]) == (1e-3, 200)


def test_d3rlpy_on_recorded_data_took_no_env_steps(samples: Path) -> None:
    found = find(samples, "d3rlpy", "sac_offline")
    assert (found.algo, found.env_steps) == ("sac", None)
    assert {EVALUATION, "train/loss/actor", "train/loss/critic", "train/loss/alpha", "train/hp/alpha"} <= set(found.series)
    assert any("recorded data" in note for note in found.notes)
