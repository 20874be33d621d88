import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import gymnasium_solver
from rlclinic.readers.options import Options
from rlclinic.runs.history import History

CopySample = Callable[..., Path]
RUNS = ("a1b2c3d4", "local-20250720-101500", "local-20251002-101500")
RETURN, EVAL, KL = "train/roll/ep_rew_mean", "val/roll/ep_rew_mean", "train/metrics/kl_divergence"


def one(path: Path) -> History:
    (found,) = gymnasium_solver.read(path, Options())
    return found


def test_a_folder_of_runs_gives_every_run(samples: Path) -> None:
    assert gymnasium_solver.matches(samples / "gymnasium_solver")
    assert tuple(history.id for history in gymnasium_solver.read(samples / "gymnasium_solver", Options())) == RUNS


@pytest.mark.parametrize("run", RUNS)
def test_every_generation_of_names_gives_the_same_curves(run: str, samples: Path) -> None:
    found, newest = one(samples / "gymnasium_solver" / run), one(samples / "gymnasium_solver" / RUNS[0])
    assert (found.source, found.env_id, found.algo, found.seed) == ("gymnasium-solver", "CartPole-v1", "ppo", 42)
    for name in (RETURN, EVAL, KL, "train/loss/policy", "train/loss/value", "train/metrics/entropy", "train/metrics/explained_variance"):
        assert found[name].steps.tolist() == newest[name].steps.tolist()
        assert found[name].values.tolist() == newest[name].values.tolist()


def test_vector_steps_are_turned_into_env_steps(samples: Path) -> None:
    found = one(samples / "gymnasium_solver" / RUNS[1])
    assert found[RETURN].steps.tolist() == [256.0 * epoch for epoch in range(1, 61)]
    assert any("multiplied by 8" in note for note in found.notes)


def test_evaluations_are_at_the_step_of_their_epoch(samples: Path) -> None:
    assert one(samples / "gymnasium_solver" / RUNS[0])[EVAL].steps.tolist() == [2_560.0 * part for part in range(1, 7)]


def test_rounded_numbers_are_marked(samples: Path) -> None:
    found = one(samples / "gymnasium_solver" / RUNS[0])
    assert found[KL].rounded
    assert found[EVAL].rounded
    assert (found[KL].values == 0).mean() > 0.9


def test_schedules_in_side_keys_are_honoured(samples: Path) -> None:
    rate = one(samples / "gymnasium_solver" / RUNS[0]).settings["algo.learning_rate"]
    assert rate == {"schedule": "linear", "start": 0.001, "end": 0.0, "from": 0.0, "to": 1.0, "warmup": 0.0}


def test_settings_have_our_names(samples: Path) -> None:
    settings = one(samples / "gymnasium_solver" / RUNS[0]).settings
    assert (settings["net.hidden"], settings["net.activation"], settings["env.n_envs"]) == ([64], "relu", 8)
    assert (settings["algo.normalize_advantage"], settings["algo.target_kl"], settings["spec.threshold"]) == ("batch", None, 475.0)
    assert one(samples / "gymnasium_solver" / RUNS[1]).settings["algo.batch_size"] == 64
    assert one(samples / "gymnasium_solver" / RUNS[1]).max_env_steps == 100_000


def test_the_log_says_how_it_ended_and_what_it_warned_of(samples: Path) -> None:
    found = one(samples / "gymnasium_solver" / RUNS[0])
    assert (found.state, found.threshold) == ("finished", 475.0)
    assert found.reason == "Early stopping! 'val/roll/ep_rew/mean': 480.1 >= 475."
    assert any("approx_kl/below in 12/60 (20.0%)" in note for note in found.notes)


def test_an_error_in_the_log_is_a_failure(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[1]
    (folder / "run.log").write_text("=== Training Session Ended with Error ===\nAssertionError: NaN\n")
    assert one(folder).state == "failed"


def test_its_metrics_file_stands_for_the_run(samples: Path) -> None:
    path = samples / "gymnasium_solver" / RUNS[0] / "metrics.csv"
    assert gymnasium_solver.matches(path)
    assert one(path).id == RUNS[0]


def test_the_older_place_of_the_config_is_known(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[1]
    (folder / "configs").mkdir()
    (folder / "config.json").rename(folder / "configs" / "config.json")
    assert one(folder).algo == "ppo"


def test_an_unknown_number_of_envs_leaves_the_axis_and_says_so(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[1]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_envs": "auto"}))
    found = one(folder)
    assert found[RETURN].steps[0] == 32
    assert any("n_envs is not known" in note for note in found.notes)


def test_a_counter_that_counts_env_steps_already_is_left_alone(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[1]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_steps": 4, "n_envs": 8}))
    assert one(folder)[RETURN].steps[0] == 32


def test_a_run_without_rows_says_so(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[0]
    (folder / "metrics.csv").unlink()
    with pytest.raises(UsageError, match=r"no metrics\.csv"):
        gymnasium_solver.read(folder, Options())


@pytest.mark.parametrize("config", ["", "[]", "{", '{"env_id": 7}', '{"env": {"id": "X"}, "env_id": "X"}', '{"algo_id": "ppo"}'])
def test_other_configs_are_not_its(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    assert not gymnasium_solver.matches(tmp_path)


ODD = {"n_steps": "x", "policy_lr": [1], "normalize_advantages": {"schedule": 1}, "spec": 3, "env_wrappers": [1, {"id": 2}], "n_envs": -1}


def test_odd_settings_are_left_out_and_the_curves_stay(copy_sample: CopySample) -> None:
    folder = copy_sample("gymnasium_solver") / RUNS[0]
    (folder / "config.json").write_text(
        json.dumps({"env_id": "X", "algo_id": 5, **ODD, "hidden_dims": "wide", "seed": "s", "model_id": {}})
    )
    found = one(folder)
    assert len(found[RETURN]) == 60
    assert "algo.learning_rate" not in found.settings
