"""`python -m rlclinic.training`: exit statuses and signals."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.training import __main__
from rlclinic.training.__main__ import train_runs
from tests.launch.warm import Warm
from tests.training.cohorts import assert_same_run, make_config


@pytest.fixture
def handlers() -> Iterator[None]:
    """The command takes SIGINT and SIGTERM over; give them back to pytest afterwards."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


def made(folder: Path, **changes: Any) -> Run:
    return Store(folder / "runs").create_group([make_config(**changes)]).runs[0]


@pytest.mark.usefixtures("handlers")
def test_a_run_that_finishes_gives_zero_and_one_that_fails_one(tmp_path: Path) -> None:
    assert __main__.main([str(made(tmp_path).path)]) == 0
    ruined = made(tmp_path, algo={"optimizer": "sgd", "learning_rate": 1e30, "max_grad_norm": 1e30})
    assert __main__.main([str(ruined.path)]) == 1
    assert ruined.status.state == "failed"


@pytest.mark.usefixtures("handlers")
def test_an_error_is_told_on_stderr_with_its_own_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main([str(tmp_path / "nothing")]) == 3
    assert "config.json" in capsys.readouterr().err
    finished = made(tmp_path)
    assert __main__.main([str(finished.path)]) == 0
    assert __main__.main([str(finished.path)]) == 1
    assert "--resume" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_checkpoints_and_stops_where_a_callback_would_have_stopped(tmp_path: Path, warm: Warm, number: signal.Signals) -> None:
    endless: dict[str, Any] = {"run": {"max_env_steps": 10_000_000, "eval_episodes": 0}}
    run, twin = made(tmp_path, **endless), made(tmp_path, **endless)
    process = warm.start(run.path, printed=tmp_path / "printed")
    deadline = time.monotonic() + 60
    while not run.latest.get("total_timesteps") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(60) == 0
    assert run.status.state == "stopped"
    assert run.status.reason == "asked to stop"
    last = run.checkpoint("@last").step
    assert train_runs([twin], callback=lambda row: row["total_timesteps"] < last)
    assert_same_run(run, twin)
