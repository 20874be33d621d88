"""Runs begun before a defect was corrected: they go on as they began, or are refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from rlclinic.config import Config, corrections
from rlclinic.runs import disk
from rlclinic.runs.record import CONFIG, Run
from rlclinic.runs.store import Store
from rlclinic.training import assembly
from rlclinic.training.__main__ import train_runs
from rlclinic.training.assembly import Factory
from rlclinic.training.envs.native.probes import ProbeEnv
from tests.training.cohorts import Interrupted, assert_same_run, interrupt_at, make_config, saved, train
from tests.training.tasks import PayingVector, Slippery


@contextmanager
def before_any_correction() -> Iterator[None]:
    """Train as it was done when no correction had been made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corrections, "CORRECTIONS", {})
        patch.setattr(assembly, "CORRECTIONS", {})
        yield


def interrupted(folder: Path, config: Config, factory: Factory | None = None) -> Run:
    run = Store(folder / "runs").create_group([config]).runs[0]
    with pytest.raises(Interrupted):
        train_runs([run], factory=factory, callback=interrupt_at(config.run.max_env_steps // 2 + 50))
    assert run.checkpoints
    return Run(run.path)


A2C = make_config("a2c", run={"checkpoint_every_env_steps": 100})


def test_an_a2c_run_begun_with_the_old_rmsprop_resumes_and_forks_with_it(tmp_path: Path) -> None:
    with before_any_correction():
        whole = train(tmp_path / "old", [A2C])[0]
        old = interrupted(tmp_path / "cut", A2C)
    fork = train(tmp_path / "cut", [old.config], parent=f"{old.id}@{old.checkpoints[-1].step}", start="fork")[0]
    train_runs([old], resume=True)
    assert_same_run(whole, old)
    assert saved(whole) == saved(fork)
    anew = train(tmp_path / "new", [old.config])[0]
    assert saved(anew) != saved(whole)


def test_a_run_begun_when_equal_advantages_were_standardized_to_their_rounding_goes_on_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One observation, one reward, one step: all advantages of a minibatch are equal, and their mean over 21 rows is rounded.
    monkeypatch.setattr(ProbeEnv, "_reward", lambda self, obs, action: torch.ones_like(obs))
    run = {"checkpoint_every_env_steps": 64, "max_env_steps": 420}
    equal = make_config(env={"id": "probe:4"}, algo={"n_steps": 21, "batch_size": 21}, run=run)
    with before_any_correction():
        whole = train(tmp_path / "old", [equal])[0]
        old = interrupted(tmp_path / "cut", equal)
    train_runs([old], resume=True)
    assert_same_run(whole, old)
    assert saved(train(tmp_path / "new", [equal])[0]) != saved(whole)


def test_an_old_run_without_a_checkpoint_starts_again_with_every_correction(tmp_path: Path) -> None:
    with before_any_correction():
        run = Store(tmp_path / "runs").create_group([A2C]).runs[0]
    assert not run.corrections
    train_runs([run], resume=True)
    assert Run(run.path).corrections == set(corrections.CORRECTIONS)
    assert saved(run) == saved(train(tmp_path, [run.config])[0])


def test_a_run_whose_old_meaning_is_no_longer_known_is_refused_and_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = interrupted(tmp_path, A2C)
    kept = saved(run)
    monkeypatch.setitem(corrections.CORRECTIONS, "later", corrections.Correction("two was three", lambda config, skips: True))
    with pytest.raises(assembly.RunError, match="begun when two was three"):
        train_runs([run], resume=True)
    assert saved(run) == kept


def replay_config(kind: str, **changes: Any) -> Config:
    return make_config(kind, run={"checkpoint_every_env_steps": 100, "eval_episodes": 0}, **changes)


TOUCHED: dict[str, tuple[Config, Factory | None]] = {
    "reset_rows_under_wrappers": (replay_config("dqn", env={"id": "Paying", "frame_stack": 2}), PayingVector),
    "uncounted_rows_without_priority": (replay_config("dqn", env={"id": "Paying"}, algo={"prioritized": True}), PayingVector),
    "n_step_rewards_clipped_one_by_one": (
        replay_config("dqn", env={"id": "CartPole-v1", "normalize_reward": True}, algo={"n_step": 2}),
        None,
    ),
    "masked_q_targets": (replay_config("dqn", env={"id": "Slippery", "action_mask": True}), Slippery),
    "reinforce_gae_lambda": (
        make_config("reinforce", run={"max_env_steps": 480, "checkpoint_every_env_steps": 100}, algo={"gae_lambda": 0.9}),
        None,
    ),
    "sac_action_noise": (
        replay_config("sac", env={"id": "Pendulum-v1", "max_episode_steps": 10}, algo={"action_noise": "gaussian", "n_step": 1}),
        None,
    ),
    "stages_by_their_own_arguments": (
        make_config(
            "ppo",
            env={"id": "Maze-v0", "n_envs": 4, "max_episode_steps": 14},
            algo={"normalize_advantage": "off"},
            curriculum={"stages": [{"name": "small", "env": {"size": 5}}, {"name": "large", "env": {"size": 7, "levels": 20}}]},
            run={"max_env_steps": 480, "checkpoint_every_env_steps": 96, "eval_episodes": 0},
        ),
        None,
    ),
}
"""A config for each correction whose old meaning is gone, which it touches and no other does."""


def test_there_is_a_config_for_every_correction_whose_old_meaning_is_gone() -> None:
    assert set(TOUCHED) == {name for name, correction in corrections.CORRECTIONS.items() if not correction.goes_on}


@pytest.mark.parametrize("name", TOUCHED)
def test_a_run_that_a_correction_touches_is_resumed_only_if_it_was_begun_with_it(tmp_path: Path, name: str) -> None:
    config, factory = TOUCHED[name]
    run = interrupted(tmp_path, config, factory)
    disk.write_json(run.path / CONFIG, run.record | {"corrections": [each for each in corrections.CORRECTIONS if each != name]})
    with pytest.raises(assembly.RunError, match=name):
        train_runs([Run(run.path)], resume=True, factory=factory)
    disk.write_json(run.path / CONFIG, run.record)
    assert train_runs([Run(run.path)], resume=True, factory=factory)
