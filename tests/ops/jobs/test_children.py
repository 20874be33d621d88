"""Trials and searches whose cohorts are jobs of their own: the same results as on one machine, and no cores held while they wait."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlclinic.config import files
from rlclinic.launch import local
from rlclinic.ops.compare import regress
from rlclinic.ops.compare.requests import RegressRequest
from rlclinic.ops.jobs import models, pool, progress, start
from rlclinic.ops.treat import trial
from rlclinic.ops.treat.requests import OptimizeRequest, TrialRequest
from rlclinic.runs import trials
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group, rising

STEPS = 512


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(connections.VARIABLE, "sqlite")
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.05)
    return Store(tmp_path / "runs")


@pytest.fixture
def make_worker(store: Store) -> Iterator[Callable[..., pool.Worker]]:
    made: list[pool.Worker] = []

    def make(**options: object) -> pool.Worker:
        made.append(pool.Worker(store, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for worker in made:
        for child in worker.children:
            pool.kill_session(child.process.pid)
            child.process.wait()


def request(store: Store) -> TrialRequest:
    return TrialRequest(
        targets=["CartPole-v1:ppo_zoo"],
        changes=["algo.gamma=0.9"],
        max_env_steps=STEPS,
        looks=1,
        per_look=2,
        seed0=7_000,
        runs_dir=store.root,
    )


def rows_of(store: Store, tid: str) -> dict[tuple[str, int], np.ndarray]:
    """What every run of a trial logged, less what depends on the clock."""
    return {
        (str(group.label).partition(" ")[2], run.config.seed): np.stack(
            [run.metrics[name] for name in run.metrics.names if not name.startswith("time")]
        )
        for group in trials.groups(store, tid)
        for run in group.runs
    }


def test_a_trial_whose_arms_are_jobs_comes_out_as_on_one_machine(
    store: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start.start_trial(request(store))
    assert [row.cores for row in job_queue.list_rows(store)] == [0]
    # One job at a time: a parent that counted would wait for its children forever.
    make_worker(cores=1, most=1).work(stop=lambda: 0, until_empty=True)
    ended = models.load(store, job.id)
    assert ended is not None
    assert (ended.state, ended.reason) == ("finished", None)
    made = [child for child in models.everything(store) if child.parent == job.id]
    assert {child.state for child in made} == {"finished"}
    assert sorted(run for child in made for run in child.runs) == sorted(
        run.id for group in trials.groups(store, str(job.refers)) for run in group.runs
    )
    assert [listed.id for listed in start.list_jobs(store.root).jobs] == [job.id]
    monkeypatch.delenv(connections.VARIABLE)
    here = Store(tmp_path / "here")
    local = trial.run_trial(trial.plan_trial(request(here)), here.root)
    there = trial.show_trial(str(job.refers), store.root)
    assert there.trial.verdict == local.trial.verdict
    assert [arm.n for arm in there.trial.arms] == [arm.n for arm in local.trial.arms]
    one, other = rows_of(store, there.trial.id), rows_of(here, local.trial.id)
    assert one.keys() == other.keys() != set()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])


def test_a_gate_whose_looks_are_jobs_comes_out_as_on_one_machine(
    store: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(root: Path) -> RegressRequest:
        baseline = record_group(root, range(4), rising)
        changes = [f"run.max_env_steps={STEPS}"]
        return RegressRequest(
            baseline=baseline.id, candidate="CartPole-v1:ppo_zoo", looks=2, per_look=2, seed0=7_000, changes=changes, runs_dir=root
        )

    job = start.start_regression(asked(store.root))
    assert job.waits_for_own
    make_worker(cores=1, most=1).work(stop=lambda: 0, until_empty=True)
    there = progress.get_regression(job.id, store.root).gate
    assert (there.state, next(child.state for child in models.everything(store))) == ("finished", "finished")
    monkeypatch.delenv(connections.VARIABLE)
    here = Store(tmp_path / "here")
    local = regress.regress(**asked(here.root).arguments, runs_dir=here.root)
    assert there.result is not None
    assert there.result.looks == local.looks != []
    one, other = rows_of(store, there.id), rows_of(here, str(local.id))
    assert one.keys() == other.keys() != set()
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])


def test_a_parent_that_was_killed_stops_what_its_first_attempt_had_queued(store: Store) -> None:
    job = start.start_trial(request(store))
    orphan = job.model_copy(update={"id": "jorphan", "kind": "cohort", "parent": job.id, "state": "queued", "runs": ["x"], "refers": None})
    (store.root / "@jobs" / "jorphan").mkdir()
    start.submit_shared(store, models.save(store, orphan))
    began = time.monotonic()
    start._stop_orphans(store, job)
    assert job_queue.find_rows(store, ["jorphan"])["jorphan"].state == "stopped"
    assert time.monotonic() - began < 5
    # Nor is one queued again that the queue never heard of.
    lost = orphan.model_copy(update={"id": "jlost"})
    (store.root / "@jobs" / "jlost").mkdir()
    models.save(store, lost)
    pool.reconcile(store)
    ended = models.load(store, "jlost")
    assert ended is not None
    assert ended.state == "stopped"
    assert "jlost" not in {row.id for row in job_queue.list_rows(store)}


def test_a_search_takes_no_cores_and_a_users_own_command_takes_all(store: Store) -> None:
    search = start.start_optimize(OptimizeRequest(target="CartPole-v1:ppo_zoo", budget=200_000, runs_dir=store.root))
    assert search.waits_for_own
    assert start.count_cores(search, 8) == 0
    command = search.model_copy(update={"kind": "trial", "max_env_steps": None})
    assert start.count_cores(command, 8) == 8
    assert start.count_cores(search.model_copy(update={"shared": False}), 8) == 8


def test_a_cohort_takes_the_cores_of_all_processes_that_it_starts(store: Store) -> None:
    parent = start.start_trial(request(store))
    config = files.load("CartPole-v1:ppo_zoo", ["run.data_parallel=2", "run.allow_slower=true"]).config
    (run,) = store.create_group([config]).runs
    launch = start.QueuedLaunch(local.queue_cohorts([[run.path]]), 1, store=store, parent=parent)
    assert launch.poll()
    assert [row.cores for row in job_queue.list_rows(store) if row.id != parent.id] == [2]


def test_only_so_many_parents_wait_on_one_worker_and_they_need_no_room(store: Store) -> None:
    for number in range(3):
        job_queue.submit(store, f"p{number}", "", float(number), cores=0)
    job_queue.submit(store, "work", "", 9.0, cores=4)
    assert job_queue.claim_shared(store, "w", cores=4, free=0) == job_queue.Claim("p0", 1)
    assert job_queue.claim_shared(store, "w", cores=4, free=0, waiting=False) is None
    assert job_queue.claim_shared(store, "w", cores=4, free=4, waiting=False) == job_queue.Claim("work", 1)


def test_workers_that_are_there_are_counted_by_their_tags_and_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job_queue.announce(store, "one", 4)
    job_queue.announce(store, "two", 8, ["gpu", "a_b"])
    job_queue.announce(store, "two", 6, ["gpu", "a_b"])
    assert [job_queue.count_cores(store, tags) for tags in ((), ["gpu"], ["a_b", "gpu"], ["axb"])] == [10, 6, 6, 0]
    job_queue.leave(store, "two")
    assert job_queue.count_cores(store) == 4
    monkeypatch.setattr(job_queue, "WORKER_SECONDS", -1.0)
    assert job_queue.count_cores(store) == 0


def test_a_process_that_finds_no_database_when_it_starts_does_not_count_as_a_failure(
    store: Store, make_worker: Callable[..., pool.Worker]
) -> None:
    job = start.start_trial(request(store))
    worker = make_worker()
    worker._step()
    (child,) = worker.children
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.wait()
    child.process.returncode = 3  # worker.CUT_OFF: as it ends where its database does not answer
    worker._watch()
    (row,) = job_queue.list_rows(store)
    assert (row.id, row.failures, row.losses) == (job.id, 0, 1)
