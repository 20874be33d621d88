"""The queue of jobs: what waits, who does what, and until when they are believed. In SQLite or PostgreSQL, see `connections`.

A job in the queue is a row and no process. `claim` hands the next one that fits to a worker, in one transaction: two workers never
get the same. Its `attempt` is one more than before, the fencing number: every later word of the worker must name it, so that one that
was paused past its lease and another that went on in its place are told apart. job.json stays the readable copy of everything else
about a job.

Jobs of one machine (`host`) are claimed with `claim`, jobs for any worker (host "") with `claim_shared`. Of the latter one whose attempt
came to nothing goes back to the queue, after a pause that doubles each time. Where its own process died that is a failure, of which
MOST_FAILURES end it. Where its worker was lost (killed, paused, cut off) it may be innocent, and has MOST_LOSSES.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

from rlclinic.errors import UsageError
from rlclinic.runs import lease
from rlclinic.runs.database import connections
from rlclinic.runs.database.connections import FILE as FILE
from rlclinic.runs.database.connections import Transaction
from rlclinic.runs.lease import LeaseLost
from rlclinic.runs.store import Store

LEASE_SECONDS = lease.SECONDS
"""How long a worker is believed after its last word."""
MOST_FAILURES: Final = 5
"""A job whose process dies so often is not tried again."""
MOST_LOSSES: Final = 30
"""Nor one whose worker was lost so often: it may be what takes machines down."""
BACKOFF_SECONDS = 1.0
"""How long a job waits after its first failure; twice as long after each one more."""
MOST_BACKOFF_SECONDS: Final = 60.0
RESERVED_SECONDS = 3600.0
"""How long a start that was never finished keeps its share of the budget."""
WORKER_SECONDS = 30.0
"""How long a worker's cores are counted on after its last word."""
_ROW: Final = "id, host, state, attempt, stop, coalesce(lease_ends < {now}, 1 = 0), failures, losses, reason, worker, tags, cores"
State = Literal["reserved", "queued", "claimed", "finished", "stopped", "failed", "lost"]
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ANY: Final = ""
"""The host of a job that any worker may do."""


class BudgetSpent(UsageError):
    """A start would use more than is left."""


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
    failures: int = 0
    losses: int = 0
    reason: str = ""
    worker: str = ""
    tags: tuple[str, ...] = ()
    cores: int = 1


class RunRequest(NamedTuple):
    """A stop or an adjustment of a run that is trained on a machine which shares no disk with who asks."""

    number: int
    run: str
    request: dict[str, Any]


class Reservation(NamedTuple):
    """A start before anything is made for it."""

    id: str
    created: float
    key: str | None
    """The same key is the same start."""
    digest: str
    env_steps: int = 0
    """What it may use at most."""
    limit: int | None = None
    """What all that is charged may use together; None: this one is not charged."""


def reserve(store: Store, wanted: Reservation) -> str:
    """Take a key and a share of the budget, in one transaction; the id of the job that has the key, which may be an earlier one's.

    A job that is taken up again names itself, and what it may use by now.
    """
    with connections.transaction(store) as database:
        # Whoever comes at the same moment waits here, and then sees this one's row.
        database.execute("INSERT INTO rlclinic_store (id) VALUES (?) ON CONFLICT (id) DO NOTHING", (database.store,))
        database.execute("UPDATE rlclinic_store SET budget_checks = budget_checks + 1 WHERE id = ?", (database.store,))
        if wanted.key is not None:
            asked = "SELECT id, digest FROM rlclinic_job WHERE store = ? AND key = ?"
            known = database.execute(asked, (database.store, wanted.key)).fetchone()
            if known is not None and known[1] != wanted.digest:
                raise UsageError(
                    f"the idempotency key belongs to another start, job {known[0]}.\n  It cannot be told which of the two is meant.\n"
                    "  Take another key for another request"
                )
            if known is not None and known[0] != wanted.id:
                return str(known[0])
        if wanted.limit is not None:
            charged = "SELECT coalesce(sum(env_steps), 0) FROM rlclinic_job WHERE store = ? AND charged = 1 AND id <> ?"
            left = wanted.limit - int(database.execute(charged, (database.store, wanted.id)).fetchone()[0])
            if wanted.env_steps > left:
                raise BudgetSpent(
                    f"this may take {wanted.env_steps:,} env steps, and {max(left, 0):,} are left.\n  It would exceed the budget.\n"
                    "  Make it smaller, or wait until others have ended"
                )
        database.execute(
            f"INSERT INTO rlclinic_job (store, id, created, host, state, key, digest, env_steps, charged, due) "
            f"VALUES (?, ?, ?, '', 'reserved', ?, ?, ?, ?, {database.now}) "
            "ON CONFLICT (store, id) DO UPDATE SET env_steps = excluded.env_steps, charged = excluded.charged",
            (
                *(database.store, wanted.id, wanted.created, wanted.key, wanted.digest),
                *(wanted.env_steps, int(wanted.limit is not None)),
            ),
        )
    return wanted.id


def submit(store: Store, id: str, host: str, created: float, *, tags: Collection[str] = (), cores: int = 1, owner: str = "") -> None:
    """Put a job into the queue, or back into it: of one owner, the oldest is the next.

    One whose worker still has its lease stays with it until then, whoever takes it for dead: two would write to its runs.
    """
    with connections.transaction(store) as database:
        kept = f"rlclinic_job.state = 'claimed' AND rlclinic_job.host = '' AND rlclinic_job.lease_ends > {database.now}"
        state = database.execute(
            "INSERT INTO rlclinic_job (store, id, created, host, state, tags, cores, owner) VALUES (?, ?, ?, ?, 'queued', ?, ?, ?) "
            f"ON CONFLICT (store, id) DO UPDATE SET state = CASE WHEN {kept} THEN 'claimed' ELSE 'queued' END, "
            f"lease_ends = CASE WHEN {kept} THEN rlclinic_job.lease_ends END, "
            "host = excluded.host, tags = excluded.tags, cores = excluded.cores, owner = excluded.owner, "
            "stop = 0, due = 0, failures = 0, losses = 0, reason = '' RETURNING state",
            (database.store, id, created, host, "".join(f",{tag}," for tag in check_tags(tags)), cores, owner),
        ).fetchone()[0]
        if state == "queued":
            # What was asked of runs before is over.
            database.execute("DELETE FROM rlclinic_request WHERE store = ? AND job = ?", (database.store, id))


def claim(store: Store, host: str, fits: Callable[[str], bool]) -> Claim | None:
    """The oldest job of this machine, if it fits; None if there is none, or it must wait. Nobody overtakes."""
    if not connections.exists(store):
        return None
    with connections.transaction(store) as database:
        row = database.execute(
            "SELECT id, attempt FROM rlclinic_job WHERE store = ? AND state = 'queued' AND host = ? ORDER BY created, id LIMIT 1 "
            + database.skip_locked,
            (database.store, host),
        ).fetchone()
        return None if row is None or not fits(row[0]) else _take(database, row[0], row[1], host)


def claim_shared(store: Store, worker: str, *, tags: Collection[str] = (), cores: int, free: int, waiting: bool = True) -> Claim | None:
    """The next job that a worker with these tags and so many cores can do, if it has them free; None: it must wait.

    Owners share the workers: next is whoever has the fewest jobs under way, with their oldest. A job that needs more cores than there
    are takes all of them. A small one does not overtake a large one that this worker could do: it would let the large one wait forever.
    One that takes no cores waits for jobs of its own; such a job needs no room, and is left alone where `waiting` is False.
    """
    # Tags are kept as ",a,,b,": what is left without those of the worker is what it lacks.
    lacking, tags = "tags", check_tags(tags)
    for _ in tags:
        lacking = f"replace({lacking}, ?, '')"
    room = ("" if waiting else " AND cores > 0") + ("" if free > 0 else " AND cores = 0")
    with connections.transaction(store) as database:
        for owner in _find_owners(database):
            row = database.execute(
                f"SELECT id, attempt, cores FROM rlclinic_job WHERE store = ? AND state = 'queued' AND host = '' AND owner = ? "
                f"AND due <= {database.now} AND {lacking} = ''{room} ORDER BY created, id LIMIT 1 {database.skip_locked}",
                (database.store, owner, *(f",{tag}," for tag in tags)),
            ).fetchone()
            if row is not None:
                return None if min(row[2], cores) > free else _take(database, row[0], row[1], worker)
    return None


def _find_owners(database: Transaction) -> list[str]:
    """Who has jobs that wait for any worker: whoever has the fewest under way first, of these whoever waits longest."""
    of_state = "SELECT owner, count(*), min(created) FROM rlclinic_job WHERE store = ? AND state = ? AND host = '' GROUP BY owner"
    waiting = {owner: since for owner, _, since in database.execute(of_state, (database.store, "queued")).fetchall()}
    if len(waiting) < 2:
        return list(waiting)
    busy = {owner: count for owner, count, _ in database.execute(of_state, (database.store, "claimed")).fetchall()}
    return sorted(waiting, key=lambda owner: (busy.get(owner, 0), waiting[owner], owner))


def _take(database: Transaction, id: str, attempt: int, worker: str) -> Claim:
    database.execute(
        f"UPDATE rlclinic_job SET state = 'claimed', attempt = ?, worker = ?, lease_ends = {database.now} + ? WHERE store = ? AND id = ?",
        (attempt + 1, worker, LEASE_SECONDS, database.store, id),
    )
    return Claim(id, attempt + 1)


def renew(store: Store, claimed: Claim) -> bool:
    """Say that a worker still works; whether it was asked to stop. LeaseLost if the job is no longer its own."""
    with connections.transaction(store) as database:
        row = database.execute(
            f"UPDATE rlclinic_job SET lease_ends = {database.now} + ? WHERE store = ? AND id = ? AND attempt = ? AND state = 'claimed' "
            "RETURNING stop",
            (LEASE_SECONDS, database.store, *claimed),
        ).fetchone()
    if row is None:
        raise _lease_lost(claimed)
    return bool(row[0])


def _lease_lost(claimed: Claim) -> LeaseLost:
    return LeaseLost(f"job {claimed.id} is somebody else's by now.\n  Two would write to the same runs.\n  This one stops")


def finish(store: Store, claimed: Claim, state: State = "finished", *, used: int | None = None, reason: str = "") -> bool:
    """Close a job, which gives back what it reserved and did not use; False if it is no longer this worker's."""
    with connections.transaction(store) as database:
        changed = database.execute(
            "UPDATE rlclinic_job SET state = ?, lease_ends = NULL, env_steps = coalesce(?, env_steps), reason = ? "
            "WHERE store = ? AND id = ? AND attempt = ? AND state IN ('claimed', 'queued')",
            (state, used, reason, database.store, *claimed),
        ).rowcount
        if changed:
            database.execute("DELETE FROM rlclinic_request WHERE store = ? AND job = ?", (database.store, claimed.id))
    return changed == 1


def release(store: Store, claimed: Claim, reason: str, *, failed: bool = False, lost: bool = False) -> State | None:
    """Give a job back to the queue: at once if its worker only leaves, after a pause if its process died or its worker was lost.

    What became of it; None: it is not this worker's any more.
    """
    with connections.transaction(store) as database:
        asked = "SELECT failures, losses, stop FROM rlclinic_job WHERE store = ? AND id = ? AND attempt = ? AND state = 'claimed' "
        row = database.execute(asked + database.locked, (database.store, *claimed)).fetchone()
        return None if row is None else _give_back(database, claimed, row, reason, failed=failed, lost=lost)


def settle(store: Store) -> list[Row]:
    """Give jobs back whose worker was not heard of for longer than a lease; those that ended thereby: lost too often, or stopped."""
    ended = []
    with connections.transaction(store) as database:
        late = (
            f"SELECT id, attempt, failures, losses, stop FROM rlclinic_job WHERE store = ? AND state = 'claimed' AND host = '' "
            f"AND lease_ends < {database.now} {database.skip_locked}"
        )
        for id, attempt, *counts in database.execute(late, (database.store,)).fetchall():
            if _give_back(database, Claim(id, attempt), counts, "its worker was not heard of any more", lost=True) != "queued":
                ended.append(id)
        database.execute(
            f"UPDATE rlclinic_job SET state = 'lost', env_steps = 0, key = NULL WHERE store = ? AND state = 'reserved' "
            f"AND due < {database.now} - ?",
            (database.store, RESERVED_SECONDS),
        )
    return [row for row in list_rows(store) if row.id in ended] if ended else []


def _give_back(
    database: Transaction, claimed: Claim, counts: Sequence[Any], reason: str, *, failed: bool = False, lost: bool = False
) -> State:
    """Back into the queue, or to its end. `counts`: how often it failed and was lost before, and whether it was asked to stop."""
    failures, losses, state = counts[0] + failed, counts[1] + lost, "queued"
    if counts[2]:
        state = "stopped"
    elif failures >= MOST_FAILURES:
        state, reason = "failed", f"failed {failures} times, the last time: {reason}"
    elif losses >= MOST_LOSSES:
        state, reason = "failed", f"lost {losses} times, the last time: {reason}"
    # A job that is lost again and again may be what takes its machines down: others are not to suffer from it all the time.
    before = failures if failed else losses if lost else 0
    pause = min(BACKOFF_SECONDS * 2.0 ** (before - 1), MOST_BACKOFF_SECONDS) if before else 0.0
    database.execute(
        f"UPDATE rlclinic_job SET state = ?, failures = ?, losses = ?, reason = ?, lease_ends = NULL, due = {database.now} + ? "
        "WHERE store = ? AND id = ? AND attempt = ?",
        (state, failures, losses, reason, pause, database.store, *claimed),
    )
    return cast(State, state)


def announce(store: Store, worker: str, cores: int, tags: Collection[str] = ()) -> None:
    """Say that a worker is there, and what it has; forgotten WORKER_SECONDS after its last word."""
    with connections.transaction(store) as database:
        database.execute(
            f"INSERT INTO rlclinic_worker (store, name, cores, tags, seen) VALUES (?, ?, ?, ?, {database.now}) "
            f"ON CONFLICT (store, name) DO UPDATE SET cores = excluded.cores, tags = excluded.tags, seen = excluded.seen",
            (database.store, worker, cores, "".join(f",{tag}," for tag in check_tags(tags))),
        )
        database.execute(f"DELETE FROM rlclinic_worker WHERE store = ? AND seen < {database.now} - ?", (database.store, WORKER_SECONDS))


def leave(store: Store, worker: str) -> None:
    """Say that a worker is gone."""
    with connections.transaction(store) as database:
        database.execute("DELETE FROM rlclinic_worker WHERE store = ? AND name = ?", (database.store, worker))


def count_cores(store: Store, tags: Collection[str] = ()) -> int:
    """Cores of all workers that have these tags and were heard of lately."""
    has = "".join(" AND tags LIKE ?" for _ in tags)
    with connections.transaction(store) as database:
        asked = f"SELECT coalesce(sum(cores), 0) FROM rlclinic_worker WHERE store = ? AND seen > {database.now} - ?{has}"
        named = [f"%,{tag.replace('_', '#_')},%" for tag in check_tags(tags)]
        asked = asked.replace("LIKE ?", "LIKE ? ESCAPE '#'")
        return int(database.execute(asked, (database.store, WORKER_SECONDS, *named)).fetchone()[0])


def list_worker_tags(store: Store) -> list[set[str]]:
    """The tags of every worker that was heard of lately."""
    with connections.transaction(store) as database:
        asked = f"SELECT tags FROM rlclinic_worker WHERE store = ? AND seen > {database.now} - ?"
        return [set(tags.split(",")[1::2]) for (tags,) in database.execute(asked, (database.store, WORKER_SECONDS)).fetchall()]


def find_rows(store: Store, ids: Collection[str]) -> dict[str, Row]:
    """Some jobs of the queue, by their ids."""
    if not ids or not connections.exists(store):
        return {}
    with connections.transaction(store) as database:
        asked = f"SELECT {_ROW.format(now=database.now)} FROM rlclinic_job WHERE store = ? AND id IN ({', '.join('?' * len(ids))})"
        return {row[0]: _row(row) for row in database.execute(asked, (database.store, *ids)).fetchall()}


def ask_stop(store: Store, id: str) -> State | None:
    """Ask for a job to end: one that waits never begins, of one that is claimed the worker is told with its next word."""
    if not connections.exists(store):
        return None
    with connections.transaction(store) as database:
        row = database.execute(
            "UPDATE rlclinic_job SET stop = 1, state = CASE WHEN state = 'queued' THEN 'stopped' ELSE state END "
            "WHERE store = ? AND id = ? RETURNING state",
            (database.store, id),
        ).fetchone()
    return None if row is None else row[0]


def send_request(store: Store, id: str, run: str, request: dict[str, Any]) -> None:
    """Leave a request to a run for whoever does its job; requests are heard in their order."""
    with connections.transaction(store) as database:
        # Of two at the same moment one waits here.
        database.execute("UPDATE rlclinic_job SET stop = stop WHERE store = ? AND id = ?", (database.store, id))
        database.execute(
            "INSERT INTO rlclinic_request (store, job, number, run, request) "
            "SELECT ?, ?, coalesce(max(number), 0) + 1, ?, ? FROM rlclinic_request WHERE store = ? AND job = ?",
            (database.store, id, run, json.dumps(request), database.store, id),
        )


def read_requests(store: Store, claimed: Claim) -> list[RunRequest]:
    """What runs of a job were asked, oldest first; LeaseLost if the job is no longer this worker's."""
    with connections.transaction(store) as database:
        asked = "SELECT 1 FROM rlclinic_job WHERE store = ? AND id = ? AND attempt = ? AND state = 'claimed'"
        if database.execute(asked, (database.store, *claimed)).fetchone() is None:
            raise _lease_lost(claimed)
        asked = "SELECT number, run, request FROM rlclinic_request WHERE store = ? AND job = ? ORDER BY number"
        rows = database.execute(asked, (database.store, claimed.id)).fetchall()
    return [RunRequest(number, run, json.loads(request)) for number, run, request in rows]


def list_rows(store: Store) -> list[Row]:
    """Every job of the queue, in its order."""
    if not connections.exists(store):
        return []
    with connections.transaction(store) as database:
        asked = f"SELECT {_ROW.format(now=database.now)} FROM rlclinic_job WHERE store = ? ORDER BY created, id"
        rows = database.execute(asked, (database.store,)).fetchall()
    return [_row(row) for row in rows]


def find_claim(store: Store, id: str) -> Claim | None:
    """The claim that stands on a job now: what the process that was made for it goes by."""
    row = next((row for row in list_rows(store) if row.id == id and row.state == "claimed"), None)
    return None if row is None else Claim(row.id, row.attempt)


def _row(values: Any) -> Row:
    id, host, state, attempt, stop, late, failures, losses, reason, worker, tags, cores = values
    return Row(id, host, state, attempt, bool(stop), bool(late), failures, losses, reason, worker, tuple(tags.split(",")[1::2]), cores)


def check_tags(tags: Collection[str]) -> list[str]:
    """Tags in their order, each once."""
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(
                f"{tag!r} is no tag.\n  Nothing was queued or claimed.\n  Letters, digits, and . _ - after the first, 64 at most"
            )
    return sorted(set(tags))
