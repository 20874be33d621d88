"""What is known about something that was started in the background: a training, a trial, a search."""

import time
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from rlclinic.ops.jobs.audit import Caller
from rlclinic.report.models import Result, ResultPart
from rlclinic.runs import jobs, lock
from rlclinic.runs.status_file import HEARTBEAT_SECONDS
from rlclinic.runs.store import Store

JobKind = Literal["training", "trial", "optimize", "sensitivity", "race", "regress", "evaluation", "cohort"]
JobState = Literal["starting", "queued", "running", "finished", "stopped", "failed", "crashed"]
LIVE: Final = ("starting", "queued", "running")
ALL_CORES: Final = 2**31 - 1
"""Of a job that takes the whole of whichever worker does it."""


class Job(Result):
    """A start, and what became of it. Stored as job.json; its runs, trial or search are ordinary ones of the store."""

    id: str
    kind: JobKind
    state: JobState
    """`queued`: it waits for others to end, and has no process yet.

    `crashed` is never written: it is how a live one reads when its process is gone."""
    by: Caller
    key: str | None = None
    """The caller's own name for this start: the same key is the same start."""
    digest: str
    """Of the request: a key that comes back with another request is a mistake."""
    request: dict[str, Any]
    hypothesis: str = ""
    change: list[str] = Field(default_factory=list)
    target: str = ""
    """What is trained or treated, as it was asked for."""
    refers: str | None = None
    """The group, trial or search that it makes."""
    making: str | None = None
    """The id that it was going to have, known before it is made: after a kill it is found by it, and not made twice."""
    runs: list[str] = Field(default_factory=list)
    """Of a training: its runs."""
    created: float
    started: float | None = None
    heartbeat: float | None = None
    ended: float | None = None
    pid: int | None = None
    process_started: int | None = None
    host: str | None = None
    max_env_steps: int | None = None
    """What it may use at most: held while it runs."""
    before_env_steps: int = 0
    """What its runs had made before it began."""
    used_env_steps: int | None = None
    """Once it has ended."""
    max_wall_seconds: float | None = None
    """Of one process: whoever takes it up again says anew."""
    past_wall_seconds: float = 0.0
    """Of the processes that did it before it was taken up again."""
    cores: int = 1
    """How many it keeps busy while it runs."""
    shared: bool = False
    """Whether any worker of the database may do it, on whatever machine."""
    tags: list[str] = Field(default_factory=list)
    """What a worker must have to do it."""
    parent: str | None = None
    """Of a cohort: the job that waits for it."""
    resumes: int = 0
    reason: str | None = None
    """Why it stopped or failed; of a queued one, what it waits for."""
    repeated: bool = False
    """In an answer: this start had been made before, and nothing new was started."""

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def waits_for_own(self) -> bool:
        """Whether it only plans and looks, and jobs of its own train: then it takes no cores. A user's own command it runs itself."""
        return self.shared and self.kind not in ("training", "cohort", "evaluation") and self.max_env_steps is not None

    @property
    def wall_seconds(self) -> float:
        """Seconds that processes worked on it."""
        end = self.ended if self.ended is not None else self.heartbeat
        return self.past_wall_seconds + (max(0.0, end - self.started) if self.started is not None and end is not None else 0.0)


class JobList(Result):
    """Jobs of a store, newest first."""

    jobs: list[Job]


class Planned(ResultPart):
    """A checked request, before anything is written."""

    target: str
    change: list[str]
    max_env_steps: int | None
    """None: nobody knows, as for a user's own command."""
    runs: int
    """How many runs share that at most."""
    cores: int | None = None
    """Cores that it keeps busy; None: all of them."""


def load(store: Store, jid: str) -> Job | None:
    """A job as it stands; None if there is none, or its file is damaged."""
    record = jobs.read(store, jid)
    return None if record is None else _job(record)


def everything(store: Store) -> list[Job]:
    """Every job that can be read, oldest first."""
    return [job for record in jobs.records(store) if (job := _job(record)) is not None]


def _job(record: dict[str, Any]) -> Job | None:
    try:
        job = Job.model_validate(record)
    except ValidationError:
        return None  # written by another version, or edited: it must not stop all others
    return job.model_copy(update={"state": "crashed"}) if job.live and not _alive(job) else job


def _alive(job: Job) -> bool:
    """Whether its process is still there. A job of another machine is believed as long as its heartbeat is young."""
    if job.pid is None:
        return job.state == "queued"  # it waits in the queue, where no process is needed
    if job.host != lock.HOST:
        return time.time() - (job.heartbeat or job.created) < HEARTBEAT_SECONDS
    started = lock.started(job.pid)
    return started is not None and job.process_started in (None, started)


def save(store: Store, job: Job) -> Job:
    """Put a job down as it is now."""
    jobs.write(store, job.model_dump(mode="json", exclude={"repeated"}))
    return job


def started(store: Store) -> list[Job]:
    """Every job that somebody started, oldest first: without those that jobs made for themselves."""
    return [job for job in everything(store) if job.parent is None]


def of(store: Store, name: str) -> Job | None:
    """The newest job that made this group, trial or search, or has this id."""
    return next((job for job in reversed(everything(store)) if name in (job.id, job.refers)), None)
