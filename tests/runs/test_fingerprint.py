"""A fingerprint changes with every file that answers are made from, and with nothing else."""

import json
from pathlib import Path

import pytest

from rlclinic.runs import fingerprint, lock, notes
from rlclinic.runs.record import Group
from tests.ops.recorded import add_checkpoint, record_group


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return record_group(tmp_path / "runs", seeds=(0, 1))


def test_an_unchanged_folder_keeps_its_fingerprint(group: Group) -> None:
    before = fingerprint.of(Group(group.path))
    (group.runs[0].path / "videos").mkdir()
    assert fingerprint.of(Group(group.path)) == before


@pytest.mark.parametrize("name", ["metrics.csv", "run.log", "config.json", "status.json"])
def test_a_longer_file_changes_it(group: Group, name: str) -> None:
    before = fingerprint.of(group)
    with (group.runs[1].path / name).open("a") as file:
        file.write(" ")
    assert fingerprint.of(Group(group.path)) != before


def test_notes_checkpoints_reports_and_removed_runs_change_it(group: Group) -> None:
    seen = {fingerprint.of(group)}
    notes.write(group.runs[0].path, notes.Notes(("odd",)))
    seen.add(fingerprint.of(Group(group.path)))
    add_checkpoint(group.runs[0].path, 100)
    seen.add(fingerprint.of(Group(group.path)))
    group.write_report("report.md", "x")
    seen.add(fingerprint.of(Group(group.path)))
    (group.runs[1].path / "config.json").unlink()
    seen.add(fingerprint.of(Group(group.path)))
    assert len(seen) == 5


def test_a_process_that_ends_without_a_word_changes_it(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    run = group.runs[0]
    record = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps({**record, "state": "running", "pid": 1, "host": lock.HOST}))
    monkeypatch.setattr(lock, "started", lambda _: record.get("process_started"))
    alive = fingerprint.of_run(run)
    assert fingerprint.of_run(run) == alive
    monkeypatch.setattr(lock, "started", lambda _: None)
    assert fingerprint.of_run(run) != alive


def test_a_folder_that_is_gone_has_one_too(group: Group, tmp_path: Path) -> None:
    from rlclinic.runs.record import Run

    assert fingerprint.of_run(Run(tmp_path / "nowhere")) == "nowhere/-"
