"""One launcher: killed workers are taken up again, failures are not, requests to stop are obeyed. Where it matters, training is real."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import Config, load, set_values
from rlclinic.launch import batch, local
from rlclinic.launch.batch import Interrupted, Study
from rlclinic.runs import launcher_status, studies
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter

KILLED = "killed by SIGKILL: by a person, or by the kernel for want of memory (dmesg tells)"


class Scripted:
    """Stands in for local.start: each launch ends its runs as the script says; a run that is not in it finishes."""

    def __init__(self, script: Callable[[int, Run], tuple[str, str | None]]) -> None:
        self._script = script
        self.launches: list[list[str]] = []
        self.resumed: list[bool] = []
        self.stopping = self.aborted = False

    def start(self, cohorts: Sequence[Sequence[Path]], *, resume: bool = False, **_: Any) -> "Scripted":
        self.runs = [Run(path) for cohort in cohorts for path in cohort]
        self.launches.append([run.id for run in self.runs])
        self.resumed.append(resume)
        return self

    def wait(self, timeout: float | None = None, tick: Callable[[], None] | None = None) -> bool:
        for run in self.runs:
            state, reason = self._script(len(self.launches), run)
            with RunWriter(run.path, ["total_timesteps"]) as writer:
                writer.status(state, 100, reason=reason)
            if tick is not None:
                tick()
        return True

    def stop(self) -> None:
        self.stopping = True

    def abort(self) -> None:
        self.stopping = self.aborted = True


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    base = Config.model_validate({"env": {"id": "CartPole-v1"}})
    return Store(tmp_path / "runs").create_group([base.model_copy(update={"seed": seed}) for seed in range(3)], name="g").runs


def play(monkeypatch: pytest.MonkeyPatch, script: Callable[[int, Run], tuple[str, str | None]]) -> Scripted:
    scripted = Scripted(script)
    monkeypatch.setattr(local, "start", scripted.start)
    return scripted


def test_a_killed_worker_is_taken_up_again_and_a_failure_is_not(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {0: ("failed", KILLED), 1: ("failed", "loss is nan at env step 100"), 2: ("finished", None)}
    played = play(monkeypatch, lambda launch, run: ends[run.seed] if launch == 1 else ("finished", None))
    assert batch.train_runs(runs, processes=2)
    assert played.launches == [[run.id for run in runs], [runs[0].id]]
    assert played.resumed == [False, True]
    assert [run.status.state for run in runs] == ["finished", "failed", "finished"]


@pytest.mark.parametrize("restarts", [0, 1, batch.RESTARTS])
def test_a_worker_that_is_killed_again_and_again_counts_as_failed_in_the_end(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch, restarts: int
) -> None:
    played = play(monkeypatch, lambda launch, run: ("failed", KILLED))
    assert batch.train_runs(runs, processes=2, restarts=restarts)
    assert len(played.launches) == restarts + 1
    assert {run.status.state for run in runs} == {"failed"}


def test_a_run_that_never_got_its_turn_in_killed_workers_has_used_up_no_restart(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of three in one worker is killed each time: the others wait behind it, and begin when it is given up."""
    played = play(monkeypatch, lambda launch, run: ("failed", KILLED) if run.seed == 0 else ("finished", None))
    write = played.wait

    def wait(timeout: float | None = None, tick: Callable[[], None] | None = None) -> bool:
        first = next((run for run in played.runs if run.seed == 0), None)
        if first is None:
            return write(timeout, tick)
        with RunWriter(first.path, ["total_timesteps"], 0) as writer:
            writer.status("failed", 100, reason=KILLED)
        for run in played.runs:
            if run.seed != 0:
                launcher_status.close(run.path, "failed", KILLED)
        return True

    monkeypatch.setattr(played, "wait", wait)
    assert batch.train_runs(runs, processes=2)
    assert [run.status.state for run in runs] == ["failed", "finished", "finished"]
    assert len(played.launches) == batch.RESTARTS + 2


def test_runs_that_were_given_up_are_not_taken_up_again(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(monkeypatch, lambda launch, run: ("stopped", "asked to stop"))
    assert batch.train_runs(runs, processes=2, given_up=lambda: {run.id for run in runs[1:]})
    assert played.launches == [[run.id for run in runs], [runs[0].id], [runs[0].id]]


@pytest.mark.parametrize(("requests", "aborted"), [(1, False), (2, True)])
def test_one_request_stops_and_a_second_does_not_wait(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch, requests: int, aborted: bool
) -> None:
    played = play(monkeypatch, lambda launch, run: ("stopped", "asked to stop"))
    said: list[str] = []
    assert not batch.train_runs(runs, processes=2, stop=lambda: requests, say=said.append)
    assert (played.stopping, played.aborted, len(played.launches)) == (True, aborted, 1)
    assert said[0].startswith("aborting" if aborted else "stopping after a checkpoint")


def small(*changes: str) -> Config:
    return set_values(
        load("CartPole-v1:ppo_zoo").config,
        ["run.max_env_steps=8192", "run.eval_every_env_steps=1024", "run.eval_episodes=1", *changes],
    )


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fast machine a small study is over before the second look at it."""
    monkeypatch.setattr(batch, "OBSERVE_SECONDS", 0.02)


def train_study(root: Path, watch: Callable[[batch.Progress], None] | None = None, stop: Callable[[], int] | None = None) -> list[bytes]:
    """A study of one config and two seeds, trained for real; what its runs have written but for the clock."""
    store = Store(root)
    (root / "@optimize" / "o1").mkdir(parents=True, exist_ok=True)
    groups = batch.train(Study(store, "optimize", "o1", cores=1, watch=watch, stop=stop), {"start": small()}, [3, 4])
    assert [run.status.state for run in groups["start"].runs] == ["finished", "finished"]
    return [_without_clock(run) for run in groups["start"].runs]


def _without_clock(run: Run) -> bytes:
    table = run.metrics
    kept = [name for name in table.names if not name.startswith("time")]
    return b"".join(table[name].tobytes() for name in kept)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What the study comes to that nothing happens to."""
    return train_study(tmp_path_factory.mktemp("whole"))


@pytest.mark.usefixtures("looks_often")
def test_a_study_whose_worker_is_killed_comes_out_as_if_nothing_had_happened(tmp_path: Path, whole: list[bytes]) -> None:
    killed: list[int] = []

    def kill_once(progress: batch.Progress) -> None:
        run = studies.groups(Store(tmp_path / "killed"), "o1")["o1 start"].runs[0]
        if progress.env_steps > 500 and not killed and run.status.pid and run.status.state == "running":
            killed.append(run.status.pid)
            os.kill(run.status.pid, signal.SIGKILL)

    again = train_study(tmp_path / "killed", watch=kill_once)
    assert killed, "the worker was to be killed"
    assert again == whole
    run = Store(tmp_path / "killed").runs()[0]
    assert run.status.reason is None


@pytest.mark.usefixtures("looks_often")
def test_an_interrupted_study_goes_on_with_the_same_call(tmp_path: Path, whole: list[bytes]) -> None:
    asked: list[int] = []

    def stop_soon(progress: batch.Progress) -> None:
        if progress.env_steps > 500:
            asked.append(1)

    with pytest.raises(Interrupted, match="goes on with it"):
        train_study(tmp_path / "stopped", watch=stop_soon, stop=lambda: min(len(asked), 1))
    assert train_study(tmp_path / "stopped") == whole
