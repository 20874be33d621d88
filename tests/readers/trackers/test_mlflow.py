"""MLflow's two stores, recorded with its package: the database and the older folder of files."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rlclinic.readers import read
from rlclinic.runs.history import History

RETURN = "train/roll/ep_rew_mean"


@pytest.fixture
def runs(samples: Path) -> dict[str, History]:
    return {history.id: history for history in read(samples / "mlflow" / "mlflow.db")}


def test_a_database_holds_runs_with_settings_and_series(runs: dict[str, History]) -> None:
    assert set(runs) == {"healthy", "rate"}
    found = runs["rate"]
    assert (found.source, found.algo, found.env_id, found.seed, found.state) == ("sb3", "ppo", "CartPole-v1", 1, "finished")
    assert (found.env_steps, found.max_env_steps) == (30_720, 30_000)
    assert {RETURN, "train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/kl_divergence"} <= set(found.series)
    assert {key: found.settings[key] for key in ("algo.learning_rate", "env.n_envs", "algo.n_steps")} == {
        "algo.learning_rate": 0.1,
        "env.n_envs": 8,
        "algo.n_steps": 128,
    }
    assert found[RETURN].steps[:2].tolist() == [2_048, 4_096]


def test_a_folder_with_a_database_is_read_as_the_database(samples: Path, tmp_path: Path) -> None:
    shutil.copy(samples / "mlflow" / "mlflow.db", tmp_path / "tracking.sqlite")
    assert [history.id for history in read(tmp_path)] == ["healthy", "rate"]


def test_the_folder_of_files_says_the_same(samples: Path) -> None:
    (found,) = read(samples / "mlflow" / "mlruns")
    assert (found.id, found.source, found.algo, found.env_id, found.state) == ("healthy", "sb3", "ppo", "CartPole-v1", "finished")
    assert (found.env_steps, found.settings["algo.batch_size"]) == (30_720, 256)
    assert {RETURN, "train/metrics/kl_divergence"} <= set(found.series)


def test_deleted_runs_are_not_read_and_running_ones_say_so(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    shutil.copy(samples / "mlflow" / "mlflow.db", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'rate'")
        database.execute("UPDATE runs SET status = 'RUNNING'")
        database.execute("DELETE FROM params WHERE key = 'total_timesteps'")
    (found,) = read(path)
    assert (found.id, found.state) == ("healthy", "running")


def test_what_is_no_number_is_evidence(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    shutil.copy(samples / "mlflow" / "mlflow.db", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE metrics SET value = 0, is_nan = 1 WHERE key = 'train/value_loss' AND step > 20000")
    found = {history.id: history for history in read(path)}["rate"]
    assert found["train/loss/value"].broken.min() > 20_000
    assert found["train/loss/value"].steps.max() <= 20_000
