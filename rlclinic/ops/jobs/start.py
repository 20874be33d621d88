"""Starting things that outlive whoever starts them: trainings, trials, races, searches, sensitivity studies, gates.

A start is checked, written down (runs/@jobs/<jid>/job.json), queued, and handed to a process of its own when its turn comes. The same
key is the same start: asked again it is found, and taken up where it was if its process is gone. Agents stay within what a person
allowed. Where RLCLINIC_DB names a database, `rlclinic worker` makes the processes (`ops.jobs.pool`), on this machine or another.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.errors import RlclinicError, RunBusy, RunError, UsageError
from rlclinic.launch import local, places
from rlclinic.launch.local import Cohort, Launch
from rlclinic.ops.compare.requests import RegressRequest
from rlclinic.ops.jobs import audited, budget, models, queue, remote
from rlclinic.ops.jobs.audit import Caller, audit, record_start
from rlclinic.ops.jobs.models import ALL_CORES, Job, JobKind, JobList, Planned
from rlclinic.ops.jobs.prepare import PREPARE, Prepared, Request
from rlclinic.ops.train import machine
from rlclinic.ops.train.requests import TrainRequest
from rlclinic.ops.treat.requests import OptimizeRequest, RaceRequest, SensitivityRequest, TrialRequest
from rlclinic.report.jobs.daily_report import LedgerLine
from rlclinic.runs import jobs, launcher_status, lock
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.database.job_queue import Row
from rlclinic.runs.lease import LeaseLost
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

WORKER: Final = "rlclinic.ops.jobs.worker"
TAGS: Final = "RLCLINIC_TAGS"
"""What workers must have to do what is started here: gpu,large."""
MOST_WAITING: Final = 200
"""Jobs in the queue of a store. Each costs a row and some files, and a promise that somebody waits for."""
WORK_SECONDS: Final = 1.0
"""How often a worker looks whether a job's turn has come."""
PERSON: Final = Caller()
LOOK_SECONDS: Final = 0.3
"""How often a parent looks at its children."""
ORPHAN_SECONDS: Final = 120.0
"""How long the children of an earlier attempt have to write their checkpoints."""
_OPEN: Final = ("reserved", "queued", "claimed")


def start_training(
    request: TrainRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Train in the background; the job names the group and its runs at once."""
    return _start("training", request, by, idempotency_key, hypothesis, max_wall_seconds)


def start_trial(
    request: TrialRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Try a change against its control on fresh seeds, in the background; the job names the trial at once."""
    return _start("trial", request, by, idempotency_key, hypothesis, max_wall_seconds)


def start_race(
    request: RaceRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Find out which of many arms is best, in the background; the job names the race at once."""
    return _start("race", request, by, idempotency_key, hypothesis, max_wall_seconds)


def start_optimize(
    request: OptimizeRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Search for a better config in the background; the job names the search at once."""
    return _start("optimize", request, by, idempotency_key, hypothesis, max_wall_seconds)


def start_sensitivity(
    request: SensitivityRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Say how much each number of a config matters, in the background; the job names the study at once."""
    return _start("sensitivity", request, by, idempotency_key, hypothesis, max_wall_seconds)


def start_regression(
    request: RegressRequest,
    *,
    by: Caller = PERSON,
    idempotency_key: str | None = None,
    hypothesis: str = "",
    max_wall_seconds: float | None = None,
) -> Job:
    """Train a candidate and judge it by a baseline, in the background; the job names the gate at once."""
    return _start("regress", request, by, idempotency_key, hypothesis, max_wall_seconds)


def list_jobs(runs_dir: Path = Path("runs"), *, limit: int | None = 20) -> JobList:
    """What was started in the background, newest first."""
    jobs = models.started(Store(runs_dir))[::-1]
    return JobList(jobs=jobs if limit is None else jobs[:limit])


# ── one way to start ──


def _start(kind: JobKind, request: Request, by: Caller, key: str | None, hypothesis: str, wall: float | None) -> Job:
    store = Store(request.runs_dir)
    if connections.shared():
        remote.join(store)
        remote.check_home(store)
    record = request.model_dump(mode="json", exclude={"runs_dir"}, exclude_defaults=True)
    digest = hashlib.sha256(json.dumps([kind, record], sort_keys=True).encode()).hexdigest()[:16]
    # Going on with something writes to its runs.
    audited.check_owner(store, by, *(name for key in ("resume", "extend") if (name := record.get(key)) is not None))
    with jobs.alone(store):
        known = _find_repeated(store, kind, key, digest, by)
        if known is not None:
            if known.state == "queued" and not known.shared:
                # Whoever queued it may have been killed before it could begin.
                _settle_claims(store)
                known = _launch_next(store).get(known.id, known).model_copy(update={"repeated": True})
            under_way = known.live or queue.is_open(store, known)
            return known if under_way or known.state == "finished" else _take_up(store, known, request, wall)
        _check_unclaimed(store, record)
        _check_room(store)
        prepared = PREPARE[kind](request)
        budget.check(store, by, prepared.planned)
        _check_wall(store, by, wall)
        job = Job(
            id=jobs.reserve(store),
            kind=kind,
            state="starting",
            by=by,
            key=key,
            digest=digest,
            request=record,
            hypothesis=hypothesis,
            change=prepared.planned.change,
            target=prepared.planned.target,
            created=time.time(),
            max_env_steps=prepared.planned.max_env_steps,
            max_wall_seconds=wall,
            cores=prepared.planned.cores or machine.usable_cores(),
            shared=connections.shared(),
            tags=_read_tags() if connections.shared() else [],
        )
        if job.shared and (other := _reserve(store, job)) is not None:
            return other
        # Before anything is made: a kill from here on leaves a start that is found again, not one that is made twice.
        models.save(store, job)
        return _begin(store, job, prepared)


def _read_tags() -> list[str]:
    return job_queue.check_tags([tag.strip() for tag in os.environ.get(TAGS, "").split(",") if tag.strip()])


def _reserve(store: Store, job: Job) -> Job | None:
    """Take its key and its share of the budget in the database; the job that has the key already, if there is one."""
    key = None if job.key is None else json.dumps([job.by.name, job.key])
    wanted = job_queue.Reservation(job.id, job.created, key, job.digest, job.max_env_steps or 0, budget.limit_shared(store, job.by))
    try:
        holder = job_queue.reserve(store, wanted)
    except RlclinicError:
        with suppress(OSError):
            jobs.folder(store, job.id).rmdir()
        raise
    if holder == job.id:
        return None
    with suppress(OSError):
        jobs.folder(store, job.id).rmdir()
    other = models.load(store, holder)
    if other is None:
        raise UsageError(
            f"the start with this key is job {holder}, which somebody is making now, or whose folder is gone.\n  Nothing was started.\n"
            "  Ask again, or take another key"
        )
    return other.model_copy(update={"repeated": True})


def _find_repeated(store: Store, kind: JobKind, key: str | None, digest: str, by: Caller) -> Job | None:
    """The start that this one repeats: the one with its key; without a key, the same request of the same caller that still runs."""
    for job in reversed(models.everything(store)):
        if key is not None and job.key == key and job.by.name == by.name:
            if job.kind != kind or job.digest != digest:
                raise UsageError(
                    f"idempotency_key {key!r} belongs to another start ({job.kind} of {job.target}, job {job.id}).\n"
                    "  It cannot be told which of the two is meant.\n  Take another key for another request"
                )
            return job.model_copy(update={"repeated": True})
        if key is None and job.digest == digest and job.live and job.by.name == by.name:
            return job.model_copy(update={"repeated": True})
    return None


def _check_unclaimed(store: Store, record: dict[str, Any]) -> None:
    """RunBusy if what is to go on is a worker's, of which nothing is heard here: its clock or its link may be wrong, and not its work."""
    named = {name for key in ("resume", "extend") if (name := record.get(key)) is not None}
    for job in models.everything(store) if named else []:
        if job.state == "crashed" and named & {job.id, job.refers, *job.runs} and queue.is_open(store, job):
            raise RunBusy(
                f"job {job.id} does that on {job.host}, as far as the queue knows.\n  Two would write to the same runs.\n"
                "  If it is gone, the next worker goes on with it; or stop it first: ",
                Action("stop", job.id),
            )


def _take_up(store: Store, job: Job, request: Request, wall: float | None) -> Job:
    """A start whose process stopped, failed or was killed goes on where it was; one that was killed before it made anything begins."""
    prepared = None if job.refers is not None else PREPARE[job.kind](request)
    budget.check(store, job.by, _plan_rest(store, job) if prepared is None else prepared.planned)
    _check_wall(store, job.by, wall)
    anew: dict[str, Any] = {"state": "starting", "started": None, "heartbeat": None, "ended": None, "reason": None, "used_env_steps": None}
    anew |= {"resumes": job.resumes + 1, "past_wall_seconds": job.wall_seconds, "max_wall_seconds": wall}
    if job.shared:
        _reserve(store, job)
    fresh = models.save(store, job.model_copy(update=anew))
    if prepared is not None:
        fresh = _begin(store, fresh, prepared)
    else:
        _write_down(store, job, resumed=True)
        fresh = _spawn(store, fresh)
    return fresh.model_copy(update={"repeated": True})


def _plan_rest(store: Store, job: Job) -> Planned:
    """What a start may still use."""
    most = None if job.max_env_steps is None else max(0, job.max_env_steps - budget.used_env_steps(store, job))
    return Planned(target=job.target, change=job.change, max_env_steps=most, runs=max(1, len(job.runs)))


def _begin(store: Store, job: Job, prepared: Prepared) -> Job:
    """Make what a start asks for. Its id is written down first: one that was killed meanwhile finds what it had made."""
    making = job.making or prepared.reserve()
    models.save(store, job.model_copy(update={"making": making}))
    begun = models.save(store, job.model_copy(update={"making": making, **prepared.begin(making)}))
    _write_down(store, begun)
    for other in models.everything(store):
        if other.refers == begun.refers and other.state == "crashed" and other.id != begun.id:
            # From here on these runs go on at another's expense: what the killed one used is settled.
            closed = {
                "state": "failed",
                "used_env_steps": budget.used_env_steps(store, other),
                "reason": f"killed; {job.id} goes on with it",
            }
            models.save(store, other.model_copy(update=closed))
    return _spawn(store, begun)


def _spawn(store: Store, job: Job) -> Job:
    """Put a job into the queue, and make processes for those whose turn it is. A job that waits is a row, not a process."""
    if job.shared:
        for run in map(store.run, job.runs if job.kind == "training" else ()):
            # What was asked of it before is over; what is asked from here on holds for every attempt.
            with suppress(RunBusy):
                if run.status.state != "finished":
                    launcher_status.queue(run.path)
        waits = {"state": "queued", "pid": None, "host": None, "reason": "waits for a worker"}
        waiting = models.save(store, job.model_copy(update=waits))
        submit_shared(store, waiting)
        return waiting
    waiting = models.save(store, job.model_copy(update={"state": "queued", "pid": None, "host": lock.HOST, "reason": None}))
    job_queue.submit(store, job.id, lock.HOST, job.created)
    launched = _launch_next(store)
    if job.id in launched:
        return launched[job.id]
    reason = queue.describe_wait(queue.ahead(store, waiting))
    return models.save(store, waiting.model_copy(update={"reason": reason}))


def submit_shared(store: Store, job: Job) -> None:
    """Put a job into the queue of the workers, once they can find it."""
    remote.send(store, job)
    cores = count_cores(job, ALL_CORES)
    job_queue.submit(store, job.id, job_queue.ANY, job.created, tags=remote.tags_of(store, job), cores=cores, owner=job.by.name)


def count_cores(job: Job, most: int) -> int:
    """Cores of a worker that a job takes: none where jobs of its own train, all of them where it plans its own processes."""
    return 0 if job.waits_for_own else min(job.cores, most) if job.kind in ("training", "cohort") else most


def dispatch(store: Store) -> list[str]:
    """Make processes for jobs of the queue whose turn has come; their ids. Called by whoever can: starts, jobs that end, servers."""
    if connections.shared():
        return []  # workers do
    if not any(row.state in ("queued", "claimed") for row in job_queue.list_rows(store)):
        return []
    with jobs.alone(store):
        _settle_claims(store)
        return list(_launch_next(store))


def _settle_claims(store: Store) -> None:
    """Bring the queue in line with what is written down, while nobody else starts anything."""
    known = {row.id: row for row in job_queue.list_rows(store)}
    for job in models.everything(store):
        row = known.get(job.id)
        if job.state == "queued" and job.pid is None and job.host == lock.HOST:
            if row is None or (row.state == "claimed" and not row.stop):
                # The queue was removed, or whoever claimed it was killed before it had made a process: it waits as before.
                job_queue.submit(store, job.id, lock.HOST, job.created)
        elif row is not None and row.state == "claimed" and not job.live:
            # Killed: said to be lost. Whoever started it takes it up again with its key, where it was.
            job_queue.finish(store, job_queue.Claim(row.id, row.attempt), "lost" if job.state == "crashed" else "finished")


def work_off(store: Store, *, until_empty: bool = False, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Begin jobs of the queue as their turn comes, for machines without a server; yields the id of each as it begins.

    Their processes are their own: they go on when this ends. `until_empty` ends it once nothing waits and nothing runs here.
    """
    while not stop():
        yield from dispatch(store)
        if until_empty and not any(job.live and job.host in (None, lock.HOST) for job in models.everything(store)):
            return
        time.sleep(WORK_SECONDS)


def _launch_next(store: Store) -> dict[str, Job]:
    """Claim and launch from the front of the queue, for as long as there is room."""

    def fits(id: str) -> bool:
        job = models.load(store, id)
        return job is None or not job.live or not queue.ahead(store, job)

    launched = {}
    while (claimed := job_queue.claim(store, lock.HOST, fits)) is not None:
        job = models.load(store, claimed.id)
        if job is None or not job.live:
            job_queue.finish(store, claimed, "stopped")
            continue
        launched[job.id] = _launch(store, job, claimed.attempt)
    return launched


def _launch(store: Store, job: Job, attempt: int) -> Job:
    """Hand a job to a process in a session of its own: no terminal, no parent to die with. It is told which attempt it is."""
    where = jobs.folder(store, job.id)
    with (where / jobs.LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(store.root.resolve()), job.id, str(attempt)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )
    # It is meant to outlive this process; Popen would warn that nobody waited for it.
    process.returncode = 0
    # Where it ends first, somebody must take note of it, or it stays as a zombie for as long as a server lives.
    threading.Thread(target=_reap, args=(process.pid,), daemon=True).start()
    known: dict[str, Any] = {"pid": process.pid, "process_started": lock.started(process.pid), "host": lock.HOST}
    return models.save(store, job.model_copy(update={**known, "state": "starting", "reason": None}))


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _check_room(store: Store) -> None:
    waiting = sum(job.state == "queued" for job in models.started(store))
    if waiting >= MOST_WAITING:
        raise UsageError(
            f"{waiting} jobs wait already, and more than {MOST_WAITING} may not.\n  Nothing was started.\n"
            "  Wait for some to end, or stop one: ",
            Action("status"),
        )


def _check_wall(store: Store, by: Caller, wall: float | None) -> None:
    left = budget.standing(store).left_wall_seconds if by.budgeted and wall is not None else None
    if left is not None and wall is not None and wall > left:
        raise UsageError(
            f"max_wall_seconds {wall:g}, and {left:.0f} s of what a person allowed are left.\n  It would exceed the budget.\n"
            f"  Give at most {int(left)}. ",
            *budget.ALLOW,
        )


def _write_down(store: Store, job: Job, *, resumed: bool = False) -> None:
    about = {"job": job.id, "kind": job.kind, "change": job.change, "max_env_steps": job.max_env_steps, "hypothesis": job.hypothesis}
    if resumed:
        about = {"job": job.id, "kind": job.kind, "resumed": True}
    audit(store, job.by, "start", job.refers or job.id, **about)
    if any(line.get("job") == job.id and "kind" in line for line in jobs.lines(store, jobs.LEDGER)):
        return  # one that is taken up has its line, unless it was killed just before it was written
    record_start(
        store,
        LedgerLine(
            job=job.id,
            kind=job.kind,
            started=job.created,
            by=f"{job.by.face}:{job.by.name}",
            target=job.target,
            hypothesis=job.hypothesis,
            change=job.change,
        ),
    )


# ── cohorts of a trial, race, search or study, as jobs of their own ──
#
# Where workers share a queue, whoever has cores free trains them. The parent plans, looks and decides as it does on one machine, and
# holds no cores meanwhile. A child names its parent, costs no budget of its own (the parent has reserved it), and stands in the queue
# where its parent stood. A parent that is taken up again stops the children of the attempt before it: runs go on from checkpoints.


@contextmanager
def queueing_cohorts(store: Store, job: Job) -> Iterator[None]:
    """Cohorts that the block starts are jobs of the queue, if the job is one that waits for its own."""
    if not job.waits_for_own:
        yield
        return
    _stop_orphans(store, job)

    def begin(cohorts: Sequence[Sequence[Path | str]], *, parallel: int | None = None, resume: bool = False, threads: int = 1) -> Launch:
        # All at once: the queue knows who has room.
        waiting = local.queue_cohorts(cohorts)
        launch = QueuedLaunch(waiting, max(1, len(waiting)), resume, threads, store=store, parent=job)
        launch.poll()
        return launch

    with places.launching(places.Launcher(begin, lambda: job_queue.count_cores(store, job.tags) or machine.usable_cores())):
        yield


def _stop_orphans(store: Store, job: Job) -> None:
    deadline = time.monotonic() + ORPHAN_SECONDS
    ids = [child.id for child in models.everything(store) if child.parent == job.id]
    while living := [row.id for row in job_queue.find_rows(store, ids).values() if row.state in _OPEN]:
        for id in living:
            job_queue.ask_stop(store, id)
        if time.monotonic() > deadline:
            return  # what is still written is busy, and said to be
        time.sleep(LOOK_SECONDS)


class ChildJob:
    """A job of the queue, as its parent sees it."""

    pid = 0

    def __init__(self, launch: "QueuedLaunch", id: str) -> None:
        self._launch, self.id = launch, id
        self.returncode: int | None = None
        self.reason = ""

    def poll(self) -> int | None:
        """0 once it has ended well; never before no attempt of it can write any more."""
        row = self._launch.look().get(self.id)
        if self.returncode is None and row is not None and row.state not in _OPEN:
            job = models.load(self._launch.store, self.id)
            if remote.is_used() and job is not None and (job.live or job.state == "crashed"):
                return None  # it has ended, and what it has made is not all here yet
            if row.state == "failed":
                self.returncode, self.reason = -signal.SIGKILL, f"killed by what happened to its workers: {row.reason}"
            elif row.state == "stopped" or (job is not None and job.state == "stopped"):
                self.returncode = -signal.SIGTERM
            else:
                self.returncode = 0 if job is None or job.state == "finished" else 1
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        """Ask it to write checkpoints and stop, wherever it is; nothing faster reaches another machine."""
        job_queue.ask_stop(self._launch.store, self.id)

    def wait(self) -> int | None:
        """How it ended, once it has."""
        while self.poll() is None:
            time.sleep(LOOK_SECONDS)
        return self.returncode


@dataclass
class QueuedLaunch(Launch):
    """Cohorts in the queue."""

    store: Store = field(default_factory=Store)
    parent: Job | None = None
    _rows: dict[str, Row] = field(default_factory=dict)
    _looked: float = -1e9

    def look(self) -> dict[str, Row]:
        """The rows of all children, as they were a moment ago: also while the database does not answer."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            ids = [cohort.process.id for cohort in self.running if isinstance(cohort.process, ChildJob)]
            try:
                self._rows = job_queue.find_rows(self.store, ids)
                # What a search stops early, it stops for what its runs have shown so far.
                remote.follow(self.store, ids)
            except LeaseLost:
                raise
            except RunError:
                pass  # the parent's own lease says how long this may last
            self._looked = time.monotonic()
        return self._rows

    def _start(self, cohort: Cohort) -> None:
        assert self.parent is not None
        with launcher_status.open_log(cohort.log) as log:
            cohort.log_start = log.tell()
        parent: dict[str, Any] = {"by": self.parent.by, "target": self.parent.target, "tags": self.parent.tags, "parent": self.parent.id}
        job = Job(
            **parent,
            id=jobs.reserve(self.store),
            kind="cohort",
            state="queued",
            digest="",
            request={"kind": self.parent.kind, "refers": self.parent.refers},
            runs=[run.name for run in cohort.runs],
            created=self.parent.created,
            cores=Run(cohort.runs[0]).config.cores,
            shared=True,
            reason="waits for a worker",
        )
        models.save(self.store, job)
        submit_shared(self.store, job)
        cohort.process = ChildJob(self, job.id)
        self.running.append(cohort)

    def _kill(self, cohort: Cohort) -> None:
        if cohort.process is not None and cohort.process.poll() is None:
            cohort.process.send_signal(signal.SIGKILL)

    def _explain(self, cohort: Cohort, printed: str) -> str:
        return (cohort.process.reason if isinstance(cohort.process, ChildJob) else "") or super()._explain(cohort, printed)
