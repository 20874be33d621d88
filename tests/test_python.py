"""The Python interface and `python -m rlclinic`."""

import subprocess
import sys
from pathlib import Path

import pytest

import rlclinic
from rlclinic.errors import NotFound
from tests.training.envs import toys

SMALL = ["run.max_env_steps=256", "run.eval_episodes=0", "env.n_envs=2", "algo.n_steps=32", "algo.batch_size=64"]


def test_a_wrong_environment_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Try: CartPole-v1"):
        rlclinic.train("CartPole-v1:ppo", env="CartPoll-v1", runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_environment_given_by_its_id_replaces_the_configs(tmp_path: Path) -> None:
    group = rlclinic.train("CartPole-v1:ppo", env="Acrobot-v1", overrides=SMALL, runs_dir=tmp_path / "runs")
    assert group.config.env.id == "Acrobot-v1"
    assert group.runs[0].status.state == "finished"


def test_a_class_that_can_be_imported_is_recorded_by_its_name_so_that_others_can_make_it(tmp_path: Path) -> None:
    config = {"env": {"id": "Walk", "n_envs": 2}, "algo": {"name": "ppo", "n_steps": 32, "batch_size": 64}, "run": {"max_env_steps": 256}}
    group = rlclinic.train(config, env=toys.Walk, runs_dir=tmp_path / "runs")
    assert group.config.env.id == "tests.training.envs.toys:Walk"
    policy = rlclinic.load_run(group.runs[0].path).policy("@last")
    assert policy.act(toys.Walk().reset(seed=0)[0]) is not None


def test_an_object_that_cannot_be_imported_keeps_its_id_and_is_asked_for_again(tmp_path: Path) -> None:
    config = {"env": {"id": "Walk", "n_envs": 2}, "algo": {"name": "ppo", "n_steps": 32, "batch_size": 64}, "run": {"max_env_steps": 256}}
    group = rlclinic.train(config, env=lambda: toys.Walk(), runs_dir=tmp_path / "runs")
    assert group.config.env.id == "Walk"
    with pytest.raises(NotFound, match=r"pass that again: run.policy\('@last', env=MyEnv\)"):
        group.runs[0].policy("@last")
    assert group.runs[0].policy("@last", env=toys.Walk) is not None


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "rlclinic", "--help"], capture_output=True, text=True, check=True)
    assert "Train an RL agent" in done.stdout
