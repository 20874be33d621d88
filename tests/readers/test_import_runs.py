from pathlib import Path

import numpy as np
import pytest

from rlclinic import readers
from rlclinic.errors import RunError, UsageError
from rlclinic.runs.history import History, make_series, of_run
from rlclinic.runs.store import Store

SAMPLES = ("cleanrl", "gymnasium_solver", "sb3_dqn", "sb3_ppo", "sb3_restart", "sb3_sac", "sb3_zoo")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_imported_run_reads_back_as_the_history_that_it_was(sample: str, samples: Path, store: Store) -> None:
    histories = readers.read(samples / sample, threshold=100)
    for history, run in zip(histories, readers.import_runs(histories, store), strict=True):
        back = of_run(run)
        for field in ("source", "env_id", "algo", "seed", "threshold", "max_env_steps", "env_steps", "state", "segments", "notes"):
            assert getattr(back, field) == getattr(history, field), field
        assert {key: value for key, value in back.settings.items() if key != "name"} == history.settings
        assert back.series.keys() == history.series.keys()
        for name, series in history.series.items():
            assert np.array_equal(back[name].steps, series.steps)
            assert np.array_equal(back[name].values, series.values)
            assert (back[name].name, back[name].estimator, back[name].rounded) == (series.name, series.estimator, series.rounded)


def test_an_imported_run_is_listed_with_its_figures(samples: Path, store: Store) -> None:
    (history,) = readers.read(samples / "sb3_ppo", threshold=250)
    run = readers.import_run(history, store)
    assert [found.id for found in store.runs()] == [run.id]
    assert (run.name, run.seed, run.env_id, run.algo, run.threshold) == ("CartPole-v1:ppo", 3, "CartPole-v1", "ppo", 250)
    assert (run.status.state, run.status.env_steps, run.status.eval_mean) == ("finished", 6_144, pytest.approx(461.4))
    assert (run.status.best_eval, run.status.threshold_reached_at) == (pytest.approx(461.4), 4_096)
    assert run.record["source"]["framework"] == "sb3"
    assert run.record["source"]["path"].endswith("sb3_ppo")
    assert run.group is not None
    assert run.group.verdict == "SOLVED"
    assert store.run("@last") == run


def test_seeds_of_the_same_settings_become_one_group(samples: Path, store: Store) -> None:
    runs = readers.import_runs(readers.read(samples / "sb3_zoo"), store)
    assert [run.seed for run in runs] == [7, 8]
    assert len(store.groups()) == 1
    assert store.groups()[0].summary.n_seeds == 2


def test_runs_without_a_seed_are_not_mixed(samples: Path, store: Store) -> None:
    histories = readers.read(samples / "sb3_sac") * 2
    assert len({run.group_id for run in readers.import_runs(histories, store)}) == 2


def test_how_an_unknown_end_is_shown(samples: Path, store: Store) -> None:
    run = readers.import_runs(readers.read(samples / "sb3_dqn"), store)[0]
    assert run.status.state == "stopped"
    assert run.status.reason is not None
    assert "how it ended is not known" in run.status.reason
    assert of_run(run).state == "unknown"
    assert "total_timesteps" in run.log


def test_an_imported_run_cannot_be_trained_on_settings_that_were_guessed(samples: Path, store: Store) -> None:
    run = readers.import_run(readers.read(samples / "sb3_ppo")[0], store)
    with pytest.raises(RunError, match="was imported \\(sb3\\)"):
        _ = run.config


def test_broken_and_repeated_values_survive(store: Store) -> None:
    series = make_series([1, 2, 2, 3], [1.0, 2.0, 3.0, np.nan], "x")
    assert series is not None
    back = of_run(readers.import_run(History("a", "csv", series={"time/fps": series}), store))["time/fps"]
    assert (back.steps.tolist(), back.values.tolist(), back.broken.tolist()) == ([1, 2, 2], [1, 2, 3], [3])


def test_a_run_of_ours_is_not_imported(store: Store) -> None:
    with pytest.raises(UsageError, match="already"):
        readers.import_run(History("a", "rlclinic"), store)


def test_the_foreign_folder_is_not_touched(samples: Path, store: Store) -> None:
    before = {path: path.stat().st_mtime_ns for path in (samples / "sb3_ppo").rglob("*")}
    readers.import_runs(readers.read(samples / "sb3_ppo"), store)
    assert {path: path.stat().st_mtime_ns for path in (samples / "sb3_ppo").rglob("*")} == before
