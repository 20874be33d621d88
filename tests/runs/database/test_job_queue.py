"""The queue as its workers see it: one gets each job, a late one is told apart, nothing is lost with a process."""

import multiprocessing
import time
from pathlib import Path

import pytest

from rlclinic.errors import RunError
from rlclinic.runs.database import job_queue
from rlclinic.runs.database.job_queue import Claim, LeaseLost
from rlclinic.runs.store import Store

HOST = "here"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


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


def test_a_queue_that_is_damaged_is_said_so(store: Store) -> None:
    submit(store, "a")
    (store.root / "@jobs" / job_queue.FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(RunError, match="cannot be used"):
        take(store)


def test_workers_at_the_same_moment_share_the_jobs(store: Store) -> None:
    submit(store, *(f"j{number}" for number in range(40)))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        shares = pool.map(_take_all, [str(store.root)] * 4)
    assert sorted(id for share in shares for id in share) == sorted(f"j{number}" for number in range(40))


def _take_all(root: str) -> list[str]:
    ids = []
    while (claimed := take(Store(Path(root)))) is not None:
        ids.append(claimed.id)
    return ids
