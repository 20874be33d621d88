"""The audit in SQLite and in PostgreSQL: nothing is lost while the database is away, nothing is there twice, and nothing becomes SQL."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlclinic.ops.jobs import audit, database
from rlclinic.ops.jobs.audit import Caller
from rlclinic.runs import jobs
from rlclinic.runs.database import audit_lines, connections
from rlclinic.runs.store import Store
from tests.servers.postgres import PASSWORD, Server

ODD = "x'; DROP TABLE rlclinic_audit; --%s ? \\ \" \0 \udcff \n"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "runs")
    if request.param == "postgresql":
        request.getfixturevalue("postgres")
        connections.migrate(made)
    yield made
    connections.forget()


def say(store: Store, target: str, name: str = "alice", **about: Any) -> None:
    audit.audit(store, Caller(name=name), "stop", target, **about)


def targets(store: Store) -> list[str]:
    return [line.target for line in audit.audit_log(store.root, limit=500).lines]


def test_lines_come_back_newest_first_with_their_number_and_all_that_was_said(store: Store) -> None:
    assert audit.audit_log(store.root).total == 0
    for number in range(4):
        say(store, f"g{number}", runs=[f"g{number}-s0"])
    log = audit.audit_log(store.root, limit=2)
    assert [(line.target, line.about) for line in log.lines] == [("g3", {"runs": ["g3-s0"]}), ("g2", {"runs": ["g2-s0"]})]
    assert log.total == 4


def test_stores_of_one_database_do_not_see_each_others_lines(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    say(store, "mine")
    say(other, "theirs")
    assert (targets(store), targets(other)) == (["mine"], ["theirs"])


def test_whatever_is_said_stays_a_value(store: Store) -> None:
    say(store, ODD, name=ODD, change=ODD, **{"odd'key": 1})
    say(store, "after")
    after, odd = audit.audit_log(store.root).lines
    assert after.target == "after"
    assert odd.target == odd.name == ODD.replace("\0", "\ufffd").replace("\udcff", "?")
    assert odd.about == {"change": ODD, "odd'key": 1}


def test_many_who_write_at_the_same_moment_lose_nothing(store: Store) -> None:
    def write(who: int) -> None:
        for number in range(10):
            say(store, f"{who}-{number}")
        connections.forget()

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = targets(store)
    assert sorted(found) == sorted(f"{who}-{number}" for who in range(4) for number in range(10))
    for who in range(4):
        assert [each for each in found if each.startswith(f"{who}-")] == [f"{who}-{number}" for number in reversed(range(10))]


def test_lines_of_a_store_from_before_the_table_are_taken_along_once(store: Store) -> None:
    old = [{"time": 1.0, "action": "start", "face": "cli", "name": "bob", "target": f"old{number}", "about": {}} for number in range(3)]
    file = store.root / "@jobs" / jobs.AUDIT
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in old) + "half a li")
    for _ in range(2):
        assert targets(store) == ["old2", "old1", "old0"]
    say(store, "new")
    file.write_text(file.read_text() + "ne\n[1]\n" + json.dumps({**old[0], "target": "late"}) + "\n")
    assert targets(store) == ["late", "new", "old2", "old1", "old0"]


def test_a_line_that_another_version_wrote_hides_no_other(store: Store) -> None:
    say(store, "a")
    audit_lines.add(store, {"time": "?", "action": "explode", "face": None, "name": 3, "target": "b", "about": "x"})
    say(store, "c")
    log = audit.audit_log(store.root)
    assert ([line.target for line in log.lines], log.total) == (["c", "a"], 3)


def test_while_the_database_is_away_lines_wait_beside_it_in_their_order(postgres: Server, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    connections.migrate(store)
    say(store, "before")
    postgres.stop()
    try:
        for target in ("first", "second"):
            say(store, target)
        waiting = (store.root / "@jobs" / jobs.AUDIT).read_text()
        assert PASSWORD not in waiting
        assert [json.loads(line)["target"] for line in waiting.splitlines()] == ["first", "second"]
    finally:
        postgres.start()
    say(store, "after")
    assert targets(store) == ["after", "second", "first", "before"]
    connections.forget()


def test_a_damaged_file_of_the_queue_does_not_stop_who_did_what_from_being_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    say(store, "before")
    connections.forget()
    connections.path(store).write_bytes(b"not a database" * 100)
    say(store, "during")
    connections.path(store).unlink()
    assert targets(store) == ["during"]


def test_a_move_takes_the_audit_along_before_what_is_there_and_twice_changes_nothing(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs")
    monkeypatch.setenv(connections.VARIABLE, "sqlite")
    (store.root / "@jobs").mkdir(parents=True)
    jobs.append(store, jobs.AUDIT, {"time": 1.0, "action": "start", "face": "cli", "name": "bob", "target": "old", "about": {"a": 1}})
    say(store, "local")
    monkeypatch.setenv(connections.VARIABLE, postgres.url)
    connections.migrate(store)
    # Nobody had moved it, and somebody acted: the file of the old store is taken along here, too.
    say(store, "shared")
    assert database.move_queue("sqlite", store.root).audit_lines == 1
    assert set(targets(store)) == {"shared", "local", "old"}
    assert audit.audit_log(store.root).total == database.check_database(store.root).audit_lines == 3
    assert database.move_queue("sqlite", store.root).audit_lines == 0
    say(store, "later")
    assert targets(store)[0] == "later"
    assert audit.audit_log(store.root).total == 4
    connections.forget()
