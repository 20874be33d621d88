"""The queue as its workers see it, in SQLite and in PostgreSQL: one gets each job, a late one is told apart, nothing is lost."""

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rlclinic.errors import RunError, UsageError
from rlclinic.runs.database import connections, job_queue
from rlclinic.runs.database import index as indexing
from rlclinic.runs.database.job_queue import BudgetSpent, Claim, Reservation
from rlclinic.runs.lease import LeaseLost
from rlclinic.runs.store import Store
from tests.servers.postgres import PASSWORD, Server

HOST = "here"
ODD = "x'; DROP TABLE rlclinic_job; --%s ? \\ \""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "runs")
    if request.param == "postgresql":
        request.getfixturevalue("postgres")
        connections.migrate(made)
    yield made
    connections.forget()


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and pauses of a fraction of a second."""
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", 0.15)
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.01)


def submit(store: Store, *ids: str) -> None:
    for place, id in enumerate(ids):
        job_queue.submit(store, id, HOST, float(place))


def take(store: Store, host: str = HOST) -> Claim | None:
    return job_queue.claim(store, host, lambda _: True)


def test_the_oldest_is_claimed_first_and_only_once(store: Store) -> None:
    submit(store, "a", "b")
    assert [take(store), take(store), take(store)] == [Claim("a", 1), Claim("b", 1), None]


def test_nobody_overtakes_one_that_does_not_fit(store: Store) -> None:
    submit(store, "large", "small")
    assert job_queue.claim(store, HOST, lambda id: id == "small") is None
    assert [row.state for row in job_queue.list_rows(store)] == ["queued", "queued"]


def test_a_job_of_another_machine_stays_there(store: Store) -> None:
    submit(store, "a")
    assert take(store, "elsewhere") is None


def test_a_worker_whose_job_went_to_another_is_told_so_and_changes_nothing(store: Store) -> None:
    submit(store, "a")
    slow = take(store)
    assert slow is not None
    submit(store, "a")
    again = take(store)
    assert again == Claim("a", 2)
    with pytest.raises(LeaseLost, match="somebody else's"):
        job_queue.renew(store, slow)
    assert not job_queue.finish(store, slow)
    assert not job_queue.renew(store, again)
    assert job_queue.finish(store, again)
    with pytest.raises(LeaseLost):
        job_queue.renew(store, again)


def test_who_is_not_heard_of_is_late(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", 0.2)
    submit(store, "a")
    claimed = take(store)
    assert claimed is not None
    assert not job_queue.list_rows(store)[0].late
    time.sleep(0.4)
    assert job_queue.list_rows(store)[0].late
    job_queue.renew(store, claimed)
    assert not job_queue.list_rows(store)[0].late


def test_a_request_to_stop_ends_what_waits_and_reaches_who_works(store: Store) -> None:
    submit(store, "a", "b")
    claimed = take(store)
    assert claimed is not None
    assert job_queue.ask_stop(store, "a") == "claimed"
    assert job_queue.renew(store, claimed)
    assert job_queue.ask_stop(store, "b") == "stopped"
    assert take(store) is None
    assert job_queue.ask_stop(store, "nobody") is None


def test_a_queue_that_is_damaged_is_said_so(local: Store) -> None:
    submit(local, "a")
    connections.forget()
    (local.root / "@jobs" / job_queue.FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(RunError, match="cannot be used"):
        take(local)


def test_a_queue_that_several_machines_may_have_open_keeps_no_log_beside_it(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    for here in (True, False):
        monkeypatch.setattr(connections, "_is_local", lambda folder, here=here: here)
        submit(local, "a")
        with connections.transaction(local) as database:
            modes.append(database.execute("PRAGMA journal_mode").fetchone()[0])
        connections.forget()
    assert modes == ["wal", "delete"]


def test_a_queue_of_the_first_version_goes_on(local: Store) -> None:
    (local.root / "@jobs").mkdir(parents=True)
    database = sqlite3.connect(local.root / "@jobs" / job_queue.FILE)
    database.execute("CREATE TABLE job (id TEXT PRIMARY KEY, created REAL, host TEXT, state TEXT, attempt INT, lease_ends REAL, stop INT)")
    database.execute("INSERT INTO job VALUES ('a', 1.0, 'here', 'queued', 4, NULL, 0)")
    database.commit()
    database.close()
    assert take(local) == Claim("a", 5)


def test_a_queue_from_before_owners_keeps_what_waits(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(connections, "MIGRATIONS", connections.MIGRATIONS[:1])
        with connections.transaction(local) as database:
            database.execute("INSERT INTO rlclinic_job (store, id, created, host, state) VALUES ('', 'old', 1.0, '', 'queued')")
    job_queue.submit(local, "new", job_queue.ANY, 2.0, owner="alice")
    assert [share(local), share(local), share(local)] == [Claim("old", 1), Claim("new", 1), None]


def test_workers_at_the_same_moment_share_the_jobs(store: Store) -> None:
    ids = [f"j{number:02}" for number in range(40)]
    for place, id in enumerate(ids):
        job_queue.submit(store, id, "", float(place))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        shares = pool.map(_take_all, [str(store.root)] * 2)
    assert sorted(id for share in shares for id in share) == ids


def _take_all(root: str) -> list[str]:
    ids = []
    while (claimed := share(Store(Path(root)))) is not None:
        ids.append(claimed.id)
    return ids


# ── jobs for any worker ──


def share(store: Store, worker: str = "w", tags: tuple[str, ...] = (), cores: int = 4, free: int = 4) -> Claim | None:
    return job_queue.claim_shared(store, worker, tags=tags, cores=cores, free=free)


def state(store: Store, id: str) -> str:
    return next(row.state for row in job_queue.list_rows(store) if row.id == id)


def test_a_worker_gets_only_jobs_whose_tags_it_has(store: Store) -> None:
    job_queue.submit(store, "both", "", 1.0, tags=["gpu", "large"])
    job_queue.submit(store, "gpu", "", 2.0, tags=["gpu"])
    job_queue.submit(store, "plain", "", 3.0)
    assert share(store) == Claim("plain", 1)
    assert share(store, tags=("gpu", "other")) == Claim("gpu", 1)
    assert share(store, tags=("larg", "gpu")) is None
    assert share(store, tags=("large", "gpu")) == Claim("both", 1)


@pytest.mark.parametrize("tag", ["", ",", "a,b", ODD, "-x", "x" * 65, "\udcff"])
def test_what_is_no_tag_is_refused_before_anything_is_asked(store: Store, tag: str) -> None:
    with pytest.raises(UsageError, match="no tag"):
        job_queue.submit(store, "a", "", 1.0, tags=[tag])
    with pytest.raises(UsageError, match="no tag"):
        share(store, tags=(tag,))


def test_a_small_job_does_not_overtake_a_large_one_and_one_that_is_too_large_takes_all(store: Store) -> None:
    job_queue.submit(store, "large", "", 1.0, cores=64)
    job_queue.submit(store, "small", "", 2.0, cores=1)
    assert share(store, cores=4, free=3) is None
    assert share(store, cores=4, free=4) == Claim("large", 1)


def test_whoever_has_the_fewest_jobs_under_way_is_next(store: Store) -> None:
    for created, owner in enumerate(["alice", "alice", "alice", "bob", "o'hara; --"]):
        job_queue.submit(store, f"{owner[0]}{created}", job_queue.ANY, float(created), owner=owner)
    taken = [claimed for _ in range(4) if (claimed := share(store)) is not None]
    assert [claimed.id for claimed in taken] == ["a0", "b3", "o4", "a1"]
    assert job_queue.finish(store, taken[0])
    assert job_queue.finish(store, taken[3])
    job_queue.submit(store, "b5", job_queue.ANY, 5.0, owner="bob")
    assert [share(store), share(store), share(store)] == [Claim("a2", 1), Claim("b5", 1), None]


def test_a_share_keeps_a_large_job_from_being_overtaken_and_passes_over_an_owner_whose_jobs_nobody_here_can_do(store: Store) -> None:
    job_queue.submit(store, "large", job_queue.ANY, 1.0, cores=4, owner="bob")
    job_queue.submit(store, "small", job_queue.ANY, 0.0, owner="alice")
    job_queue.submit(store, "next", job_queue.ANY, 2.0, owner="alice")
    job_queue.submit(store, "elsewhere", job_queue.ANY, 0.0, tags=["gpu"], owner="carol")
    assert share(store) == Claim("small", 1)
    assert share(store, free=3) is None, "bob has nothing under way, and waits for all four cores"
    assert share(store) == Claim("large", 1)
    assert share(store) == Claim("next", 1)


def test_jobs_of_a_machine_and_of_other_stores_are_not_for_any_worker(store: Store, tmp_path: Path) -> None:
    submit(store, "a")
    other = Store(tmp_path / "other")
    job_queue.submit(other, "b", "", 1.0)
    assert share(store) is None
    assert take(store) == Claim("a", 1)


@pytest.mark.usefixtures("short")
def test_who_was_paused_past_its_lease_cannot_say_anything_any_more(store: Store) -> None:
    job_queue.submit(store, "a", "", 1.0)
    paused = share(store)
    assert paused == Claim("a", 1)
    time.sleep(0.3)
    assert job_queue.settle(store) == []
    time.sleep(0.05)
    assert share(store, "other") == Claim("a", 2)
    with pytest.raises(LeaseLost):
        job_queue.renew(store, paused)
    assert not job_queue.finish(store, paused)
    assert job_queue.release(store, paused, "late") is None
    # It was lost, which may not have been its own fault.
    assert [(row.worker, row.failures, row.losses) for row in job_queue.list_rows(store)] == [("other", 0, 1)]


def test_a_job_that_is_queued_again_stays_its_workers_for_as_long_as_the_lease(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever queues it may take the worker for dead by a clock that is wrong, or may have seen the record of its end before the queue."""
    monkeypatch.setattr(job_queue, "LEASE_SECONDS", 0.4)
    job_queue.submit(store, "a", job_queue.ANY, 1.0)
    claimed = share(store)
    assert claimed == Claim("a", 1)
    assert job_queue.ask_stop(store, "a") == "claimed"
    job_queue.submit(store, "a", job_queue.ANY, 1.0)
    assert share(store, "other") is None
    assert not job_queue.renew(store, claimed), "who queues it again wants it to go on"
    time.sleep(0.6)
    job_queue.submit(store, "a", job_queue.ANY, 1.0)
    assert share(store, "other") == Claim("a", 2)
    with pytest.raises(LeaseLost):
        job_queue.renew(store, claimed)


@pytest.mark.usefixtures("short")
def test_a_job_that_fails_every_time_ends_as_failed_and_says_why(store: Store) -> None:
    job_queue.submit(store, "poison", "", 1.0)
    ends = []
    for _ in range(job_queue.MOST_FAILURES):
        while (claimed := share(store)) is None:
            time.sleep(0.02)
        ends.append(job_queue.release(store, claimed, "killed by SIGKILL", failed=True))
    assert ends == ["queued"] * (job_queue.MOST_FAILURES - 1) + ["failed"]
    assert job_queue.list_rows(store)[0].reason == "failed 5 times, the last time: killed by SIGKILL"
    time.sleep(0.3)
    assert share(store) is None


@pytest.mark.usefixtures("short")
def test_a_job_whose_workers_are_lost_is_tried_for_longer_than_one_that_fails_but_not_forever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 0.0)
    job_queue.submit(store, "a", "", 1.0)
    ends = []
    for _ in range(job_queue.MOST_LOSSES):
        claimed = share(store)
        assert claimed is not None
        ends.append(job_queue.release(store, claimed, "paused", lost=True))
    assert ends == ["queued"] * (job_queue.MOST_LOSSES - 1) + ["failed"]
    assert job_queue.MOST_LOSSES > 2 * job_queue.MOST_FAILURES
    assert job_queue.list_rows(store)[0].reason == "lost 30 times, the last time: paused"


def test_a_job_waits_longer_after_every_failure_but_not_after_its_worker_left(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "BACKOFF_SECONDS", 60.0)
    job_queue.submit(store, "a", "", 1.0)
    first = share(store)
    assert first is not None
    assert job_queue.release(store, first, "its worker leaves") == "queued"
    second = share(store)
    assert second == Claim("a", 2)
    assert job_queue.release(store, second, "killed", failed=True) == "queued"
    assert share(store) is None


@pytest.mark.usefixtures("short")
def test_a_stop_during_a_claim_ends_the_job_whoever_hears_it_first(store: Store) -> None:
    for id in ("told", "left", "killed"):
        job_queue.submit(store, id, "", 1.0)
    claims = {claimed.id: claimed for _ in range(3) if (claimed := share(store)) is not None}
    for id in claims:
        assert job_queue.ask_stop(store, id) == "claimed"
    assert job_queue.renew(store, claims["told"])
    assert job_queue.release(store, claims["left"], "its worker leaves") == "stopped"
    time.sleep(0.3)
    assert {row.id for row in job_queue.settle(store)} == {"told", "killed"}
    assert [row.state for row in job_queue.list_rows(store)] == ["stopped"] * 3
    assert share(store) is None


def test_the_same_key_is_the_same_start_and_another_request_with_it_is_refused(store: Store) -> None:
    assert job_queue.reserve(store, Reservation("a", 1.0, "key", "digest")) == "a"
    assert job_queue.reserve(store, Reservation("b", 2.0, "key", "digest")) == "a"
    assert job_queue.reserve(store, Reservation("c", 2.0, None, "digest")) == "c"
    with pytest.raises(UsageError, match="another start, job a"):
        job_queue.reserve(store, Reservation("d", 3.0, "key", "another"))
    assert share(store) is None
    job_queue.submit(store, "a", "", 1.0)
    assert share(store) == Claim("a", 1)


def test_many_starts_with_one_key_at_the_same_moment_are_one(store: Store) -> None:
    answers: list[str] = []
    began = threading.Barrier(6)

    def ask(number: int) -> None:
        began.wait()
        answers.append(job_queue.reserve(store, Reservation(f"j{number}", 1.0, "key", "digest")))
        connections.forget()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert len(set(answers)) == 1
    assert [row.id for row in job_queue.list_rows(store)] == [answers[0]]


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_machine_whose_clock_jumps_neither_loses_its_job_nor_takes_anothers(
    store: Store, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_queue.submit(store, "a", "", 1.0)
    claimed = share(store)
    assert claimed is not None
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + jump)
    assert job_queue.settle(store) == []
    assert share(store, "other") is None
    assert not job_queue.renew(store, claimed)
    assert not job_queue.list_rows(store)[0].late
    # What it gives back waits by the database's clock, too.
    job_queue.release(store, claimed, "its worker leaves")
    assert share(store, "other") == Claim("a", 2)


def test_the_last_of_the_budget_is_given_once_to_many_who_ask_at_the_same_moment(store: Store) -> None:
    answers: list[str] = []

    def ask(number: int) -> None:
        try:
            answers.append(job_queue.reserve(store, Reservation(f"j{number}", 1.0, None, "", env_steps=60, limit=100)))
        except BudgetSpent:
            answers.append("spent")
        finally:
            connections.forget()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers)[1:] == ["spent"] * 5


def test_what_a_job_did_not_use_is_given_back_and_people_are_not_charged(store: Store) -> None:
    job_queue.reserve(store, Reservation("person", 1.0, None, "", env_steps=10**12))
    job_queue.reserve(store, Reservation("a", 1.0, None, "", env_steps=100, limit=100))
    job_queue.submit(store, "a", "", 1.0)
    with pytest.raises(BudgetSpent, match="0 are left"):
        job_queue.reserve(store, Reservation("b", 2.0, None, "", env_steps=1, limit=100))
    claimed = share(store)
    assert claimed is not None
    job_queue.finish(store, claimed, used=30)
    assert job_queue.reserve(store, Reservation("c", 2.0, None, "", env_steps=70, limit=100)) == "c"


def test_a_start_that_was_never_finished_does_not_keep_its_share_forever(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job_queue.reserve(store, Reservation("a", 1.0, "key", "", env_steps=100, limit=100))
    job_queue.settle(store)
    assert state(store, "a") == "reserved"
    monkeypatch.setattr(job_queue, "RESERVED_SECONDS", -1.0)
    job_queue.settle(store)
    assert state(store, "a") == "lost"
    assert job_queue.reserve(store, Reservation("b", 1.0, "key", "", env_steps=100, limit=100)) == "b"


def test_a_job_that_is_taken_up_again_keeps_its_share_and_does_not_count_twice(store: Store) -> None:
    for env_steps in (60, 80):
        assert job_queue.reserve(store, Reservation("a", 1.0, "key", "", env_steps=env_steps, limit=100)) == "a"
    with pytest.raises(BudgetSpent, match="20 are left"):
        job_queue.reserve(store, Reservation("b", 2.0, None, "", env_steps=21, limit=100))


def test_whatever_is_in_a_field_stays_a_value(store: Store) -> None:
    assert job_queue.reserve(store, Reservation(ODD, 1.0, ODD, ODD)) == ODD
    job_queue.submit(store, ODD, "", 1.0)
    claimed = share(store, ODD)
    assert claimed == Claim(ODD, 1)
    assert not job_queue.renew(store, claimed)
    assert job_queue.release(store, claimed, ODD, failed=True) == "queued"
    assert job_queue.ask_stop(store, ODD) == "stopped"
    (row,) = job_queue.list_rows(store)
    assert (row.id, row.worker, row.reason) == (ODD, ODD, ODD)


# ── the server ──


def test_a_password_is_never_said(postgres: Server, local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    connections.migrate(local)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    odd = [
        postgres.url.replace(str(postgres.folder), "/nowhere"),
        postgres.url.replace("clinic:", "nobody:"),
        postgres.url + "&bogus=1",
        f"postgresql://u:{PASSWORD}@host:port/db",
        f"postgresql://u:{PASSWORD}@[::1/db",
        f"postgres//u:{PASSWORD}@h",
    ]
    for url in odd:
        monkeypatch.setenv(connections.VARIABLE, url)
        with pytest.raises((RunError, UsageError)) as caught:
            job_queue.list_rows(local)
        chain: BaseException | None = caught.value
        while chain is not None:
            assert PASSWORD not in str(chain)
            chain = None if chain.__suppress_context__ else chain.__cause__ or chain.__context__
    with pytest.raises(UsageError, match="command lines") as refused:
        connections.choose(postgres.url)
    assert PASSWORD not in str(refused.value)
    monkeypatch.setenv(connections.VARIABLE, postgres.url)
    assert PASSWORD not in connections.describe(local)


def test_a_database_whose_text_has_no_encoding_keeps_a_queue_and_an_index(
    postgres: Server, local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What initdb makes where no language is set: psycopg alone would give bytes for every text in it."""
    with closing(connections.connect(postgres.url)) as connection:
        connection.execute("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        monkeypatch.setenv(connections.VARIABLE, postgres.url.replace("/postgres?", "/plain?"))
        monkeypatch.setenv(indexing.VARIABLE, "shared")
        connections.migrate(local)
        test_whatever_is_in_a_field_stays_a_value(local)
        with closing(indexing.Index(local)) as index:
            assert index.refresh().runs == 0
    finally:
        connections.forget()
        with closing(connections.connect(postgres.url)) as connection:
            connection.execute("DROP DATABASE plain WITH (FORCE)")


def test_a_database_without_tables_says_what_to_type(postgres: Server, local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connections.VARIABLE, postgres.url.replace("/postgres?", "/template1?"))
    with pytest.raises(RunError, match="no tables"):
        job_queue.list_rows(local)


def test_a_connection_that_the_server_closed_is_opened_anew(postgres: Server, local: Store) -> None:
    connections.migrate(local)
    job_queue.submit(local, "a", "", 1.0)
    with connections.transaction(local) as database:
        pid = database.execute("SELECT pg_backend_pid()").fetchone()[0]
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.2)
    assert share(local) == Claim("a", 1)


def test_a_client_that_is_paused_in_the_middle_of_a_change_does_not_stop_the_others(postgres: Server, local: Store) -> None:
    connections.migrate(local)
    for id in ("a", "b"):
        job_queue.submit(local, id, "", 1.0)
    with connections.transaction(local) as database:
        database.execute("UPDATE rlclinic_job SET stop = 0 WHERE store = ? AND id = 'a'", (database.store,))
        taken: list[Claim | None] = []
        other = threading.Thread(target=lambda: taken.append(share(local)))
        other.start()
        other.join(5)
    assert taken == [Claim("b", 1)]


def test_requests_to_runs_reach_whoever_does_their_job_in_their_order_and_nobody_else(store: Store) -> None:
    submit(store, "a", "b")
    claimed = take(store)
    assert claimed is not None
    job_queue.send_request(store, "a", ODD, {"set": {"algo.ent_coef": 0.1, "x": ODD}})
    job_queue.send_request(store, "a", "r2", {"stop": True})
    job_queue.send_request(store, "b", "r3", {"stop": True})
    read = job_queue.read_requests(store, claimed)
    assert [(each.run, each.request) for each in read] == [(ODD, {"set": {"algo.ent_coef": 0.1, "x": ODD}}), ("r2", {"stop": True})]
    # Another attempt hears them, too: what the first had heard may be lost with it.
    assert job_queue.release(store, claimed, "its worker left") == "queued"
    claimed = take(store)
    assert claimed is not None
    assert job_queue.read_requests(store, claimed) == read
    with pytest.raises(LeaseLost):
        job_queue.read_requests(store, Claim("a", 1))
    job_queue.send_request(store, "a", "r4", {"checkpoint": True})
    job_queue.finish(store, claimed)
    submit(store, "a")
    again = take(store)
    assert again is not None
    # What was asked before the job was started again is over, whether it had ended well or was stopped while it waited.
    assert job_queue.read_requests(store, again) == []
    job_queue.send_request(store, "a", "r4", {"stop": True})
    assert job_queue.release(store, again, "its worker left") == "queued"
    assert job_queue.ask_stop(store, "a") == "stopped"
    submit(store, "a")
    again = take(store)
    assert again is not None
    assert job_queue.read_requests(store, again) == []
