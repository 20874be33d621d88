"""A start that is killed before any of its writes and asked for again with its key is one start: made once, charged once, begun once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlclinic.config import files, set_values
from rlclinic.ops.jobs import models, start, worker
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import OptimizeRequest, RaceRequest, SensitivityRequest, TrialRequest
from rlclinic.runs import disk, jobs, questions, trials
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.store import Store
from rlclinic.treatment.race import conduct as races
from rlclinic.treatment.sensitivity import study
from rlclinic.treatment.trial import arms, conduct
from tests.ops.jobs.test_start import Processes, processes, two_cores  # noqa: F401 — fixtures
from tests.treatment.pretended_training import pretend

CHANGE = ["algo.learning_rate=1e-3"]
SHORT = ["run.max_env_steps=2000"]
SICK = set_values(files.load("CartPole-v1:ppo_zoo", SHORT).config, ["algo.learning_rate=0.1"])


class Killed(BaseException):
    """Not an Exception: nobody catches a kill."""


class Blow:
    """Kills before the n-th time that anything is written or begun."""

    WRITES = ((disk, "write"), (disk, "append_line"), (disk, "reserve"), (disk, "point"), (connections, "transaction"))

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:  # noqa: F811
        self.left = 10**9
        for module, name in self.WRITES:
            monkeypatch.setattr(module, name, self._before(getattr(module, name)))
        monkeypatch.setattr(start.subprocess, "Popen", self._before(processes))

    def _before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return work(*args, **options)

        return do


def ask(kind: str, root: Path, **extra: Any) -> models.Job:
    more = {"runs_dir": root}
    if kind == "training":
        return start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=2, **more), idempotency_key="one")
    if kind in ("trial", "extension"):
        asked = {"extend": extra["tid"], "seeds": 4} if kind == "extension" else {"changes": CHANGE, "looks": 2, "per_look": 4}
        targets = [] if kind == "extension" else ["CartPole-v1:ppo_zoo"]
        return start.start_trial(TrialRequest(targets=targets, **asked, **more), idempotency_key="one")
    if kind == "race":
        return start.start_race(RaceRequest(targets=["CartPole-v1:ppo_zoo", "CartPole-v1:ppo"], rounds=1, **more), idempotency_key="one")
    if kind == "optimize":
        return start.start_optimize(
            OptimizeRequest(target="CartPole-v1:ppo_zoo", budget=600_000, run_env_steps=20_000, **more), idempotency_key="one"
        )
    return start.start_sensitivity(SensitivityRequest(target="CartPole-v1:ppo_zoo", only=["gamma"], seeds=3, **more), idempotency_key="one")


MADE = {
    "training": "@groups/*/group.json",
    "trial": "@trials/*/trial.json",
    "extension": "@trials/*/trial.json",
    "race": "@race/*/race.json",
    "optimize": "@optimize/*/ledger.json",
    "sensitivity": "@sensitivity/*/study.json",
}


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("kind", MADE)
def test_a_start_that_is_killed_before_any_of_its_writes_is_made_once(
    tmp_path: Path,
    processes: Processes,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    extra = {}
    if kind == "extension":
        with monkeypatch.context() as training:
            pretend(training, lambda _: 0.5)
            plan = conduct.plan(arms.control(SICK), [arms.changed(SICK, CHANGE, "change")], per_look=2, looks=1)
            ended = conduct.run(Store(tmp_path / "before"), plan, cores=1)
        assert ended.verdict == "undecided"
        extra["tid"] = ended.id
    blow, writes, whole = Blow(monkeypatch, processes), 0, False
    while not whole:
        root = tmp_path / f"killed-{writes}"
        if extra:
            _copy_trial(tmp_path / "before", root)
        processes.commands.clear()
        blow.left = writes
        try:
            ask(kind, root, **extra)
            whole = True
        except Killed:
            blow.left = 10**9
            ask(kind, root, **extra)
        blow.left = 10**9
        _check_made_once(kind, root, processes, f"killed before write {writes + 1}")
        writes += 1
    assert writes > 6, "the blows fell nowhere"


def _copy_trial(before: Path, root: Path) -> None:
    for file in before.glob("@*/**/*.json"):
        (root / file.relative_to(before)).parent.mkdir(parents=True, exist_ok=True)
        (root / file.relative_to(before)).write_bytes(file.read_bytes())


def _check_made_once(kind: str, root: Path, processes: Processes, when: str) -> None:  # noqa: F811
    store = Store(root)
    (made,) = root.glob(MADE[kind])
    (job,) = models.everything(store)
    assert (job.refers, job.state) == (made.parent.name, "starting"), when
    # A process whose number was not written down is there, too: it sees that a later attempt has the job, and ends.
    claimed = job_queue.find_claim(store, job.id)
    assert claimed is not None, when
    assert [int(command[-1]) == claimed.attempt for command in processes.commands].count(True) == 1, when
    assert [line["kind"] for line in jobs.lines(store, jobs.LEDGER) if "kind" in line] == [job.kind], when
    record = json.loads(made.read_text())
    if kind == "training":
        assert [run.id for run in store.runs()] == record["members"] == job.runs, when
    if kind in ("trial", "race"):
        assert (record["plan"] if kind == "trial" else record)["alpha"] == 0.05, when
        (history,) = questions.histories(store)
        assert [(attempt.refers, attempt.seed0) for attempt in history.asked] == [(job.refers, record["seed0"])], when
    if kind == "sensitivity":
        assert record["alpha"] == 0.05, when
    if kind == "extension":
        assert len(record["plan"]["extensions"]) == 1, when


@pytest.mark.usefixtures("two_cores")
def test_of_two_processes_that_were_made_for_one_job_the_later_one_does_it(
    tmp_path: Path,
    processes: Processes,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever started it was killed after the process was made and before its number was written down."""
    root = tmp_path / "runs"
    save = models.save

    def die(store: Store, job: models.Job) -> models.Job:
        if job.pid is not None:
            raise Killed
        return save(store, job)

    with monkeypatch.context() as killed:
        killed.setattr(models, "save", die)
        with pytest.raises(Killed):
            ask("training", root)
    with monkeypatch.context() as full:
        # No room for it now: it waits, and the process that nobody knows of must not take it.
        full.setattr(start, "_launch_next", lambda _: {})
        assert ask("training", root).state == "queued"
    (waiting,) = job_queue.list_rows(Store(root))
    assert worker._at_its_turn(Store(root), waiting.id, [], 1) is None
    again = ask("training", root)
    first, second = (command[-1] for command in processes.commands)
    assert (first, second) == ("1", "2")
    assert worker._at_its_turn(Store(root), again.id, [], int(first)) is None
    ours = worker._at_its_turn(Store(root), again.id, [], int(second))
    assert ours is not None
    assert ours.state == "running"


@pytest.mark.parametrize("kind", ["trial", "race", "sensitivity"])
def test_what_was_killed_before_it_was_written_down_has_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    store = Store(tmp_path)
    module, alpha, begin = _asks(store, kind)

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as killed:
        killed.setattr(module, "_write", die)
        with pytest.raises(Killed):
            begin()
    assert questions.histories(store) == []
    assert alpha() == 0.05
    begun = begin()
    charged = alpha()
    assert charged < 0.05, "one that began was asked"
    place = trials.folder(store, begun.id) if kind == "trial" else tmp_path / f"@{kind}" / begun.id
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    assert alpha() == charged, "removing it does not give the error back"


def _asks(store: Store, kind: str) -> tuple[Any, Callable[[], float], Callable[[], Any]]:
    """The module that writes it down, what it would be allowed to err by now, and what begins it."""
    treated = [arms.changed(SICK, CHANGE, "change")]
    if kind == "trial":
        from rlclinic.treatment.trial import questions as charges

        plan = conduct.plan(arms.control(SICK), treated, per_look=4, looks=2)
        return conduct, lambda: charges.charge(store, plan).alpha, lambda: conduct.begin(store, plan)
    if kind == "race":
        raced = races.plan([arms.control(SICK), *treated], rounds=1)
        return races, lambda: races.charge(store, raced).trial.alpha, lambda: races.begin_race(store, raced)
    scope = study.Scope(only=["gamma"], seeds=3)
    return study, lambda: study.plan(store, "x", SICK, scope).alpha, lambda: study.start(store, study.plan(store, "x", SICK, scope))
