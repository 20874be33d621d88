"""An environment that does not come back: it is said, and a stop or SIGTERM ends the run with what it has."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import Config, files
from rlclinic.ops.diagnose.diagnose import diagnose
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

CHANGES = [
    "env.id=tests.attack.hanging_envs:Hangs",
    "env.n_envs=2",
    "algo.n_steps=32",
    "algo.batch_size=64",
    "run.max_env_steps=100000",
    "run.eval_episodes=0",
    "run.checkpoint_every_env_steps=64",
]


@pytest.fixture(autouse=True)
def _these_environments_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLCLINIC_TRUST", "all")


def config(*changes: str) -> Config:
    return files.load("CartPole-v1:ppo", [*CHANGES, *changes]).config


def start(run: Run) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "rlclinic.training", str(run.path)], stderr=subprocess.DEVNULL, env={**os.environ})


def wait(until: Callable[[], Any], seconds: float = 40.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := until():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def said(run: Run) -> str:
    return (run.path / "run.log").read_text() if (run.path / "run.log").exists() else ""


@pytest.mark.parametrize("how", ["asleep", pytest.param("going round", marks=pytest.mark.loop)])
def test_a_run_whose_environment_hangs_ends_after_its_timeout_with_its_rows(tmp_path: Path, how: str) -> None:
    (run,) = Store(tmp_path).create_group([config(f"env.kwargs={{how: {how}}}", "env.step_timeout=3")]).runs
    with start(run) as process:
        assert process.wait(timeout=60) == 1
    assert "has not come back" in said(run)
    status = run.status
    assert status.state == "failed"
    assert "env 0" in (status.reason or "")
    assert len(run.metrics) >= 3
    assert run.checkpoints[-1].valid


@pytest.mark.parametrize("how", ["stop", pytest.param("SIGTERM", marks=pytest.mark.loop)])
def test_status_and_diagnosis_say_which_environment_hangs_and_a_stop_ends_it(tmp_path: Path, how: str) -> None:
    quick = (
        "from rlclinic.training.loops import watchdog; watchdog.SAY_SECONDS, watchdog.GRACE_SECONDS = 2.0, 2.0; "
        "from rlclinic.training.__main__ import main; main()"
    )
    (run,) = Store(tmp_path).create_group([config()]).runs
    with subprocess.Popen([sys.executable, "-c", quick, str(run.path)], stderr=subprocess.DEVNULL, env={**os.environ}) as process:
        wait(lambda: "has not come back" in (run.status.reason or ""))
        assert run.status.state == "running"
        assert "has not come back" in said(run)
        assert "hangs at" in str(diagnose(run.id, tmp_path, write=False).model_dump_json())
        if how == "stop":
            run.ask(stop=True)
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert run.status.state == "stopped"
    assert run.checkpoints[-1].valid


@pytest.mark.loop
def test_a_worker_process_that_hangs_is_killed(tmp_path: Path) -> None:
    (run,) = Store(tmp_path).create_group([config("env.workers=2", "env.step_timeout=2")]).runs
    with start(run) as process:
        assert process.wait(timeout=60) == 1
    assert run.status.state == "failed"
    assert "worker process" in (run.status.reason or "")
    assert "did not come back within" in (run.status.reason or "")


def test_without_a_timeout_the_settings_are_what_they_were() -> None:
    plain = files.load("CartPole-v1:ppo").config
    assert "step_timeout" not in plain.model_dump(mode="json")["env"]
