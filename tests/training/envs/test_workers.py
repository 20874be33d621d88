"""Environments in other processes: the same trajectories, and a dead worker that takes down its own members only."""

import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import pytest
import torch

from rlclinic.config import EnvConfig
from rlclinic.errors import ConfigError, UsageError
from rlclinic.training import envs
from rlclinic.training.envs.workers import _shares
from tests.training.envs import toys


def test_workers_reproduce_the_trajectories_of_one_process() -> None:
    fields: Any = {"id": "CartPole-v1", "native": "never", "max_episode_steps": 15}
    here, there = envs.make(EnvConfig(**fields), [0, 1], 3), envs.make(EnvConfig(**fields, workers=2), [0, 1], 3)
    try:
        assert torch.equal(here.reset(), there.reset())
        generator = torch.Generator().manual_seed(0)
        kept = []
        for _ in range(60):
            action = torch.randint(0, 2, (2, 3), generator=generator)
            ours, theirs = here.step(action), there.step(action)
            for name, x, y in zip(ours._fields, ours, theirs, strict=True):
                assert (x is None) == (y is None)
                assert x is None or torch.equal(x.nan_to_num(9.0), y.nan_to_num(9.0)), name
            kept.append((theirs.next_obs, theirs.next_obs.clone()))
        assert all(torch.equal(x, y) for x, y in kept)
        assert there.max_episode_steps == 15
        assert torch.equal(here.load_state(here.state()), there.load_state(there.state()))
        with pytest.raises(UsageError, match=r"env\.workers=0"):
            there.render()  # type: ignore[attr-defined]
    finally:
        there.close()


def test_evaluation_masks_and_kwargs_work_in_workers_too() -> None:
    fields: Any = {"id": "Own", "action_mask": True, "kwargs": {"length": 3}}
    here = envs.make(EnvConfig(**fields), [0], 4, evaluation=True, factory=toys.Masked)
    there = envs.make(EnvConfig(**fields, workers=2), [0], 4, evaluation=True, factory=toys.Masked)
    try:
        for _ in range(2):
            assert torch.equal(here.reset(), there.reset())
            for _ in range(5):
                ours, theirs = here.step(torch.ones((1, 4), dtype=torch.int64)), there.step(torch.ones((1, 4), dtype=torch.int64))
                for x, y in zip(ours, theirs, strict=True):
                    assert (x is None) is (y is None)
                    assert x is None or y is None or torch.equal(x.nan_to_num(9.0), y.nan_to_num(9.0))
    finally:
        there.close()


def test_a_retired_member_is_dropped_by_its_worker_and_its_rows_mean_nothing() -> None:
    env: Any = envs.make(EnvConfig(id="Own", workers=2, kwargs={"length": 3}), [0, 1], 2, factory=toys.Walk)
    here = envs.make(EnvConfig(id="Own", kwargs={"length": 3}), [0, 1], 2, factory=toys.Walk)
    try:
        env.reset(), here.reset()
        action = torch.ones((2, 2), dtype=torch.int64)
        for _ in range(3):  # the last one ends an episode: its flags must not stay behind
            env.step(action), here.step(action)
        env.retire([0])
        for _ in range(4):
            step, other = env.step(action), here.step(action)
            assert torch.equal(step.next_obs[1], other.next_obs[1])
            assert not any(tensor[0].any() for tensor in step[:5])
        assert torch.equal(env.reset()[1], here.reset()[1])
        assert env.failures == {}
    finally:
        env.close()


def test_a_killed_worker_fails_the_members_it_stepped_and_no_other() -> None:
    env: Any = envs.make(EnvConfig(id="Own", workers=2), [0, 1], 3, factory=toys.Walk)
    here = envs.make(EnvConfig(id="Own"), [0, 1], 3, factory=toys.Walk)
    ones = torch.ones((2, 3), dtype=torch.int64)
    try:
        env.reset()
        here.reset()
        assert torch.equal(env.step(ones).obs, here.step(ones).obs)
        os.kill(env._backend._crew[1]._process.pid, signal.SIGKILL)
        for _ in range(10):
            ours, theirs = env.step(ones), here.step(ones)
            assert all(torch.equal(x[0], y[0]) for x, y in zip(ours[:5], theirs[:5], strict=True))
            assert not any(x[1].any() for x in ours[:5])
        assert set(env.failures) == {1}
        message = str(env.failures[1])
        assert "was killed by SIGKILL" in message
        assert "envs 0-2" in message
        assert "Try: rlclinic train --resume" in message
    finally:
        env.close()


def test_an_env_that_fails_in_a_worker_is_reported_as_in_one_process() -> None:
    kwargs = {"fault": "raise", "at": 6, "share": 0.12}
    env = envs.make(EnvConfig(id="Own", workers=2, kwargs=kwargs), [0, 1, 2], 3, factory=toys.Faulty)
    here = envs.make(EnvConfig(id="Own", kwargs=kwargs), [0, 1, 2], 3, factory=toys.Faulty)
    try:
        env.reset()
        here.reset()
        for index in range(12):
            action = torch.full((3, 3), index % 3)
            ours, theirs = env.step(action), here.step(action)
            assert all(torch.equal(x, y) for x, y in zip(ours[:5], theirs[:5], strict=True))
        assert 0 < len(env.failures) < 3
        assert {member: str(error) for member, error in env.failures.items()} == {m: str(error) for m, error in here.failures.items()}
    finally:
        env.close()


def test_an_env_registered_by_the_users_script_reaches_the_workers() -> None:
    gym.register("InScript-v0", entry_point=toys.Walk, max_episode_steps=3)
    env = envs.make(EnvConfig(id="InScript-v0", workers=1), [0], 1)
    try:
        env.reset()
        assert not env.failures
    finally:
        env.close()
        gym.registry.pop("InScript-v0")


def test_an_env_that_no_other_process_can_import_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"(?s)env.workers=1: .*cannot be sent to another process.*--set env.workers=0"):
        envs.make(EnvConfig(id="Own", workers=1), [0], 1, factory=lambda: toys.Walk())


def test_an_env_that_cannot_be_made_in_a_worker_is_refused() -> None:
    once = toys.MadeHereOnly
    with pytest.raises(ConfigError, match="only where it was written"):
        envs.make(EnvConfig(id="Own", workers=1, kwargs={"pid": os.getpid()}), [0], 1, factory=once)


def test_workers_of_a_registered_env_do_not_run_the_users_script_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_text("raise SystemExit('run again')")
    script: Any = ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    env = envs.make(EnvConfig(id="CartPole-v1", native="never", workers=1), [0], 1)
    try:
        assert env.reset().shape == (1, 1, 4)
        assert not env.failures
        assert sys.modules["__main__"] is script
    finally:
        env.close()


def test_no_worker_outlives_its_env() -> None:
    env: Any = envs.make(EnvConfig(id="Own", workers=2), [0], 2, factory=toys.Walk)
    processes = [hand._process for hand in env._backend._crew]
    assert all(process.is_alive() for process in processes)
    env.close()
    assert [process.exitcode for process in processes] == [0, 0]


@pytest.mark.parametrize(("shape", "workers"), [((1, 8), 2), ((2, 3), 2), ((4, 8), 3), ((3, 5), 4), ((1, 1), 1)])
def test_shares_cover_every_env_once_and_keep_members_together(shape: tuple[int, int], workers: int) -> None:
    shares = _shares(shape, workers)
    assert len(shares) == workers
    rows = [(part.member, n) for parts in shares for part in parts for n in range(part.first, part.stop)]
    assert rows == [(m, n) for m in range(shape[0]) for n in range(shape[1])]
    if shape == (2, 3):
        assert [[part.member for part in parts] for parts in shares] == [[0], [1]]
