"""The queue of a store, in @jobs/jobs.sqlite: what waits, who does what, and until when they are believed.

A job in the queue is a row and no process. `claim` hands the oldest one that fits to a worker, in one transaction: two workers never
get the same. Its `attempt` is one more than before, and every later word of the worker must name it, so that one that was paused past
its lease and another that went on in its place are told apart. job.json stays the readable copy of everything else about a job.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rlclinic.errors import RunError
from rlclinic.runs import disk, jobs
from rlclinic.runs.store import Store

FILE: Final = "jobs.sqlite"
LEASE_SECONDS: Final = 30.0
"""How long a worker is believed after its last word."""
State = Literal["queued", "claimed", "finished", "stopped", "lost"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS job (
    id TEXT PRIMARY KEY, created REAL NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0, lease_ends REAL, stop INTEGER NOT NULL DEFAULT 0
)
"""
# The database's clock: workers on machines whose clocks differ must agree on who is late.
_NOW: Final = "((julianday('now') - 2440587.5) * 86400.0)"


class LeaseLost(RunError):
    """Another worker goes on with the job, or somebody said that it is over: this one must not write any more."""


class Claim(NamedTuple):
    """A job that a worker got, and the number that its words must carry."""

    id: str
    attempt: int


class Row(NamedTuple):
    """A job as the queue knows it."""

    id: str
    host: str
    state: State
    attempt: int
    stop: bool
    late: bool
    """Claimed, and not heard of for longer than a lease."""


def submit(store: Store, id: str, host: str, created: float) -> None:
    """Put a job into the queue, or back into it: the oldest is the next."""
    with _transaction(store) as database:
        database.execute(
            "INSERT INTO job (id, created, host, state) VALUES (?, ?, ?, 'queued') ON CONFLICT (id) DO UPDATE SET "
            "state = 'queued', host = excluded.host, stop = 0, lease_ends = NULL",
            (id, created, host),
        )


def claim(store: Store, host: str, fits: Callable[[str], bool]) -> Claim | None:
    """The oldest job of this machine, if it fits; None if there is none, or it must wait. Nobody overtakes."""
    if not _path(store).exists():
        return None
    with _transaction(store) as database:
        asked = "SELECT id, attempt FROM job WHERE state = 'queued' AND host = ? ORDER BY created, id LIMIT 1"
        row = database.execute(asked, (host,)).fetchone()
        if row is None or not fits(row[0]):
            return None
        database.execute(
            f"UPDATE job SET state = 'claimed', attempt = attempt + 1, lease_ends = {_NOW} + ? WHERE id = ?", (LEASE_SECONDS, row[0])
        )
        return Claim(row[0], row[1] + 1)


def renew(store: Store, claimed: Claim) -> bool:
    """Say that a worker still works; whether it was asked to stop. LeaseLost if the job is no longer its own."""
    with _transaction(store) as database:
        told = database.execute(
            f"UPDATE job SET lease_ends = {_NOW} + ? WHERE id = ? AND attempt = ? AND state = 'claimed' RETURNING stop",
            (LEASE_SECONDS, *claimed),
        ).fetchone()
    if told is None:
        raise LeaseLost(f"job {claimed.id} is somebody else's by now.\n  Two would write to the same runs.\n  This one stops")
    return bool(told[0])


def finish(store: Store, claimed: Claim, state: State = "finished") -> bool:
    """Close a job; False if it is no longer this worker's."""
    with _transaction(store) as database:
        changed = database.execute(
            "UPDATE job SET state = ?, lease_ends = NULL WHERE id = ? AND attempt = ? AND state IN ('claimed', 'queued')",
            (state, *claimed),
        ).rowcount
    return changed == 1


def ask_stop(store: Store, id: str) -> State | None:
    """Ask for a job to end: one that waits never begins, of one that is claimed the worker is told with its next word."""
    if not _path(store).exists():
        return None
    with _transaction(store) as database:
        changed = database.execute(
            "UPDATE job SET stop = 1, state = iif(state = 'queued', 'stopped', state) WHERE id = ? RETURNING state", (id,)
        ).fetchone()
    return None if changed is None else changed[0]


def list_rows(store: Store) -> list[Row]:
    """Every job of the queue, in its order."""
    if not _path(store).exists():
        return []
    with _transaction(store) as database:
        rows = database.execute(f"SELECT id, host, state, attempt, stop, coalesce(lease_ends < {_NOW}, 0) FROM job ORDER BY created, id")
        return [Row(id, host, state, attempt, bool(stop), bool(late)) for id, host, state, attempt, stop, late in rows]


def find_claim(store: Store, id: str) -> Claim | None:
    """The claim that stands on a job now: what the process that was made for it goes by."""
    row = next((row for row in list_rows(store) if row.id == id and row.state == "claimed"), None)
    return None if row is None else Claim(row.id, row.attempt)


def _path(store: Store) -> Path:
    return jobs.folder(store) / FILE


@contextmanager
def _transaction(store: Store) -> Iterator[sqlite3.Connection]:
    """One at a time, on all processes: what is read in it is still so when it is written."""
    with disk.guarded(jobs.folder(store)):
        jobs.folder(store).mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(_path(store), timeout=30.0, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_SCHEMA)
            yield database
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise RunError(
            f"the queue {_path(store)} cannot be used: {error}.\n  Nothing was started.\n"
            "  If it is damaged, remove it: job.json of every job stays, and what waited is queued again"
        ) from error
