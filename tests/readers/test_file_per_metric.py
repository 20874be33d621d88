"""Folders with a file for each metric are one run."""

from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.readers import read


def column(*, first: str = "", count: int = 20) -> str:
    return "".join(f"{first}{place * 1000},{place + 0.5}\n" for place in range(count))


def test_torchrl_keeps_every_scalar_in_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "ppo_cheetah" / "scalars"
    folder.mkdir(parents=True)
    for name in ("reward", "entropy", "loss_objective"):
        (folder / f"{name}.csv").write_text(column())
    (found,) = read(tmp_path)
    assert (found.id, found.algo, found.env_steps) == ("ppo_cheetah", "ppo", 19_000)
    assert {"train/roll/ep_rew_mean", "train/metrics/entropy", "train/loss/policy"} <= set(found.series)
    assert "3 files, one for each metric, were joined as one run" in found.notes


def test_d3rlpy_writes_epoch_step_and_value(tmp_path: Path) -> None:
    folder = tmp_path / "DQN_20240501"
    folder.mkdir()
    (folder / "environment.csv").write_text(column(first="1,"))
    (folder / "loss.csv").write_text(column(first="1,"))
    (folder / "params.json").write_text('{"type": "dqn", "config": {"learning_rate": 0.0001, "gamma": 0.99}}')
    (found,) = read(folder)
    assert (found.algo, found.env_steps, found.series["val/roll/ep_rew_mean"].last) == ("dqn", 19_000, 19.5)
    assert found.settings["algo.learning_rate"] == 1e-4


def test_mlflow_writes_time_value_and_step_and_a_file_for_each_setting(tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "0" / "9f"
    (run / "metrics" / "rollout").mkdir(parents=True)
    (run / "params").mkdir()
    (run / "metrics" / "rollout" / "ep_rew_mean").write_text("".join(f"{1_700_000_000_000 + i} {i}.5 {i * 100}\n" for i in range(9)))
    (run / "params" / "learning_rate").write_text("0.001")
    (run / "params" / "env_id").write_text("CartPole-v1")
    (found,) = read(tmp_path / "mlruns")
    assert (found.env_steps, found.series["train/roll/ep_rew_mean"].last, found.env_id) == (800, 8.5, "CartPole-v1")
    assert found.settings["algo.learning_rate"] == 1e-3


def test_a_half_written_line_and_rubbish_are_left_out_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "scalars"
    folder.mkdir()
    (folder / "reward.csv").write_text(column() + "what\n20000,2")
    (found,) = read(tmp_path)
    assert len(found.series["train/roll/ep_rew_mean"]) == 20
    assert "2 lines that are no rows were left out" in found.notes


def test_files_with_names_that_mean_nothing_are_told_with_what_to_type(tmp_path: Path) -> None:
    folder = tmp_path / "scalars"
    folder.mkdir()
    (folder / "zeta.csv").write_text(column())
    with pytest.raises(UsageError, match="--map return=zeta"):
        read(tmp_path)
    (found,) = read(tmp_path, mapping=["return=zeta"])
    assert found.series["train/roll/ep_rew_mean"].last == 19.5
