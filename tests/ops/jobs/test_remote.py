"""Workers that share no disk with who starts jobs: a database, an object store, and a folder of its own for every machine."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlclinic.errors import RunError, UsageError
from rlclinic.ops.jobs import audit, audited, database, models, pool, remote, start
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train.plan import plan_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.train.run import train
from rlclinic.ops.treat.requests import TrialRequest
from rlclinic.runs import control, disk, jobs, lease
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.database.job_queue import Claim
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from tests.servers.postgres import PASSWORD, Server
from tests.servers.s3 import serve_s3

if not os.environ.get("RLCLINIC_CI"):
    pytest.importorskip("obstore", reason="object stores are not tested: pip install 'rlclinic[s3]'")
ROOT = Path(__file__).resolve().parents[3]
LEASE = 3.0
SECRET = "wJalr-secret-of-the-bucket"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with serve_s3() as endpoint:
        yield endpoint


@pytest.fixture
def home(tmp_path: Path, postgres: Server, s3: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The folder where jobs are started. Leases are short, and what is new is put into the object store at once."""
    for name, value in {
        artifacts.VARIABLE: f"s3://runs/{tmp_path.name}",
        "AWS_ENDPOINT": s3,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "RLCLINIC_LEASE_SECONDS": str(LEASE),
        "RLCLINIC_UPLOAD_SECONDS": "0.2",
        "PYTHONPATH": str(ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(artifacts, "UPLOAD_SECONDS", 0.2)
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(pool, "SETTLE_SECONDS", 0.1)
    made = Store(tmp_path / "home" / "runs")
    connections.migrate(made)
    return made


@pytest.fixture
def make_worker(tmp_path: Path) -> Iterator[Callable[..., pool.Worker]]:
    """Workers of other machines: each has a folder of its own."""
    made: list[pool.Worker] = []

    def make(name: str, **more: object) -> pool.Worker:
        made.append(pool.Worker(Store(tmp_path / name / "runs"), **{"cores": 2, **more}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for worker in made:
        for child in worker.children:
            pool.kill_session(child.process.pid)
            child.process.wait()
    connections.forget()


def submit(home: Store, env_steps: int = 4_096, **more: object) -> Job:
    request = TrainRequest(
        ref="CartPole-v1:ppo_zoo",
        max_env_steps=env_steps,
        seeds=1,
        changes=["run.eval_every_env_steps=1024", "run.checkpoint_every_env_steps=512", "run.stop_at_threshold=false"],
        runs_dir=home.root,
    )
    return start.start_training(request, **more)  # type: ignore[arg-type]


def go(worker: pool.Worker | None, until: Callable[[], object], seconds: float = 90.0) -> None:
    """Let a worker work until something has happened."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        if worker is not None:
            worker._step()
        time.sleep(0.02)


def shown(home: Store, job: Job) -> Job:
    """What the folder at home says of a job, after a look at the object store."""
    remote.follow(home)
    now = models.load(home, job.id)
    assert now is not None
    return now


def learned(run: Run) -> tuple[list[list[str]], dict[str, bytes]]:
    """What a run has learned: rows without what depends on the clock, and its checkpoints."""
    header, *rows = [line.split(",") for line in (run.path / "metrics.csv").read_text().splitlines()]
    kept = [place for place, name in enumerate(header) if not name.startswith("time")]
    files = {str(path.relative_to(run.path)): path.read_bytes() for path in run.path.glob("checkpoints/[0-9]*/*.safetensors")}
    return [[row[place] for place in kept] for row in rows], files


def test_a_killed_machines_job_goes_on_elsewhere_from_what_was_uploaded_and_comes_home_as_if_it_had_never_stopped(
    home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(home, env_steps=12_288)
    assert (job.state, len(job.id)) == ("queued", 9)
    first, second = make_worker("first"), make_worker("second")
    run = Run(first.store.root / job.runs[0])
    go(first, lambda: shown(home, job) and home.run(job.runs[0]).status.env_steps >= 2_048)
    # At home rows and states are seen while it trains; where it trains nobody else has anything.
    assert shown(home, job).state == "running"
    assert len((home.root / job.runs[0] / "metrics.csv").read_text().splitlines()) > 2
    assert not list((home.root / job.runs[0]).glob("checkpoints/*"))
    before = run.status.env_steps
    (child,) = first.children
    pool.kill_session(child.process.pid)
    child.process.wait()
    first.children.clear()
    go(second, lambda: shown(home, job).state == "finished")
    assert before < 12_288
    resumed = [home.run(id) for id in job.runs]
    assert [one.status.resumes for one in resumed] == [1]
    alone = Store(tmp_path / "alone" / "runs")
    for variable in (artifacts.VARIABLE, connections.VARIABLE):
        monkeypatch.delenv(variable)
    train(plan_training(TrainRequest(**{**job.request, "runs_dir": alone.root})))
    for one, other in zip(resumed, alone.group().runs, strict=True):
        assert learned(one) == learned(other)
    # What was handed in takes no room on the worker's disk; the ledger at home says how it came out.
    assert not (second.store.root / job.runs[0]).exists()
    (entry,) = audit.get_ledger(home.root).entries
    assert entry.outcome is not None
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(word.encode() in content for content in written for word in (PASSWORD, SECRET))


def test_adjusting_and_stopping_at_home_reach_the_runs_and_what_is_stopped_goes_on_from_home(
    home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path
) -> None:
    job = submit(home, env_steps=2_000_000)
    worker = make_worker("first")
    go(worker, lambda: shown(home, job).state == "running" and home.run(job.runs[0]).status.env_steps > 0)
    audited.adjust_run(str(job.refers), ["ent_coef=0.02"], home.root)
    there = worker.store.root / job.runs[0]
    go(worker, lambda: (there / "interventions.jsonl").exists())
    assert control.pending(home.root / job.runs[0]) is None
    audited.stop_training(job.id, home.root)
    go(worker, lambda: shown(home, job).state == "stopped" and not worker.children)
    run, before = home.run(job.runs[0]), home.run(job.runs[0]).status.env_steps
    assert (run.status.state, run.checkpoint("@last").valid) == ("stopped", True)
    assert "0.02" in (run.path / "interventions.jsonl").read_text()
    # It goes on wherever there is room.
    second = make_worker("second")
    more = start.start_training(TrainRequest(resume=str(job.refers), runs_dir=home.root), idempotency_key="go on")
    go(second, lambda: shown(home, more).state == "running" and home.run(job.runs[0]).status.env_steps > before)
    audited.stop_training(more.id, home.root)
    go(second, lambda: shown(home, more).state == "stopped")
    assert home.run(job.runs[0]).status.resumes == 1


def test_what_a_worker_was_told_and_lost_with_its_disk_the_next_one_is_told_again(
    home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(home)
    (id,) = job.runs
    for change in ({"set": {"algo.ent_coef": 0.02}}, {"set": {"algo.ent_coef": 0.05, "algo.gamma": 0.9}}, {"set": {"algo.gamma": 0.95}}):
        job_queue.send_request(home, job.id, id, change)
    monkeypatch.setenv(lease.VARIABLE, str(tmp_path / "deadline"))
    lease.extend(tmp_path / "deadline", lease.now(), 100.0)

    def attempt(name: str) -> tuple[Run, set[int], Claim]:
        """What a worker's job does before anything is trained."""
        store = make_worker(name).store
        assert remote.join(store, worker=True)
        claimed = job_queue.claim_shared(store, name, cores=2, free=2)
        assert claimed is not None
        remote.fetch(store, job.id)
        remote._bring(store, job)
        heard: set[int] = set()
        remote.pass_on(store, claimed, heard)
        return Run(store.root / id), heard, claimed

    def release(run: Run, claimed: Claim) -> None:
        assert job_queue.release(Store(run.path.parent), claimed, "its worker left") == "queued"

    first, heard, claimed = attempt("first")
    assert control.take(first.path) == {"set": {"algo.ent_coef": 0.05, "algo.gamma": 0.95}}
    # Not twice by one attempt.
    remote.pass_on(Store(first.path.parent), claimed, heard)
    assert control.pending(first.path) is None
    # Killed before it had put anything into the object store.
    release(first, claimed)
    second, _, claimed = attempt("second")
    assert control.take(second.path) == {"set": {"algo.ent_coef": 0.05, "algo.gamma": 0.95}}
    for change in ({"algo.ent_coef": 0.05, "algo.gamma": 0.9}, {"algo.gamma": 0.95}):
        disk.append_line(second.path / "interventions.jsonl", json.dumps({"env_steps": 256, "set": change}))
    artifacts.push([second])
    release(second, claimed)
    # What a run has written down it repeats by itself.
    third, _, _ = attempt("third")
    assert control.pending(third.path) is None


def test_a_trial_is_planned_at_home_and_trained_anywhere(home: Store, make_worker: Callable[..., pool.Worker]) -> None:
    request = TrialRequest(
        targets=["CartPole-v1:ppo_zoo"], max_env_steps=1_024, changes=["algo.learning_rate=1e-4"], looks=1, per_look=2, runs_dir=home.root
    )
    job = start.start_trial(request)
    away, planner = make_worker("away"), pool.Worker(home, cores=2, most=0)
    try:
        away._step()
        assert not away.children  # it has no part in the folder that has the trial
        deadline = time.monotonic() + 150
        # Nobody at home looks at it: whoever plans brings what its cohorts have made.
        while (now := models.load(home, job.id)) is not None and now.live:
            assert time.monotonic() < deadline
            away._step()
            planner._step()
            time.sleep(0.05)
        ended = shown(home, job)
        assert (ended.state, ended.reason) == ("finished", None)
        cohorts = [one for one in models.everything(home) if one.parent == job.id]
        assert {one.state for one in cohorts} == {"finished"} != set()
        assert all(home.run(id).checkpoint("@last").valid for one in cohorts for id in one.runs)
        go(planner, lambda: all(row.state in ("finished", "stopped") for row in job_queue.list_rows(home)))
    finally:
        for child in planner.children:
            pool.kill_session(child.process.pid)
            child.process.wait()


def test_a_worker_waits_for_the_first_job_and_joins_its_store_and_another_stores_jobs_are_kept_apart(
    home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    worker = make_worker("first", say=said.append)
    worker._step()
    worker._step()
    assert [text.partition(":")[0] for text in said] == ["waits for the first job"]
    monkeypatch.setattr(start, "WORKER", "tests.ops.jobs.pretended_job")
    job = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", seeds=1, runs_dir=home.root), hypothesis="2 steps")
    # A second folder where jobs are started is another home of the same store; one that has a name already is not.
    other = Store(tmp_path / "other" / "runs")
    remote.join(other)
    assert connections.identify(other) == connections.identify(home)
    assert remote.home_tags(other) != remote.home_tags(home) != []
    odd = Store(tmp_path / "odd" / "runs")
    connections.give_name(odd, "0123456789abcdef")
    with pytest.raises(UsageError, match="the jobs of another store"):
        submit(odd)
    go(worker, lambda: shown(home, job).state == "finished")
    assert remote.is_worker(worker.store)
    assert remote.home_tags(worker.store) == []
    assert not remote.is_worker(home)
    assert len((worker.store.root / "did").read_text().splitlines()) == 2


def test_a_folder_that_asks_the_queue_before_it_starts_anything_is_another_home_of_the_same_store(home: Store, tmp_path: Path) -> None:
    """Whoever types `rlclinic db check` first, or starts a server with a shared index, must not make a store of its own of it."""
    submit(home)
    other = Store(tmp_path / "other" / "runs")
    assert database.check_database(other.root).states == {"queued": 1}
    assert connections.identify(other) == connections.identify(home)
    assert submit(other).state == "queued"


def test_of_folders_that_begin_at_the_same_moment_all_are_of_one_store(
    home: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Store(tmp_path / "other" / "runs")
    find, both, seen = artifacts.find_store_name, threading.Barrier(2), threading.local()

    def look() -> str | None:
        name = find()
        if not hasattr(seen, "once"):
            seen.once = True
            both.wait(30)  # neither has named it when the other looks
        return name

    monkeypatch.setattr(artifacts, "find_store_name", look)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(remote.join, (home, other))) == [True, True]
    assert connections.identify(other) == connections.identify(home)


def test_a_folder_that_servers_and_workers_share_stays_one_where_jobs_are_started(
    home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path
) -> None:
    """A volume that is made anew with the bucket of the one before: the worker that came first would take it for its own disk."""
    submit(home)
    shared = make_worker("shared")
    database.migrate_database(shared.store.root)
    shared._step()
    assert not remote.is_worker(shared.store)
    assert remote.home_tags(shared.store) != []
    # What is a worker's own is no place to start anything: nobody would find it, and it is removed there.
    away = make_worker("away")
    away._step()
    assert remote.is_worker(away.store)
    with pytest.raises(UsageError, match="is the folder of a worker"):
        submit(away.store)


def test_what_cannot_be_handed_in_is_tried_again_until_the_worker_must_leave(
    home: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = submit(home)
    monkeypatch.setenv(lease.VARIABLE, str(tmp_path / "deadline"))
    lease.write_deadline(tmp_path / "deadline", lease.now() + 60.0)
    monkeypatch.setattr(remote, "AGAIN_SECONDS", 0.01)
    (home.root / job.runs[0] / "report.md").write_text("new")
    tries: list[int] = []
    push = artifacts.push

    def away(items: object) -> list[str]:
        tries.append(1)
        if len(tries) < 4:
            raise RunError("the object store cannot be used")
        return push(items)  # type: ignore[arg-type]

    monkeypatch.setattr(artifacts, "push", away)
    remote.hand_in(home, job)
    assert (len(tries), capsys.readouterr().err.count("cannot be used")) == (4, 1)
    tries.clear()
    with pytest.raises(RunError, match="cannot be used"):
        remote.hand_in(home, job, leaving=lambda: True)


def test_a_job_that_was_stopped_before_anybody_took_it_is_closed_at_home(home: Store) -> None:
    job = submit(home)
    audited.stop_training(job.id, home.root)
    assert shown(home, job).state == "stopped"


def test_a_worker_of_another_machine_plans_nothing(home: Store, make_worker: Callable[..., pool.Worker], tmp_path: Path) -> None:
    job = submit(home)
    models.save(home, job.model_copy(update={"kind": "trial"}))
    remote.send(home, job)
    worker = make_worker("first")
    go(worker, lambda: any(row.losses or row.failures for row in job_queue.list_rows(home)))
    log = (jobs.folder(worker.store, job.id) / jobs.LOG).read_text()
    assert "a trial is planned where it was started" in log


def test_an_object_store_that_is_away_fails_no_job_and_is_not_asked_all_the_time(
    home: Store, make_worker: Callable[..., pool.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(home)
    worker = make_worker("first")
    worker._joined = bool(connections.give_name(worker.store, connections.identify(home), worker=True))
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    go(worker, lambda: worker.children)
    go(worker, lambda: not worker.children)
    worker._step()
    assert not worker.children
    (row,) = job_queue.list_rows(home)
    assert (row.state, row.failures, row.losses) == ("queued", 0, 0), job.id
