"""Jobs for workers that share no disk with whoever starts them: RLCLINIC_DB names a database, and RLCLINIC_ARTIFACTS an object store.

    home      the folder where jobs are started, listed, stopped and judged. Before a job is queued, it goes into the object store: its
              record, its runs and their group. While another machine trains them, their rows and states are shown here; once the job has
              ended, all of it is here, and as if it had been trained here
    a worker  has a folder of its own, for what it does at the moment. It brings a job, trains on its disk, puts there what is new, and
              says that the job is done only when the object store has all of it

Who may go on with a job is decided by the queue and its leases alone. A worker that was given one takes the next number of each of its runs
in the object store before it trains (`artifacts.take`): of whoever had them before, and does not know it yet, nothing is taken any more.

Trials, races, searches, studies and gates are planned at home, by a worker that has that folder; what they train may be trained anywhere.
Requests to runs (adjust, stop) travel through the database, and are heard with the next renewal of the lease.
"""

import fcntl
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from rlclinic.errors import NotFound, RlclinicError, RunError, UsageError
from rlclinic.ops.jobs import budget, models
from rlclinic.ops.jobs.models import Job
from rlclinic.runs import control, disk, jobs, lease
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.database.job_queue import Claim
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.object_store.artifacts import Item, JobFolder
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

FOLLOW_SECONDS: Final = 5.0
"""How often a process that stays looks for what other machines have put into the object store."""
PATIENCE_SECONDS: Final = 5.0
"""How long somebody who only wants to look waits for the object store."""
AGAIN_SECONDS: Final = 2.0
"""How long a worker waits before it asks an object store again that was away."""
_ANYWHERE: Final = ("training", "cohort")
"""What needs nothing of a store but its runs."""
_OPEN: Final = ("reserved", "queued", "claimed")
_LOCK: Final = ".following"


def is_used() -> bool:
    """Whether jobs may be done by machines that have no part in this disk."""
    return connections.url() is not None and artifacts.url() is not None


# ── which store this is ──


def join(store: Store, *, worker: bool = False) -> bool:
    """Be a part of the store whose jobs are in the object store; False where a worker must wait until there is one."""
    if not is_used():
        return True
    there = artifacts.find_store_name()
    if worker and not connections.is_named(store):
        if there is None:
            return False
        connections.give_name(store, there, worker=True)
    name = connections.identify(store)
    if there is None:
        there = artifacts.name_store(name)
    if there != name:
        raise UsageError(
            f"{artifacts.url()} has the jobs of another store, not those of {store.root}.\n"
            "  Their runs would be taken for each other's.\n"
            f"  Take another prefix: export {artifacts.VARIABLE}=…, or another folder: --runs-dir DIR"
        )
    return True


def settle(store: Store) -> None:
    """Make a folder that nobody has used yet one where jobs are started, before a worker that shares it takes it for its own."""
    if is_used() and not connections.is_named(store):
        join(store)


def check_home(store: Store) -> None:
    """UsageError in a folder that a worker keeps for itself: what it has handed in, it removes there."""
    if is_worker(store):
        raise UsageError(
            f"{store.root} is the folder of a worker, which keeps nothing.\n  Nobody would find there what is started.\n"
            "  Start it in another folder: --runs-dir DIR"
        )


def is_worker(store: Store) -> bool:
    """Whether a folder is one that a worker keeps for itself."""
    return connections.is_named(store) and connections.read_identity(store).worker


def home_tags(store: Store) -> list[str]:
    """What a worker has, beside its own tags, that can plan what is started in this folder."""
    if not connections.is_named(store) or is_worker(store):
        return []
    return [f"home-{connections.read_identity(store).home}"]


def tags_of(store: Store, job: Job) -> list[str]:
    """What a worker must have to do a job: to plan, the folder where it was started."""
    return [*job.tags, *(home_tags(store) if is_used() and job.kind not in _ANYWHERE else [])]


# ── home: sending a job, and following it ──


def send(store: Store, job: Job) -> None:
    """Put a job and its runs where any worker finds them. RunError if the object store is away: it is not queued then."""
    if is_used() and not is_worker(store):
        artifacts.push([*_runs_and_groups(store, job), JobFolder(jobs.folder(store, job.id))])


def follow(store: Store, only: Sequence[str] | None = None, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Show here what workers on other machines do, and send them what their runs are asked; nothing where there are none.

    One process at a time: another that comes meanwhile finds it done.
    """
    if not is_used() or not jobs.folder(store).exists() or is_worker(store):
        return
    waiting = [job for job in models.everything(store) if _is_open(job) and (only is None or job.id in only)]
    if not waiting:
        return
    with _alone(store) as free:
        if not free:
            return
        rows = job_queue.find_rows(store, [job.id for job in waiting])
        for job in waiting:
            if (row := rows.get(job.id)) is not None and row.attempt:
                _follow_one(store, job, ended=row.state not in _OPEN, patience_seconds=patience_seconds)
    ended = [job.id for job in waiting if (row := rows.get(job.id)) is not None and row.state not in _OPEN]
    if any((left := models.load(store, id)) is not None and _is_open(left) for id in ended):
        # Nobody could write down that it was stopped before it began, or that it was given up.
        from rlclinic.ops.jobs import pool

        pool.reconcile(store)
    _stop_late(store, [job for job in waiting if job.id not in ended])


def _is_open(job: Job) -> bool:
    # One whose last word is old reads as crashed: that its worker is there the queue knows.
    return job.shared and (job.live or job.state == "crashed")


def _stop_late(store: Store, waiting: Sequence[Job]) -> None:
    """The hours that a person allows all agents together are known here alone."""
    budgeted = [job for job in waiting if job.by.budgeted]
    left = budget.standing(store).left_wall_seconds if budgeted else None
    for job in budgeted if left is not None and left <= 0 else []:
        job_queue.ask_stop(store, job.id)


def follow_or_say(store: Store, said: set[str]) -> None:
    """The same where somebody only looks: what is wrong is said once."""
    try:
        follow(store)
    except RlclinicError as error:
        if str(error) not in said:
            said.add(str(error))
            sys.stderr.write(f"{error}\n")


def keep_following(store: Store, said: set[str]) -> None:
    """The same again and again, for as long as this process lives."""

    def again() -> None:
        while True:
            time.sleep(FOLLOW_SECONDS)
            follow_or_say(store, said)

    threading.Thread(target=again, daemon=True).start()


def _follow_one(store: Store, job: Job, *, ended: bool, patience_seconds: float) -> None:
    """Runs first, the job's record last: one that has ended here has brought everything."""
    elsewhere = [run for run in job.runs if artifacts.follow(store, "runs", run, whole=ended, patience_seconds=patience_seconds)]
    if job.kind == "training" and job.refers is not None:
        artifacts.follow(store, "groups", job.refers, whole=ended, patience_seconds=patience_seconds)
    if not ended:
        forward(store, job, elsewhere)

    # One that has ended since the queue was asked is brought at the next look: its runs may have more than they had a moment ago.
    def fits(record: dict[str, Any]) -> bool:
        return ended or record.get("state") in models.LIVE

    if not artifacts.follow(store, "jobs", job.id, whole=ended, patience_seconds=patience_seconds, wanted=fits):
        return
    outcome = disk.read_json(jobs.folder(store, job.id) / jobs.OUTCOME)
    written = any(line.get("job") == job.id and "outcome" in line for line in jobs.lines(store, jobs.LEDGER))
    if ended and outcome is not None and not written:
        jobs.append(store, jobs.LEDGER, outcome)


def forward(store: Store, job: Job, runs: Sequence[str]) -> None:
    """Send what runs were asked here to where they are trained."""
    for run in runs:
        if control.pending(store.root / run) is not None and (request := control.take(store.root / run)) is not None:
            job_queue.send_request(store, job.id, run, request)


@contextmanager
def _alone(store: Store) -> Iterator[bool]:
    with disk.guarded(jobs.folder(store) / _LOCK), (jobs.folder(store) / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


# ── a worker: bringing a job, and handing it in ──


def fetch(store: Store, jid: str) -> None:
    """Bring a job's record, as whoever does it next is to see it."""
    if not is_used() or not lease.is_kept():
        return
    artifacts.take(store, "jobs", jid)
    job = models.load(store, jid)
    if job is not None and job.kind not in _ANYWHERE and is_worker(store):
        raise RunError(f"a {job.kind} is planned where it was started.\n  {jid} is not begun here.\n  Type there: rlclinic worker")
    if job is not None and (job.live or job.state == "crashed") and is_worker(store):
        # As whoever did it before had left it. That its lease was over the queue knows.
        models.save(store, job.model_copy(update={"state": "queued", "pid": None, "host": None, "past_wall_seconds": job.wall_seconds}))


@contextmanager
def held(store: Store, job: Job) -> Iterator[None]:
    """Bring the runs of a job, and put its record and log into the object store again and again while the block goes on."""
    if not is_used() or not lease.is_kept():
        yield
        return
    _bring(store, job)
    over, said = threading.Event(), set[str]()

    def upload() -> None:
        while not over.wait(artifacts.UPLOAD_SECONDS):
            artifacts.push_or_say([JobFolder(jobs.folder(store, job.id))], said)

    # At once: that it runs, and where.
    artifacts.push_or_say([JobFolder(jobs.folder(store, job.id))], said)
    thread = threading.Thread(target=upload, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _bring(store: Store, job: Job) -> None:
    """Runs and the group to write to; what they go on from, to read."""
    if job.kind == "training" and job.refers is not None:
        artifacts.take(store, "groups", job.refers)
    for id in job.runs:
        artifacts.take(store, "runs", id)
        run = Run(store.root / id)
        if job.kind == "cohort" and run.group_id is not None:
            artifacts.follow(store, "groups", run.group_id, whole=True)
        origin = str(run.record.get("parent") or "").rpartition("@")[0]
        if origin and not (store.root / origin).exists():
            artifacts.follow(store, "runs", origin, whole=True)


def hand_in(store: Store, job: Job, leaving: Callable[[], bool] = lambda: False) -> None:
    """Put all that a job has made into the object store; what cannot be put there yet is tried again, for as long as the lease is kept.

    Before the queue is told: what it says is done, others can read.
    """
    if not is_used() or not lease.is_kept():
        return
    said = ""
    while True:
        try:
            artifacts.push([*_runs_and_groups(store, job), JobFolder(jobs.folder(store, job.id))])
        except (lease.LeaseLost, artifacts.Taken):
            raise
        except RunError as error:
            if leaving():
                raise
            if str(error) != said:
                said = str(error)
                sys.stderr.write(f"{said}\n")
            time.sleep(AGAIN_SECONDS)
        else:
            return


def forget(store: Store, job: Job) -> None:
    """Remove what was handed in from a worker's own disk."""
    for run in job.runs:
        shutil.rmtree(store.root / run, ignore_errors=True)
    shutil.rmtree(jobs.folder(store, job.id), ignore_errors=True)


def pass_on(store: Store, claimed: Claim, heard: set[int]) -> None:
    """Hand requests that came through the database to the runs of a job, once they are here; `heard` has the numbers of those that were.

    They stay in the database until the job has ended: of what an attempt was told, and had not put into the object store before it was
    killed, the next one would know nothing.
    """
    if not is_used():
        return
    asked: dict[str, list[dict[str, Any]]] = {}
    for number, id, request in job_queue.read_requests(store, claimed):
        if number not in heard and (store.root / id).is_dir() and not artifacts.is_followed(store, "runs", id):
            heard.add(number)
            asked.setdefault(id, []).append(request)
    for id, requests in asked.items():
        there = Run(store.root / id)
        changed = _join([change.get("set") for change in there.interventions])
        numbers = {name: value for name, value in _join([each.get("set") for each in requests]).items() if changed.get(name) != value}
        stop, checkpoint = (any(each.get(flag) for each in requests) for flag in ("stop", "checkpoint"))
        if stop or checkpoint or numbers:
            control.ask(there.path, stop=stop, checkpoint=checkpoint, numbers=numbers)


def _join(changes: Sequence[object]) -> dict[str, Any]:
    """Of changes to the same number the last one."""
    return {name: value for change in changes if isinstance(change, dict) for name, value in change.items()}


def _runs_and_groups(store: Store, job: Job) -> list[Item]:
    """What a job writes to, in the order in which it can be read: a group has runs."""
    runs: list[Run] = [Run(store.root / id) for id in job.runs]
    origins = {str(run.record.get("parent") or "").rpartition("@")[0] for run in runs} - {""}
    groups: dict[str, Group] = {group.id: group for run in runs if (group := run.group) is not None}
    if job.kind == "training" and job.refers is not None:
        with suppress(NotFound):
            groups[job.refers] = store.group(job.refers)
    return [*(Run(store.root / id) for id in sorted(origins) if (store.root / id).exists()), *runs, *groups.values()]
