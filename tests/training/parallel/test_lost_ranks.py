"""A rank that is killed or paused ends the run with its name, and a resume goes on."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rlclinic.runs.record import Run
from rlclinic.training.__main__ import train_runs
from rlclinic.training.parallel import ranks, watch
from rlclinic.training.parallel.ranks import Ranks
from rlclinic.training.parallel.watch import RankLost
from tests.training.cohorts import assert_same_run, train
from tests.training.parallel.test_ranks import config_of


def test_a_killed_rank_is_named_at_once_and_the_run_resumes(tmp_path: Path) -> None:
    straight = train(tmp_path / "straight", [config_of(2, 6)])[0]
    killed = []

    def kill(row: dict[str, Any]) -> None:
        if row["total_timesteps"] >= 384 and not killed:
            killed.append(time.monotonic())
            os.kill(next(iter(_children())), signal.SIGKILL)

    with pytest.raises(RankLost, match="killed by SIGKILL"):
        train(tmp_path / "killed", [config_of(2, 6)], callback=kill)
    assert time.monotonic() - killed[0] < 10
    run = Run(next((tmp_path / "killed" / "runs").glob("*-s*")))
    assert run.status.state == "failed"
    assert "rank 1 (process" in (run.status.reason or "")
    assert "collective" in (run.status.reason or "")
    assert run.checkpoint("@last").step == 192
    assert train_runs([run], resume=True)
    assert_same_run(run, straight)


def _children() -> list[int]:
    return [process.pid for process in _begun[-1]._children]


_begun: list[Ranks] = []


@pytest.fixture(autouse=True)
def remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks that a test starts."""
    _begun.clear()
    begin = ranks.begin
    monkeypatch.setattr(ranks, "begin", lambda *given: _begun.append(begin(*given)) or _begun[-1])


def test_a_paused_rank_is_named_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOST_SECONDS", 4.0)
    monkeypatch.setattr(watch, "SAY_SECONDS", 1.0)

    def pause(row: dict[str, Any]) -> None:
        if row["total_timesteps"] == 192:
            os.kill(_children()[0], signal.SIGSTOP)

    with pytest.raises(RankLost, match=r"rank 1 was not heard of for [45] s"):
        train(tmp_path, [config_of(2, 6)], callback=pause)
    run = Run(next((tmp_path / "runs").glob("*-s*")))
    assert "waits for rank 1" in (run.path / "run.log").read_text()
    assert "in collective" in (run.status.reason or "")


def test_a_rank_that_cannot_start_is_named_and_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "FOLLOWER", "rlclinic.no_such_module")
    with pytest.raises(RankLost, match=r"rank 1 \(process \d+\) ended with exit code 1"):
        train(tmp_path, [config_of(2, 6)])
