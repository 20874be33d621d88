"""The database behind the queue: making its tables, taking a queue from one to another, and saying whether all is well."""

import time
from collections import Counter
from pathlib import Path

from rlclinic.errors import RlclinicError, RunError
from rlclinic.ops.jobs import models, remote
from rlclinic.report.models import Result
from rlclinic.runs import jobs
from rlclinic.runs.database import audit_lines, connections, job_queue
from rlclinic.runs.store import Store

CLOCK_SECONDS = 5.0
"""Clocks that differ by more make times in lists confusing. Leases do not mind: they go by the database's alone."""


class Migrated(Result):
    """What became of the tables."""

    database: str
    before: int
    """Version of the tables before; 0: there were none."""
    now: int


class Moved(Result):
    """What was taken from one database to another."""

    database: str
    """Where it is now."""
    jobs: int
    waiting: int
    """Of them, those that wait for a worker."""
    audit_lines: int


class Checked(Result):
    """How the database behind the queue stands."""

    database: str
    """Without its password."""
    kind: str
    shared: bool
    """Whether jobs are for any worker."""
    round_trip_seconds: float
    clock_difference_seconds: float
    """How far the database's clock is ahead of this machine's."""
    states: dict[str, int]
    """Jobs by their state in the queue."""
    late: list[str]
    """Claimed, and not heard of for longer than a lease: the next worker takes them."""
    audit_lines: int
    """Who did what, in lines."""
    problems: list[str]


def migrate_database(runs_dir: Path = Path("runs")) -> Migrated:
    """Make the tables of the queue, or bring them up to date. Done twice it changes nothing."""
    store = Store(runs_dir)
    before, now = connections.migrate(store)
    remote.settle(store)
    return Migrated(database=connections.describe(store), before=before, now=now)


def move_queue(origin: str, runs_dir: Path = Path("runs")) -> Moved:
    """Take this store's queue and audit from another database to the chosen one. What waited for this machine waits for any worker then.

    All or nothing, and done again after a kill it goes on: rows are removed where they were once they are safe where they go.
    """
    store = Store(runs_dir)
    connections.check_secret(origin)
    if connections.read_url(origin) == connections.url():
        raise RunError(f"the queue is in {connections.describe(store)} already.\n  Nothing was moved.\n  Name where it was")
    columns = ", ".join(connections.COLUMNS[1:])
    marks = ", ".join("?" * len(connections.COLUMNS))
    with jobs.alone(store), connections.transaction(store, origin) as source:
        taken = source.execute(
            f"SELECT {columns} FROM rlclinic_job WHERE store = ? AND (host = '' OR state IN ('queued', 'claimed')) {source.locked}",
            (source.store,),
        ).fetchall()
        named = [dict(zip(connections.COLUMNS[1:], row, strict=True)) for row in taken]
        if busy := [row["id"] for row in named if row["state"] == "claimed"]:
            raise RunError(
                f"{len(busy)} jobs are being done ({', '.join(busy[:3])}).\n  They would lose their leases.\n"
                "  Stop the workers first: they give their jobs back"
            )
        with connections.transaction(store) as target:
            moved = audit_lines.move(source, target)
            for row in named:
                row["host"] = job_queue.ANY
                target.execute(
                    f"INSERT INTO rlclinic_job (store, {columns}) VALUES ({marks}) ON CONFLICT DO NOTHING", (target.store, *row.values())
                )
            there = {row[0] for row in target.execute("SELECT id FROM rlclinic_job WHERE store = ?", (target.store,)).fetchall()}
            if other := [row["id"] for row in named if row["id"] not in there]:
                raise RunError(
                    f"the keys of {', '.join(other[:3])} belong to other jobs there.\n  Nothing was moved: one of them would be lost.\n"
                    "  Stop one of the two"
                )
        for row in named:
            job = models.load(store, row["id"])
            if job is not None and job.state == "queued" and not job.shared:
                models.save(store, job.model_copy(update={"shared": True, "host": None, "reason": "waits for a worker"}))
            source.execute("DELETE FROM rlclinic_job WHERE store = ? AND id = ?", (source.store, row["id"]))
    waiting = sum(row["state"] == "queued" for row in named)
    return Moved(database=connections.describe(store), jobs=len(named), waiting=waiting, audit_lines=moved)


def answers(store: Store) -> bool:
    """Whether the queue can be used now."""
    try:
        if connections.exists(store):
            with connections.transaction(store) as database:
                database.execute(f"SELECT {database.now}").fetchone()
    except RlclinicError:
        return False
    return True


def check_database(runs_dir: Path = Path("runs")) -> Checked:
    """Say whether the queue can be reached, how fast, and whether it agrees with what is written down in the store."""
    store = Store(runs_dir)
    problems: list[str] = []
    rows: list[job_queue.Row] = []
    difference, lines = 0.0, 0
    began = time.perf_counter()
    try:
        if connections.exists(store):
            with connections.transaction(store) as database:
                difference = float(database.execute(f"SELECT {database.now}").fetchone()[0]) - time.time()
    except RlclinicError as error:
        problems.append(str(error))
    round_trip = time.perf_counter() - began
    if not problems:
        rows = job_queue.list_rows(store)
        _, lines = audit_lines.read_last(store, 1)
        known = {row.id for row in rows}
        live = [job for job in models.everything(store) if job.shared == connections.shared() and job.live]
        problems += [f"job {job.id} waits, and the queue does not know it; a worker puts it back" for job in live if job.id not in known]
        problems += [
            f"the queue has job {row.id}, and its job.json is gone or damaged"
            for row in rows
            if row.state in ("queued", "claimed") and models.load(store, row.id) is None
        ]
        waiting = [row for row in rows if row.state == "queued" and row.host == job_queue.ANY]
        there = job_queue.list_worker_tags(store) if waiting else []
        problems += [
            f"job {row.id} waits for a worker with {', '.join(row.tags)} among its tags, and none that is there has them"
            for row in waiting
            if there and not any(set(row.tags) <= tags for tags in there)
        ]
        if abs(difference) > CLOCK_SECONDS:
            problems.append(f"the clocks of this machine and of the database differ by {difference:.0f} s")
    return Checked(
        database=connections.describe(store),
        kind="SQLite" if connections.url() is None else "PostgreSQL",
        shared=connections.shared(),
        round_trip_seconds=round_trip,
        clock_difference_seconds=difference,
        states=dict(Counter(row.state for row in rows)),
        late=[row.id for row in rows if row.late],
        audit_lines=lines,
        problems=problems,
    )
