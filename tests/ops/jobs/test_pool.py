"""Workers of a shared queue: paused, killed, asked to leave, cut off from their database. No job is lost, and none has two writers."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlclinic.errors import DiskFailed, RunBusy, RunError, UsageError
from rlclinic.launch import places
from rlclinic.ops.jobs import audited, budget, database, models, pool, start, worker
from rlclinic.ops.jobs.audit import Caller
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train import machine
from rlclinic.ops.train import run as run_training
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.report.models import TrainResult
from rlclinic.runs import control, disk, jobs, lease, lock, status_file
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.lease import LeaseLost
from rlclinic.runs.status_file import Status
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.servers.postgres import PASSWORD, Server

LEASE = 2.0
LONG = "400 steps"
STOPPED = TrainResult(group="", runs=[], detached=False, signal="SIGTERM", failed=[], report=None, files=[])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose jobs are for any worker; leases are short."""
    monkeypatch.setenv(connections.VARIABLE, "sqlite")
    monkeypatch.setenv("RLCLINIC_LEASE_SECONDS", str(LEASE))
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(start, "WORKER", "tests.ops.jobs.pretended_job")
    monkeypatch.setattr(pool, "SETTLE_SECONDS", 0.1)
    return Store(tmp_path / "runs")


@pytest.fixture
def make_worker(store: Store) -> Iterator[Callable[..., pool.Worker]]:
    """Workers that leave nothing behind."""
    made: list[pool.Worker] = []

    def make(**more: object) -> pool.Worker:
        made.append(pool.Worker(store, **{"cores": 2, **more}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        for child in one.children:
            pool.kill_session(child.process.pid)
            child.process.wait()
    connections.forget()


def submit(store: Store, hypothesis: str = "2 steps", seed: int = 0, **more: object) -> Job:
    request = TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=1, seed=seed, runs_dir=store.root)
    return start.start_training(request, hypothesis=hypothesis, **more)  # type: ignore[arg-type]


def lines(store: Store) -> list[list[str]]:
    file = store.root / "did"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def go(worker: pool.Worker, until: Callable[[], object], seconds: float = 40.0) -> None:
    """Let a worker work until something has happened."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        worker._step()
        time.sleep(0.02)


def state(store: Store, job: Job) -> str:
    now = models.load(store, job.id)
    assert now is not None
    return now.state


def test_a_worker_does_what_waits_and_ends_when_nothing_is_left(
    store: Store, make_worker: Callable[..., pool.Worker], postgres: Server, tmp_path: Path
) -> None:
    connections.migrate(store)
    first, second = submit(store), submit(store, seed=10)
    assert (first.state, first.reason, first.pid) == ("queued", "waits for a worker", None)
    assert submit(store, seed=10).id == second.id
    make_worker(alive=tmp_path / "alive").work(stop=lambda: 0, until_empty=True)
    assert (tmp_path / "alive").exists()
    assert [state(store, job) for job in (first, second)] == ["finished"] * 2
    assert [row.state for row in job_queue.list_rows(store)] == ["finished"] * 2
    assert {line[0] for line in lines(store)} == {first.id, second.id}
    assert [job.id for job in (first, second) if PASSWORD in str(jobs.read(store, job.id))] == []


def test_one_that_was_paused_past_its_lease_never_writes_again_and_another_goes_on(
    store: Store, make_worker: Callable[..., pool.Worker]
) -> None:
    job = submit(store, LONG)
    paused, other = make_worker(), make_worker()
    go(paused, lambda: lines(store))
    (child,) = paused.children
    os.kill(child.process.pid, signal.SIGSTOP)
    go(other, lambda: any(line[1] == "2" for line in lines(store)))
    os.kill(child.process.pid, signal.SIGCONT)
    assert child.process.wait(20) != 0
    second = [float(line[3]) for line in lines(store) if line[1] == "2"]
    assert max(float(line[3]) for line in lines(store) if line[1] == "1") < second[0]
    assert [row.attempt for row in job_queue.list_rows(store)] == [2]
    assert state(store, job) == "running"


def test_one_that_was_killed_is_done_again_and_one_that_kills_every_time_is_said_to(
    store: Store, make_worker: Callable[..., pool.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "MOST_FAILURES", 2)
    job, poison = submit(store, "12 steps"), submit(store, "poison", seed=10)
    worker = make_worker()
    go(worker, lambda: lines(store))
    pool.kill_session(int(lines(store)[0][2]))
    go(worker, lambda: state(store, job) == "finished" and state(store, poison) == "failed")
    assert {line[1] for line in lines(store)} == {"1", "2"}
    ended = models.load(store, poison.id)
    assert ended is not None
    assert str(ended.reason).startswith("failed 2 times, the last time: killed by SIGKILL")


def test_a_job_whose_ray_cluster_is_away_for_a_while_is_tried_again(store: Store, make_worker: Callable[..., pool.Worker]) -> None:
    job = submit(store, "2 steps, away at first")
    go(make_worker(), lambda: state(store, job) == "finished")
    assert {line[1] for line in lines(store)} == {"2"}
    assert [(row.failures, row.losses) for row in job_queue.list_rows(store)] == [(0, 1)], "a cluster that is away is no fault of the job"


def test_a_worker_that_is_asked_to_leave_gives_its_jobs_back_and_a_stop_reaches_the_next_one(
    store: Store, make_worker: Callable[..., pool.Worker]
) -> None:
    job = submit(store, LONG)
    leaving, other = make_worker(), make_worker()
    leaving.work(stop=lambda: int(bool(lines(store))))
    assert state(store, job) == "queued"
    (row,) = job_queue.list_rows(store)
    assert (row.state, row.failures) == ("queued", 0)
    go(other, lambda: any(line[1] == "2" for line in lines(store)))
    audited.stop_training(job.id, store.root)
    go(other, lambda: state(store, job) == "stopped" and not other.children)
    assert [row.state for row in job_queue.list_rows(store)] == ["stopped"]


def test_a_job_takes_as_many_cores_as_its_runs_wherever_it_was_started(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small machine in front of large workers, as a server in a cluster: they would do eight such jobs at once on sixteen cores."""
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    plain = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", seeds=8, runs_dir=store.root))
    changes = ["run.data_parallel=2", "run.allow_slower=true"]
    ranks = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", seeds=3, changes=changes, runs_dir=store.root))
    gpu = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", changes=["run.device=auto"], runs_dir=store.root))
    assert {row.id: row.cores for row in job_queue.list_rows(store)} == {plain.id: 8, ranks.id: 6, gpu.id: models.ALL_CORES}


@pytest.mark.parametrize(
    ("place", "address", "cores"), [("", "", 2), ("ray", "", 2), ("ray", "10.0.0.1:6379", 64), ("ray://10.0.0.1:10001?gpus=0.5", "", 64)]
)
def test_jobs_that_train_on_a_cluster_elsewhere_take_no_cores_of_their_worker(
    place: str, address: str, cores: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setenv(places.VARIABLE, place)
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert pool.Worker(store, most=64).cores == cores
    assert pool.Worker(store).cores == 2


@pytest.mark.parametrize("how", ["broken", "full"])
def test_a_machine_on_which_a_job_cannot_work_does_not_end_it(how: str, store: Store, make_worker: Callable[..., pool.Worker]) -> None:
    """A file system that is away or a disk that is full is one machine's: another attempt may be made elsewhere."""
    job = submit(store, f"2 steps, {how} at first")
    go(make_worker(), lambda: state(store, job) == "finished")
    assert {line[1] for line in lines(store)} == {"2"}
    assert [(row.failures, row.losses) for row in job_queue.list_rows(store)] == [(1, 0)]
    log = (store.root / "@jobs" / job.id / "job.log").read_text()
    assert "Stale file handle" in log or how == "full", log


@pytest.mark.parametrize(("place", "counted"), [("ray", (0, 1)), ("", (1, 0))])
def test_ray_ends_processes_that_have_lost_their_cluster_which_is_no_failure_of_a_job(
    place: str, counted: tuple[int, int], store: Store, make_worker: Callable[..., pool.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, LONG)
    worker = make_worker()
    go(worker, lambda: lines(store))
    monkeypatch.setenv(places.VARIABLE, place)
    os.kill(worker.children[0].process.pid, signal.SIGABRT)
    go(worker, lambda: not worker.children)
    assert [(row.failures, row.losses) for row in job_queue.list_rows(store)] == [counted]


@pytest.mark.parametrize("code", [-signal.SIGTERM, -signal.SIGKILL])
def test_a_worker_that_leaves_while_a_job_still_imports_is_no_failure_of_the_job(
    code: int, store: Store, make_worker: Callable[..., pool.Worker]
) -> None:
    """Workers that come and go with the load of a cluster would have it given up after five times."""
    submit(store, LONG)
    leaving = make_worker()
    leaving._step()
    (child,) = leaving.children
    # Nothing is there yet to catch a signal, or it does not end and is killed at last.
    os.kill(child.process.pid, -code)
    child.process.wait()
    leaving._drain(lambda: 0)
    (row,) = job_queue.list_rows(store)
    assert (row.state, row.failures, row.losses) == ("queued", 0, 0)


def test_a_stop_between_a_claim_and_its_process_ends_the_job_before_it_begins(
    store: Store, make_worker: Callable[..., pool.Worker]
) -> None:
    waiting, claimed = submit(store, LONG), submit(store, LONG, seed=10)
    audited.stop_training(waiting.id, store.root)
    assert state(store, waiting) == "stopped"
    worker = make_worker()
    worker._step()
    assert [child.claimed.id for child in worker.children] == [claimed.id]
    audited.stop_training(claimed.id, store.root)
    go(worker, lambda: state(store, claimed) == "stopped" and not worker.children)
    assert lines(store) == []


def test_a_database_that_is_down_for_a_while_changes_nothing_and_for_longer_than_a_lease_stops_in_time(
    store: Store, make_worker: Callable[..., pool.Worker], postgres: Server
) -> None:
    connections.migrate(store)
    job = submit(store, LONG)
    worker = make_worker()
    go(worker, lambda: lines(store))
    postgres.stop()
    time.sleep(0.3)
    postgres.start()
    before = len(lines(store))
    go(worker, lambda: len(lines(store)) > before + 5)
    assert [row.attempt for row in job_queue.list_rows(store)] == [1]
    (child,) = worker.children
    assert PASSWORD not in Path(f"/proc/{child.process.pid}/cmdline").read_text()
    down = time.time()
    postgres.stop()
    assert child.process.wait(20) == 3
    assert state(store, job) == "queued"
    assert max(float(line[3]) for line in lines(store)) < down + LEASE
    postgres.start()
    go(worker, lambda: any(line[1] == "2" for line in lines(store)))
    assert "does not answer" in (log := (store.root / "@jobs" / job.id / "job.log").read_text()) or "cannot be used" in log
    assert PASSWORD not in log + str(jobs.read(store, job.id))


def test_a_start_with_a_key_is_one_job_and_the_last_of_the_budget_goes_to_one(store: Store) -> None:
    agent = Caller(face="mcp", name="agent", budgeted=True)
    budget.set_budget(store.root, env_steps=3_000)
    first = submit(store, by=agent, idempotency_key="once")
    # As if another machine had made it, and its folder were not to be seen here yet.
    (store.root / "@jobs" / first.id / "job.json").rename(store.root / "hidden")
    with pytest.raises(UsageError, match=f"is job {first.id}"):
        submit(store, by=agent, idempotency_key="once")
    with pytest.raises(UsageError, match="exceed the budget"):
        submit(store, seed=10, by=agent)
    assert [row.id for row in job_queue.list_rows(store)] == [first.id]
    assert len(list((store.root / "@jobs").glob("j*/"))) == 1


def test_containers_with_the_same_hostname_and_process_numbers_are_two_workers(
    store: Store, make_worker: Callable[..., pool.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool.socket, "gethostname", lambda: "worker")
    one, other = make_worker(), make_worker()
    assert one.name != other.name
    job = submit(store, LONG)
    go(one, lambda: lines(store))
    # A pod that is restarted under the same name: a process with the number of the job's is there, and is another's.
    record = jobs.read(store, job.id)
    assert record is not None
    assert record["host"] == one.name
    monkeypatch.setattr(lock, "HOST", other.name)
    jobs.write(store, {**record, "pid": os.getpid(), "process_started": None, "heartbeat": time.time() - 3600})
    assert (models.load(store, job.id) or job).state == "crashed"
    jobs.write(store, record)
    # Nor does it give back, finish or stop what the other one does.
    assert other.children == []
    pool.reconcile(store)
    assert job_queue.find_claim(store, job.id) == one.children[0].claimed


@pytest.mark.parametrize("again", ["the same key", "a resume"])
def test_a_machine_whose_clock_is_wrong_neither_begins_again_what_another_does_nor_is_kept_from_stopping_it(
    again: str, store: Store, make_worker: Callable[..., pool.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its clock nothing was heard of the job for an hour; by the database's, which counts, its worker has its lease."""
    job = submit(store, LONG, idempotency_key="once")
    worker = make_worker()
    go(worker, lambda: lines(store))
    monkeypatch.setattr(lock, "HOST", "another")
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600.0)
    assert state(store, job) == "crashed"
    if again == "the same key":
        repeated = submit(store, LONG, idempotency_key="once")
        assert (repeated.id, repeated.repeated) == (job.id, True)
    else:
        with pytest.raises(RunBusy, match=f"job {job.id} does that"):
            start.start_training(TrainRequest(resume=str(job.refers), runs_dir=store.root))
    assert [(row.state, row.attempt) for row in job_queue.list_rows(store)] == [("claimed", 1)]
    # Nor from changing a number of its runs.
    run = store.run(job.runs[0])
    status_file.write(run.path, Status(state="running", heartbeat=right(), pid=1, host="there"))
    assert run.status.state == "crashed"
    assert audited.adjust_run(str(job.refers), ["ent_coef=0.02"], store.root).runs == [run.id]
    assert control.pending(run.path) is not None
    assert audited.stop_training(job.id, store.root).job == job.id
    go(worker, lambda: not worker.children)
    assert [row.state for row in job_queue.list_rows(store)] == ["stopped"]


def test_secrets_are_in_no_command_line_no_row_and_no_file(
    store: Store, make_worker: Callable[..., pool.Worker], postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cr3t-of-the-bucket"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("RLCLINIC_REDIS", f"redis://:{PASSWORD}@127.0.0.1:1/0")
    connections.migrate(store)
    job = submit(store, LONG, by=Caller(name="alice"))
    worker = make_worker()
    go(worker, lambda: lines(store))
    (child,) = worker.children
    family = [child.process.pid, *pool.find_session(child.process.pid)]
    shown = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in family)
    with connections.transaction(store) as database:
        tables = ("rlclinic_job", "rlclinic_worker", "rlclinic_audit", "rlclinic_store")
        rows = str([database.execute(f"SELECT * FROM {table}").fetchall() for table in tables])
    assert job.id in rows
    files = b"".join(path.read_bytes() for path in store.root.rglob("*") if path.is_file())
    for hidden in (PASSWORD, secret, postgres.url):
        assert hidden not in rows
        assert hidden.encode() not in shown + files


def test_a_queue_is_taken_to_another_database_and_checked_there(
    store: Store, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = submit(store)
    monkeypatch.delenv(connections.VARIABLE)
    monkeypatch.setattr(start, "_launch_next", lambda store: {})
    local = submit(store, seed=10)
    assert (shared.shared, local.shared) == (True, False)
    monkeypatch.setenv(connections.VARIABLE, postgres_server.url)
    database.migrate_database(store.root)
    assert database.check_database(store.root).problems == [f"job {shared.id} waits, and the queue does not know it; a worker puts it back"]
    for moved in (2, 0):
        assert database.move_queue("sqlite", store.root).jobs == moved
    found = database.check_database(store.root)
    assert (found.kind, found.states, found.problems) == ("PostgreSQL", {"queued": 2}, [])
    assert PASSWORD not in found.model_dump_json()
    both = {local.id, shared.id}
    assert {taken.id for _ in both if (taken := job_queue.claim_shared(store, "w", cores=4, free=4)) is not None} == both
    monkeypatch.setenv(connections.VARIABLE, "sqlite")
    assert job_queue.list_rows(store) == []
    monkeypatch.setattr(connections, "check_secret", lambda given: None)
    with pytest.raises(RunError, match="2 jobs are being done"):
        database.move_queue(postgres_server.url, store.root)
    connections.forget()


def test_a_database_that_cannot_be_reached_is_a_problem_and_no_crash(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connections.VARIABLE, f"postgresql://u:{PASSWORD}@/nowhere?host={store.root}")
    found = database.check_database(store.root)
    assert "cannot be used" in found.problems[0]
    assert PASSWORD not in found.model_dump_json()
    assert CliRunner().invoke(app, ["db", "check", "--runs-dir", str(store.root)]).exit_code == 1


def test_a_run_that_was_asked_to_stop_stays_so_when_another_attempt_goes_on_until_somebody_starts_it_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start.start_training(TrainRequest(ref="CartPole-v1:ppo_zoo", max_env_steps=2_000, seeds=3, runs_dir=store.root))
    trained: list[list[str]] = []
    monkeypatch.setattr(run_training, "carry_out", lambda plan, group, runs: trained.append([run.id for run in runs]) or STOPPED)

    def stop(run_id: str, reason: str) -> None:
        status_file.write(store.root / run_id, replace(status_file.raw(store.root / run_id), state="stopped", reason=reason))

    first, second, third = job.runs
    stop(first, control.ASKED)
    stop(second, lease.WITH_ITS_PROCESS)
    stop(third, lease.CUT_OFF)
    worker._train(store, job)
    assert trained == [[second, third]]
    # Nobody has more to do with it: the job is stopped, and started again by its key, or as another one.
    job_queue.ask_stop(store, job.id)
    worker.give_up(store, models.load(store, job.id) or job)
    again = start.start_training(TrainRequest(resume=str(job.refers), runs_dir=store.root))
    assert [store.run(id).status.state for id in job.runs] == ["queued"] * 3
    worker._train(store, again)
    assert trained[1:] == [[first, second, third]]


def test_a_job_that_no_worker_has_the_tags_for_is_a_problem_once_there_are_workers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(start.TAGS, "gpu,large")
    job = submit(store)
    assert database.check_database(store.root).problems == []
    job_queue.announce(store, "plans", 0, ["gpu"])
    (problem,) = database.check_database(store.root).problems
    assert all(word in problem for word in (job.id, "gpu, large"))
    job_queue.announce(store, "trains", 2, ["gpu", "large", "other"])
    assert database.check_database(store.root).problems == []


def test_a_queue_that_was_made_anew_gets_what_waits(store: Store) -> None:
    job = submit(store)
    (store.root / "@jobs" / job_queue.FILE).unlink()
    pool.reconcile(store)
    assert [(row.id, row.state) for row in job_queue.list_rows(store)] == [(job.id, "queued")]


def test_nothing_is_written_after_a_deadline_not_even_what_was_begun_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = tmp_path / "deadline"
    monkeypatch.setenv(lease.VARIABLE, str(deadline))
    lease.extend(deadline, lease.now(), 100.0)
    disk.write(tmp_path / "file", "before")
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (fsync(fd), lease.write_deadline(deadline, 0.0)))
    with pytest.raises(LeaseLost):
        disk.write(tmp_path / "file", "after", sync=True)
    with pytest.raises(LeaseLost):
        disk.append_line(tmp_path / "file", "after")
    deadline.unlink()
    with pytest.raises(LeaseLost):
        disk.point(tmp_path / "link", "file")
    assert (tmp_path / "file").read_text() == "before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]


def test_a_disk_that_is_full_for_a_moment_does_not_make_a_job_deaf(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says that the job is alive also hears that it is to stop."""
    job = submit(store)
    assert job_queue.claim_shared(store, "w", cores=1, free=1) is not None
    job_queue.ask_stop(store, job.id)
    saved: list[Job] = []

    def save(store: Store, job: Job) -> Job:
        saved.append(job)
        raise DiskFailed("cannot write job.json: the disk is full")

    monkeypatch.setattr(worker.models, "save", save)
    monkeypatch.setattr(worker, "BEAT_SECONDS", 0.01)
    beat = worker._Beat(store, job)
    monkeypatch.setattr(worker.os, "kill", lambda pid, number: beat.stop())
    beat.run()
    assert (beat.reason, len(saved)) == (worker.ASKED, 1)
