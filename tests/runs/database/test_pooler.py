"""A pooler of transactions before PostgreSQL: nothing of the queue or the index may belong to a connection for longer than one of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlclinic.runs.database import connections
from rlclinic.runs.database import index as indexing
from rlclinic.runs.database.index import Index
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group
from tests.runs.database import test_job_queue as contract
from tests.servers import pooler
from tests.servers.postgres import Server

short = contract.short
test_workers_share_the_jobs = contract.test_workers_at_the_same_moment_share_the_jobs
test_a_late_worker_is_told_so = contract.test_who_was_paused_past_its_lease_cannot_say_anything_any_more
test_starts_with_one_key_are_one = contract.test_many_starts_with_one_key_at_the_same_moment_are_one
test_the_last_of_the_budget_is_given_once = contract.test_the_last_of_the_budget_is_given_once_to_many_who_ask_at_the_same_moment


@pytest.fixture
def store(tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with pooler.serve(postgres) as pool:
        monkeypatch.setenv(connections.VARIABLE, pool.url)
        made = Store(tmp_path / "runs")
        connections.migrate(made)
        yield made
        connections.forget()


def test_an_index_that_is_shared_is_written_by_one_at_a_time_and_read_by_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    one, other = Index(store), Index(store)
    group = record_group(store.root, seeds=(0, 1))
    assert one.refresh().runs == 2
    assert other.refresh().runs == 0
    with other.connection() as connection:
        names = {row[0] for row in connection.exec_driver_sql(f"SELECT id FROM {other.schema}.run").fetchall()}
    assert names == {run.id for run in group.runs}
    one.close()
    other.close()
