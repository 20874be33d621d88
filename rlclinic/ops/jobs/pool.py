"""`rlclinic worker` on a shared queue: claims jobs, starts a process for each, watches it, and leaves no job behind.

The database decides who does what (`runs.database.job_queue`). A job's process renews its own lease, and keeps a deadline in a file
that all of its processes look at before they write (`runs.lease`). What is left to do here: start what fits, kill what outlived its
lease, give back what died without a word, and write down how jobs ended whose processes could not.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rlclinic.errors import RunError
from rlclinic.launch import deaths, places
from rlclinic.ops.jobs import models, remote, start, worker
from rlclinic.ops.train import machine
from rlclinic.report.format import plural
from rlclinic.runs import disk, jobs, lease
from rlclinic.runs.database import job_queue
from rlclinic.runs.database.job_queue import Claim
from rlclinic.runs.store import Store

POLL_SECONDS: Final = 0.1
SETTLE_SECONDS: Final = 1.0
RECONCILE_SECONDS: Final = 10.0
START_SECONDS: Final = 300.0
"""How long a process may take until it renews its lease itself; on a busy machine the imports alone take a while."""
DOWN_SECONDS: Final = 1.0
"""How long a worker waits before it asks a database again that did not answer."""
DRAIN_SECONDS: Final = 90.0
"""How long processes may take to write checkpoints once a worker was asked to leave."""
AWAY_SECONDS: Final = 30.0
"""How long a worker takes no job after the object store had not answered one."""
ANNOUNCE_SECONDS: Final = 10.0
MOST_PARENTS: Final = 8
"""Jobs at a time that only wait for jobs of their own. They take no cores, but memory."""
Say = Callable[[str], None]


@dataclass
class Child:
    """A job that this worker does: its process, and the file with its deadline."""

    claimed: Claim
    cores: int
    process: "subprocess.Popen[bytes]"
    deadline: Path
    late: bool = False
    """Its time was over, and it was killed here."""
    leaving: bool = False
    """It was asked to end because its worker leaves."""
    started: float = field(default_factory=time.monotonic)
    renewed: float = field(default_factory=time.monotonic)


@dataclass
class Worker:
    """One worker of a queue. `work` ends when `stop` says so, once everything that it does has a checkpoint."""

    store: Store
    tags: Sequence[str] = ()
    most: int | None = None
    """Jobs at a time; None: as many as there are cores for."""
    cores: int = 0
    """That it has for jobs; 0: those of this machine, or as many as `most` where they train on a cluster elsewhere."""
    say: Say = lambda text: None
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{secrets.token_hex(3)}")
    """Also two containers with the same hostname are two workers."""
    alive: Path | None = None
    """Touched at every look around: a probe kills a worker that hangs."""
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cores = self.cores or (self.most if self.most and places.is_elsewhere() else machine.usable_cores())
        self._folder = Path(tempfile.mkdtemp(prefix="rlclinic-worker-"))
        self._settled = self._reconciled = self._announced = -1e9
        self._answers = True
        self._joined = self._waits = False
        self._claims_again = -1e9

    def work(self, *, stop: Callable[[], int], until_empty: bool = False) -> None:
        """Do jobs until asked to leave, or, with `until_empty`, until nothing waits and nothing runs."""
        try:
            while not stop():
                self._show_life()
                try:
                    self._step()
                    if until_empty and not self.children and not self._pending():
                        return
                    if not self._answers:
                        self.say("the database answers again")
                    self._answers = True
                except RunError as error:
                    # Jobs that run keep their own deadlines. Nothing is claimed meanwhile.
                    if self._answers:
                        self.say(str(error))
                    self._answers = False
                    time.sleep(DOWN_SECONDS)
                time.sleep(POLL_SECONDS)
        finally:
            with suppress(RunError):
                job_queue.leave(self.store, self.name)
            self._drain(stop)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _show_life(self) -> None:
        if self.alive is not None:
            with disk.guarded(self.alive):
                self.alive.touch()

    def _pending(self) -> bool:
        return any(row.state in ("queued", "claimed") and row.host == job_queue.ANY for row in job_queue.list_rows(self.store))

    def _step(self) -> None:
        if not self._joined:
            self._joined = remote.join(self.store, worker=True)
            if not self._joined:
                if not self._waits:
                    self.say("waits for the first job: until then nobody has said which store this object store is of")
                self._waits = True
                return
        self._watch()
        now = time.monotonic()
        if now - self._settled > SETTLE_SECONDS:
            self._settled = now
            if job_queue.settle(self.store) or now - self._reconciled > RECONCILE_SECONDS:
                self._reconciled = now
                reconcile(self.store)
        if now - self._announced > ANNOUNCE_SECONDS:
            self._announced = now
            job_queue.announce(self.store, self.name, self.cores if self.most is None else min(self.cores, self.most), self._all_tags())
        while now > self._claims_again:
            at_work = [child for child in self.children if child.cores]
            free = 0 if self.most is not None and len(at_work) >= self.most else self.cores - sum(child.cores for child in at_work)
            waiting = len(self.children) - len(at_work) < MOST_PARENTS
            asked = lease.now()
            if (free <= 0 and not waiting) or (
                taken := job_queue.claim_shared(
                    self.store, self.name, tags=self._all_tags(), cores=self.cores, free=max(free, 0), waiting=waiting
                )
            ) is None:
                return
            self._launch(taken, asked)

    def _launch(self, claimed: Claim, asked: float) -> None:
        """Start the process of a job. It ends with this worker, writing checkpoints, and is told which attempt it is."""
        job, row = models.load(self.store, claimed.id), job_queue.find_rows(self.store, [claimed.id])[claimed.id]
        if job is None and not remote.is_worker(self.store):
            job_queue.finish(self.store, claimed, "lost", reason=f"{claimed.id}/{jobs.JOB} is gone or damaged")
            return
        folder = jobs.folder(self.store, claimed.id)
        with disk.guarded(folder):
            folder.mkdir(parents=True, exist_ok=True)
        deadline = self._folder / f"{claimed.id}.{claimed.attempt}"
        lease.extend(deadline, asked, job_queue.LEASE_SECONDS)
        command = [sys.executable, "-m", "rlclinic.launch.child", str(os.getpid()), start.WORKER]
        # Not the URL: a command line is for everybody to read.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        environment |= {lease.VARIABLE: str(deadline), "RLCLINIC_HOST": self.name}
        with (folder / jobs.LOG).open("ab") as log:
            process = subprocess.Popen(
                [*command, str(self.store.root.resolve()), claimed.id, str(claimed.attempt)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment,
            )
        self.children.append(Child(claimed, min(row.cores, self.cores), process, deadline))
        what = "" if job is None else f"{job.kind} {job.refers or job.target}"
        self.say(f"{claimed.id}  {what}{f', attempt {claimed.attempt}' if claimed.attempt > 1 else ''}")

    def _all_tags(self) -> list[str]:
        return [*self.tags, *remote.home_tags(self.store)]

    def _watch(self) -> None:
        for child in list(self.children):
            self._renew(child)
            over = lease.left(child.deadline) <= 0
            if over:
                child.late = True
                # Paused, or cut off: whatever it still does must not touch its runs, which may be another worker's by now.
                kill_session(child.process.pid)
            if child.process.poll() is None:
                continue
            if (members := find_session(child.process.pid)) and not over:
                # Its trainers write their last checkpoints, for as long as they may.
                for pid in members:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGTERM)
                continue
            self._end(child)

    def _renew(self, child: Child) -> None:
        """Keep the lease of a process that has not come so far that it does it itself."""
        now = time.monotonic()
        if now - child.renewed < job_queue.LEASE_SECONDS / 10 or now - child.started > START_SECONDS or lease.is_taken_over(child.deadline):
            return
        asked = lease.now()
        with suppress(lease.LeaseLost):
            job_queue.renew(self.store, child.claimed)
            lease.extend(child.deadline, asked, job_queue.LEASE_SECONDS)
            child.renewed = now

    def _end(self, child: Child) -> None:
        """A job that died without a word goes back to the queue."""
        returncode = child.process.returncode
        if job_queue.find_claim(self.store, child.claimed.id) == child.claimed:
            reason = deaths.explain(returncode, "") if returncode < 0 else f"its process ended with exit code {returncode}"
            # Paused past its time, without a database, or ended from here before it could catch a signal: that says nothing about the job.
            # Nor does it where Ray ends a process that has lost its cluster.
            lost = child.late or returncode == worker.CUT_OFF or (places.on_ray() and returncode != -signal.SIGKILL)
            away = returncode == worker.AWAY
            put_back(self.store, child.claimed.id, reason)
            job_queue.release(self.store, child.claimed, reason, failed=not (lost or away or child.leaving), lost=lost)
            if away:
                self._claims_again = time.monotonic() + AWAY_SECONDS
            self.say(f"{child.claimed.id}  {reason}; given back to the queue")
            self._reconciled = -1e9
        # Only now: where the database did not answer, this is done again.
        self.children.remove(child)
        child.deadline.unlink(missing_ok=True)

    def _drain(self, stop: Callable[[], int]) -> None:
        """Let every job write checkpoints and give itself back; a second request does not wait for it."""
        if self.children:
            waits = plural(len(self.children), "job")
            self.say(f"leaving once {waits} went back to the queue, with checkpoints; a second signal does not wait")
        for child in self.children:
            child.leaving = True
            child.process.send_signal(signal.SIGTERM)
        deadline, asked = time.monotonic() + DRAIN_SECONDS, stop()
        while self.children:
            self._show_life()
            if stop() > asked or time.monotonic() > deadline:
                for child in self.children:
                    kill_session(child.process.pid)
                    child.process.wait()
            try:
                self._watch()
            except RunError:
                self.children = [child for child in self.children if child.process.poll() is None or find_session(child.process.pid)]
            time.sleep(POLL_SECONDS)


def put_back(store: Store, id: str, reason: str) -> None:
    """Write down that a job waits again."""
    with jobs.alone(store):
        job = models.load(store, id)
        if job is not None and (job.live or job.state == "crashed"):
            worker.wait_again(store, job, reason)


def reconcile(store: Store) -> None:
    """Bring job.json of every shared job in line with the queue: ends that no process could write down, and rows that are gone."""
    if remote.is_worker(store):
        return  # where jobs are started this is known
    with jobs.alone(store):
        known = {row.id: row for row in job_queue.list_rows(store)}
        for job in models.everything(store):
            row = known.get(job.id)
            if not job.shared or not (job.live or job.state == "crashed"):
                continue
            if (row is None or row.state in ("reserved", "lost")) and job.parent is not None:
                # Its parent was killed before it had told the queue, and has made another since.
                worker.close(store, job, worker.Ending("stopped", None, worker.ASKED, worker.ASKED))
            elif row is None or row.state in ("reserved", "lost"):
                if job.state == "queued":
                    # The database was made anew, or whoever queued it was killed before it had told it.
                    start.submit_shared(store, job)
            elif row.state == "failed":
                worker.close(store, job, worker.Ending("failed", None, f"failed: {row.reason}", row.reason))
            elif row.state == "stopped":
                worker.close(store, job, worker.Ending("stopped", None, worker.ASKED, worker.ASKED))
            elif row.state == "queued" and job.state != "queued":
                worker.wait_again(store, job, row.reason)


def find_session(leader: int) -> list[int]:
    """The processes of a session, which is named after its first one; that one is left out."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The second field is the command in parentheses and may contain anything; 3 is the state, 6 the session.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] not in "ZX" and int(entry.name) != leader:
            members.append(int(entry.name))
    return members


def kill_session(leader: int) -> None:
    """End all processes of a job at once, also those that are paused."""
    for pid in [leader, *find_session(leader)]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
