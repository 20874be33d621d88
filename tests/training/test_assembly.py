"""Putting a cohort together: where runs go on from, what is recorded, and what is refused before anything is spent."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlclinic.errors import ConfigError, RunBusy
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, table, train, workshop

EVERY = {"checkpoint_every_env_steps": 32}


class Grid(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(0, 1, (4, 3), np.float32)
    action_space = gym.spaces.Discrete(2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_not_there_is_an_error_and_not_a_slow_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no CUDA device"):
        train(tmp_path, [make_config(run={"device": "cuda"})])
    assert assembly.device_of(make_config(run={"device": "auto"})).type == "cpu"


def test_what_is_neither_vector_nor_image_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shape \(4, 3\)(.|\n)*FlattenObservation"):
        train(tmp_path, [make_config(env={"id": "Grid"})], factory=Grid)


def test_what_was_decided_at_the_start_is_recorded(tmp_path: Path) -> None:
    run = train(tmp_path, [make_config()])[0]
    record = Run(run.path).record
    assert record["engine"] == {
        "kind": "eager",
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "why": "run.engine=eager",
        "obs_shape": [4],
        "obs_flags": 0,
        "action": {"kind": "discrete", "sizes": [2]},
    }
    assert record["versions"]["torch"] == torch.__version__
    assert Run(run.path).config == make_config(), "the settings themselves are as they were"


def test_fresh_members_start_from_their_seeds_alone() -> None:
    at = workshop([make_config(seed=seed) for seed in (4, 7)])
    alone = workshop([make_config(seed=7)])
    assert torch.equal(at.learner.flat[1:], alone.learner.flat)
    assert not torch.equal(at.learner.flat[0], at.learner.flat[1])
    assert (at.learner.optimizer.steps == 0).all()


def test_members_whose_newest_checkpoints_differ_are_resumed_in_turn_and_end_as_if_never_stopped(tmp_path: Path) -> None:
    configs = [make_config(seed=seed, run=EVERY) for seed in range(3)]
    straight = train(tmp_path, configs)
    with pytest.raises(Interrupted):
        train(tmp_path, configs, callback=interrupt_at(128))
    # Each run is a group of its own here; the last three created are the broken ones, in the order of their seeds.
    broken = sorted(Store(tmp_path / "runs").runs()[-3:], key=lambda run: run.seed)
    newest = broken[1].checkpoint("@last")
    (newest.path / "manifest.json").unlink()
    groups, refused = assembly.group_by_step(broken, resume=True)
    assert sorted(len(group) for group in groups) == [1, 2]
    assert refused == []
    assert train_runs(broken, resume=True)
    for run, twin in zip(broken, straight, strict=True):
        assert_same_run(run, twin)
    assert "cannot be used" in broken[1].log


def test_a_run_that_never_got_a_checkpoint_starts_again(tmp_path: Path) -> None:
    config = make_config()
    straight = train(tmp_path, [config])[0]
    with pytest.raises(Interrupted):
        train(tmp_path, [config], callback=interrupt_at(32))
    broken = Store(tmp_path / "runs").runs()[-1]
    if broken.checkpoints:
        pytest.fail("the run must break before its first checkpoint")
    assert train_runs([broken], resume=True)
    assert_same_run(broken, straight)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = Store(tmp_path / "runs").create_group([make_config()]).runs[0]
    with RunWriter(run.path, ["time"]), pytest.raises(RunBusy):
        train_runs([run])
    assert table(run) == []


@pytest.mark.parametrize(("env_id", "flags"), [("FrozenLake-v1", 16), ("CartPole-v1", 0), ("Blackjack-v1", 45)])
def test_the_record_says_how_many_observed_numbers_are_yes_or_no(tmp_path: Path, env_id: str, flags: int) -> None:
    config = make_config(env={"id": env_id, "n_envs": 2, "normalize_obs": True}, run={"max_env_steps": 64, "eval_episodes": 0})
    run = train(tmp_path, [config])[0]
    assert Run(run.path).record["engine"]["obs_flags"] == flags
