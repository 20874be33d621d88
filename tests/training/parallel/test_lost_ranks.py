"""A rank that is killed or paused ends the run with its name, and a resume goes on."""

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
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


class Words:
    """What ranks have said, as a store keeps it."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.kept[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)

    def get(self, key: str) -> bytes:
        return self.kept[key].encode()


@pytest.mark.parametrize(("seconds_between_looks", "lost"), [(0.5, True), (30.0, False)])
def test_silence_counts_only_while_rank_0_itself_looks(seconds_between_looks: float, lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept, or was paused as a whole, holds up all ranks: the first look after it must not call one of them lost."""
    clock = [1000.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    words, pulse = Words(), watch.Pulse()
    heart = watch.Heart(words, 0, 2, pulse)
    pulse.enter("gradient")
    words.set("rlclinic/rank/1", json.dumps(watch.Beat(1, None, "learning", 0.1, 1)))
    looks = round(watch.LOST_SECONDS / 0.5) + 2
    for count in range(looks if lost else 3):
        heart._look(count)
        clock[0] += seconds_between_looks
    assert (heart.reason is not None) == lost, heart.reason
    if lost:
        assert (heart.reason or "").startswith(f"rank 1 was not heard of for {watch.LOST_SECONDS:.0f} s")
        return
    # It speaks again, and is as good as ever.
    words.set("rlclinic/rank/1", json.dumps(watch.Beat(1, "gradient", "learning", 0.1, 2)))
    for count in range(8):
        heart._look(count)
        clock[0] += 0.1
    assert heart.reason is None


@pytest.mark.parametrize(
    ("code", "says"), [(-11, "was killed by SIGSEGV"), (-35, "was killed by signal 35"), (3, "ended with exit code 3"), (None, None)]
)
def test_however_the_process_of_a_rank_ends_it_is_named(code: int | None, says: str | None) -> None:
    """gloo, whose link breaks, may end a process from within."""
    killed: list[int] = []
    child = SimpleNamespace(pid=4711, poll=lambda: code, kill=lambda: killed.append(1))
    heart = watch.Heart(Words(), 0, 2, watch.Pulse(), [child])  # type: ignore[list-item]
    heart._look(1)
    assert heart.reason == (says and f"rank 1 (process 4711) {says}")
    assert len(killed) == (says is not None)


@pytest.mark.parametrize(("looks", "hangs"), [(3, False), (12, True)])
def test_collectives_that_cannot_meet_are_called_so_after_seconds_of_looking_not_after_a_sleep(
    looks: int, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    words, pulse = Words(), watch.Pulse()
    heart = watch.Heart(words, 0, 2, pulse)
    pulse.enter("gradient")
    clock[0] += 60.0
    for count in range(looks):
        # The other one has gone further, and rank 0 would have followed it in a moment, had the machine not slept for a minute.
        words.set("rlclinic/rank/1", json.dumps(watch.Beat(2, "announcement", "learning", 60.0 + count, count + 1)))
        heart._look(count)
        clock[0] += 0.5 if hangs or count else 60.0
    assert ("hanging collective" in (heart.reason or "")) == hangs


def test_a_rank_that_cannot_start_is_named_and_nothing_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "FOLLOWER", "rlclinic.no_such_module")
    with pytest.raises(RankLost, match=r"rank 1 \(process \d+\) ended with exit code 1"):
        train(tmp_path, [config_of(2, 6)])
