"""The Python interface and `python -m rlclinic`."""

import subprocess
import sys
from pathlib import Path

import pytest

import rlclinic
from rlclinic.errors import NotFound

SMALL = ["run.max_env_steps=256", "run.eval_episodes=0", "env.n_envs=2", "algo.n_steps=32", "algo.batch_size=64"]


def test_a_wrong_environment_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Try: CartPole-v1"):
        rlclinic.train("CartPole-v1:ppo", env="CartPoll-v1", runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_environment_given_by_its_id_replaces_the_configs(tmp_path: Path) -> None:
    group = rlclinic.train("CartPole-v1:ppo", env="Acrobot-v1", overrides=SMALL, runs_dir=tmp_path / "runs")
    assert group.config.env.id == "Acrobot-v1"
    assert group.runs[0].status.state == "finished"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "rlclinic", "--help"], capture_output=True, text=True, check=True)
    assert "Train an RL agent" in done.stdout
