"""The index over run folders: current after every change, rebuilt at any time, never in the way of a damaged folder."""

import json
import shutil
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import func, select

from rlclinic.ops.runs import search
from rlclinic.runs import notes, status_file
from rlclinic.runs.database import index as indexing
from rlclinic.runs.database.index import Index, tables_differ
from rlclinic.runs.database.schema import GROUP, RUN
from rlclinic.runs.store import Store
from tests.ops.recorded import record_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def states(index: Index) -> dict[str, str]:
    with index.connection() as connection:
        return {row.id: row.state for row in connection.execute(select(RUN.c.id, RUN.c.state))}


def test_migrations_make_the_tables_that_are_asked(root: Path) -> None:
    index = Index(Store(root))
    assert tables_differ(index.engine) == []
    with index.engine.begin() as connection:
        command.downgrade(indexing.alembic_config(connection), "base")
    assert tables_differ(index.engine) == ["answer", "config", "run", "run_group"]


def test_only_folders_that_changed_are_read_again(root: Path) -> None:
    group = record_group(root)
    index = Index(Store(root))
    assert index.refresh().runs == 3
    assert index.refresh().runs == 0
    notes.write(group.runs[0].path, notes.Notes(("odd",)))
    assert index.refresh().changed == (group.runs[0].id,)
    assert index.refresh(full=True).runs == 3


def test_removed_runs_and_groups_are_forgotten(root: Path) -> None:
    group, other = record_group(root), record_group(root)
    index = Index(Store(root))
    index.refresh()
    Store(root).remove(group)
    index.refresh()
    assert set(states(index)) == {run.id for run in other.runs}
    with index.connection() as connection:
        assert connection.execute(select(GROUP.c.id)).scalars().all() == [other.id]


def test_a_run_whose_process_is_gone_reads_as_crashed_though_nothing_was_written(root: Path) -> None:
    group = record_group(root, seeds=(0,), state="running")
    index = Index(Store(root))
    index.refresh()
    assert states(index) == {group.runs[0].id: "running"}
    now = status_file.raw(group.runs[0].path)
    assert now.process_started is not None
    record = json.loads((group.runs[0].path / "status.json").read_text())
    # As if the machine had started anew: same pid, another process. Written in place: the folder's own time stays.
    (group.runs[0].path / "status.json").write_text(json.dumps({**record, "process_started": now.process_started + 1}))
    index.refresh()
    assert states(index) == {group.runs[0].id: "crashed"}


@pytest.mark.parametrize("damage", ["not a database", "", "SQLite format 3\0 and then nothing"])
def test_a_damaged_index_is_made_anew(root: Path, damage: str) -> None:
    record_group(root)
    path = root / indexing.FOLDER / indexing.FILE
    path.parent.mkdir(parents=True)
    path.write_text(damage)
    index = Index(Store(root))
    assert index.refresh().runs == 3


def test_an_index_of_a_newer_program_is_made_anew(root: Path) -> None:
    record_group(root)
    index = Index(Store(root))
    index.refresh()
    with index.engine.begin() as connection:
        connection.exec_driver_sql(f"update {indexing.VERSION_TABLE} set version_num = '9999'")
    index.close()
    assert Index(Store(root)).refresh().runs == 3


def test_the_index_can_be_deleted_at_any_time(root: Path) -> None:
    record_group(root)
    first = search.reindex(root)
    shutil.rmtree(root / indexing.FOLDER)
    again = search.reindex(root)
    assert (first.runs, first.groups) == (again.runs, again.groups) == (3, 1)


def test_damaged_and_strange_folders_do_not_end_it(root: Path) -> None:
    group = record_group(root)
    (root / "empty").mkdir()
    (root / "file").write_text("x")
    (group.runs[0].path / "config.json").write_text("[]")
    (group.runs[1].path / "status.json").write_text('{"state": 7, "env_steps": 1e300, "best_eval": "x"}')
    record = json.loads((group.runs[2].path / "config.json").read_text())
    (group.runs[2].path / "config.json").write_text(json.dumps({**record, "seed": 10**30, "label": "\ud800\0", "env": 3}))
    index = Index(Store(root))
    index.refresh()
    with index.connection() as connection:
        assert connection.execute(select(func.count()).select_from(RUN)).scalar_one() == 3


def test_answers_are_kept_until_their_files_change(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(Store(root))
    index.keep("a", "f1", b"one")
    assert index.answer("a", "f1") == b"one"
    assert index.answer("a", "f2") is None
    monkeypatch.setattr(indexing, "MOST_ANSWERS", 2)
    for name in "bcd":
        index.keep(name, "f", name.encode())
    assert [index.answer(name, "f") for name in "bcd"] == [None, b"c", b"d"]
