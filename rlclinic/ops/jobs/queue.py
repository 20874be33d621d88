"""Whose turn it is: jobs of a store share this machine's cores, the oldest first. The next ones wait in the queue, without a process.

There is no scheduler to keep alive: whoever starts a job, a job that ends and a running server look for those whose turn has come.
"""

from rlclinic.ops.jobs import models
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.train import machine
from rlclinic.runs import lock
from rlclinic.runs.database import job_queue
from rlclinic.runs.store import Store

MOST_NAMED = 2


def ahead(store: Store, job: Job) -> list[Job]:
    """The jobs that this one waits for: those in front of it, and those that leave it no room. None: it is its turn."""
    others = [
        other
        for other in models.everything(store)
        if other.live and other.id != job.id and other.host in (None, lock.HOST) and not other.shared
    ]
    taken = [other for other in others if other.state == "running"]
    before = [other for other in others if other.state != "running" and (other.created, other.id) < (job.created, job.id)]
    for place, each in enumerate(before):
        if not _fits(each, taken):
            # Strictly in turn: a small one that overtook would let a large one wait forever.
            return [*taken, *before[place:]]
        taken.append(each)
    return [] if _fits(job, taken) else taken


def _fits(job: Job, taken: list[Job]) -> bool:
    # Whatever wants more than there is trains alone.
    return not taken or sum(each.cores for each in taken) + job.cores <= machine.usable_cores()


def is_open(store: Store, job: Job) -> bool:
    """Whether a job for any worker waits or is being done, as the queue knows it.

    What its record says is by the clock of whoever wrote it: a machine whose clock is an hour behind looks dead to all others.
    """
    row = job_queue.find_rows(store, [job.id]).get(job.id) if job.shared else None
    return row is not None and row.state in ("queued", "claimed")


def waiting(store: Store) -> set[str]:
    """The groups, trials and studies whose turn has not come."""
    return {each.refers for each in models.everything(store) if each.state == "queued" and each.refers is not None}


def describe_wait(waits_for: list[Job]) -> str:
    """What a job waits for, in words."""
    named = [f"{each.kind} {each.refers or each.id}" for each in waits_for]
    rest = len(named) - MOST_NAMED
    return f"waits for {', '.join(named[:MOST_NAMED])}{f' and {rest} more' if rest > 0 else ''}: the cores of this machine are taken"
