"""The index in PostgreSQL, which several servers share: the same answers as from the file, and one writer at a time."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlclinic.errors import UsageError
from rlclinic.ops.runs import search
from rlclinic.runs import notes
from rlclinic.runs.database import connections
from rlclinic.runs.database import index as indexing
from rlclinic.runs.database.connections import DatabaseDown
from rlclinic.runs.database.index import Index
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group
from tests.servers.postgres import PASSWORD, Server


@pytest.fixture
def store(tmp_path: Path, postgres: Server) -> Store:
    """Groups with values that databases sort and compare differently: capitals, accents, nothing, and a NUL."""
    root = tmp_path / "runs"
    labels = ("b", "B", "ä", "a_b", "a%b", None, "z\ud800x")
    for number, label in enumerate(labels):
        group = record_group(root, seeds=(0, 1), state="running" if number == 2 else "finished")
        if label is not None:
            notes.write(group.runs[0].path, notes.Notes(("odd",) if number % 2 else (), f"{label}\0"))
    return Store(root)


@pytest.fixture(autouse=True)
def all_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[Index] = []
    make = Index.__init__

    def remember(self: Index, store: Store) -> None:
        make(self, store)
        opened.append(self)

    monkeypatch.setattr(Index, "__init__", remember)
    yield
    for index in opened:
        index.close()


@pytest.fixture
def shared(store: Store, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv(indexing.VARIABLE, "shared")
    return Index(store)


def pages(index: Index, **asked: object) -> list[list[str]]:
    """The ids of all pages, groups after runs."""
    found = []
    for look in (search.search_runs, search.search_groups):
        cursor, ids = None, []
        while True:
            page = look(index, search.Query(limit=3, cursor=cursor, **asked))  # type: ignore[arg-type]
            ids += [item.id for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(ids) == page.total == len(set(ids))
        found.append(ids)
    return found


def test_every_list_is_the_same_as_from_the_file(store: Store, shared: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(indexing.VARIABLE)
    file = Index(store)
    for index in (file, shared):
        assert index.refresh().runs == 14
        assert index.refresh().runs <= 2  # those that run are always looked at
    for sort, descending in itertools.product(("created", "name", "best_eval", "env_steps"), (True, False)):
        assert pages(shared, sort=sort, descending=descending) == pages(file, sort=sort, descending=descending), (sort, descending)
    for asked in ({"q": "CartPole"}, {"q": "A_B"}, {"q": "a%b"}, {"q": "ä"}, {"tag": "odd"}, {"tag": "ODD"}, {"state": "finished"}):
        assert pages(shared, **asked) == pages(file, **asked), asked
    assert search.facets(shared) == search.facets(file)


def test_servers_share_what_one_of_them_has_read_or_computed(store: Store, shared: Index) -> None:
    other = Index(store)
    assert shared.refresh().runs == 14
    with other.connection() as connection:
        before = other.version(connection)
    assert len(pages(other)[0]) == 14
    shared.keep("diagnosis", "of these files", b"ill")
    shared.keep("diagnosis", "of those files", b"well")
    assert other.answer("diagnosis", "of those files") == b"well"
    assert other.answer("diagnosis", "of these files") is None
    Store(store.root).remove(store.groups()[0])
    changes = [None, None]

    def refresh(place: int, index: Index) -> None:
        changes[place] = index.refresh()  # type: ignore[call-overload]

    threads = [threading.Thread(target=refresh, args=pair) for pair in enumerate((shared, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One of them removed it; the other, which had to wait, found nothing left to do.
    assert sorted(change.removed for change in changes if change is not None) == [0, 3]
    with other.connection() as connection:
        assert other.version(connection) != before


def test_what_is_lent_while_an_index_is_closed_is_closed_when_it_comes_back(shared: Index) -> None:
    """A thread that still reads when a server ends brings its connection back to nobody: the database would keep its session."""
    before, lent = shared.connection(), shared.connection()
    driven = [connection.connection.driver_connection for connection in (before, lent)]
    before.close()
    shared.close()
    assert [one.closed for one in driven if one is not None] == [True, False]
    with lent:
        assert lent.exec_driver_sql("SELECT 1").scalar_one() == 1
    assert all(one.closed for one in driven if one is not None)
    with shared.connection() as late:
        driven.append(late.connection.driver_connection)
    assert [one is not None and one.closed for one in driven] == [True] * 3


def test_stores_do_not_see_each_other_and_tables_of_another_version_are_made_anew(
    store: Store, shared: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.refresh()
    assert pages(Index(Store(tmp_path / "other"))) == [[], []]
    with shared.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {shared.schema}.state SET digest = 'older'")
    again = Index(store)
    assert pages(again) == [[], []]
    assert again.refresh().runs == 14


def test_no_password_is_said_and_what_cannot_be_looked_for_is_refused(store: Store, shared: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    status = search.reindex(store.root)
    assert status.path.startswith("postgresql://clinic@/postgres rlclinic_index_")
    assert status.bytes > 0
    assert PASSWORD not in status.path
    with pytest.raises(UsageError, match="cannot stand in a database"):
        pages(shared, q="a\0b")
    monkeypatch.setenv(connections.VARIABLE, "postgresql://clinic:other@127.0.0.1:1/none")
    with pytest.raises(DatabaseDown, match="does not answer") as caught:
        Index(store)
    assert "other" not in str(caught.value)


@pytest.mark.parametrize("asked", ["shared", "elsewhere"])
def test_an_index_that_nobody_knows_the_place_of_is_refused(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(indexing.VARIABLE, asked)
    monkeypatch.delenv(connections.VARIABLE, raising=False)
    with pytest.raises(UsageError, match="not known where the index is"):
        Index(Store(tmp_path / "runs"))
