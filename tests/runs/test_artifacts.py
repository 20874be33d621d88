"""Runs in an object store: read on another machine, gone on with by one of two, and nothing believed that is not what was put there."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.runs import lease
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.object_store.artifacts import Taken
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.serve.cli.app import app
from tests.ops.recorded import add_checkpoint, flat, record_group
from tests.servers.s3 import serve_s3

if not os.environ.get("RLCLINIC_CI"):
    pytest.importorskip("obstore", reason="object stores are not tested: pip install 'rlclinic[s3]'")
SECRET = "wJalr-secret-of-the-bucket"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with serve_s3() as endpoint:
        yield endpoint


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An object store: a folder, and a server that speaks S3."""
    named = f"file://{tmp_path}/objects"
    if request.param == "s3":
        endpoint = request.getfixturevalue("s3")
        for name, value in {
            "AWS_ENDPOINT": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        named = f"s3://runs/{tmp_path.name}"
    monkeypatch.setenv(artifacts.VARIABLE, named)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return named


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def group(store: Store) -> Group:
    made = record_group(store.root, returns=flat)
    add_checkpoint(made.runs[0].path, 10_240, best=True)
    return made


def push(group: Group) -> list[str]:
    return artifacts.push([*group.runs, group])


def files_of(run: Run) -> dict[str, bytes]:
    return {
        str(path.relative_to(run.path)): path.read_bytes()
        for path in run.path.rglob("*")
        if path.is_file() and path.name != "lock" and not path.name.startswith(".") and "@" not in str(path.relative_to(run.path))
    }


def rlclinic(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_what_was_put_there_comes_back_to_the_byte_and_only_what_is_new_is_put_again(url: str, group: Group, tmp_path: Path) -> None:
    assert push(group) == [*(run.id for run in group.runs), group.id]
    assert push(group) == []
    (group.runs[0].path / "report.md").write_text("new")
    assert push(group) == [group.runs[0].id]
    there = Store(tmp_path / "there")
    assert artifacts.pull(there, [group.id]) == [group.id, *(run.id for run in group.runs)]
    for run in group.runs:
        assert files_of(there.run(run.id)) == files_of(run) != {}
    first = there.run(group.runs[0].id)
    assert [(each.step, each.best, each.valid) for each in first.checkpoints] == [(10_240, True, True)]
    with pytest.raises(NotFound, match="no run or group"):
        artifacts.pull(there, ["gxyz"])


def test_lists_and_diagnoses_are_made_from_there_on_a_machine_that_has_no_runs(
    url: str, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = json.loads(rlclinic("diagnose", group.id, "--runs-dir", str(group.path.parent.parent), "--json").stdout)
    push(group)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    listed = json.loads(rlclinic("runs", "list", "--artifacts", url, "--json").stdout)
    assert {row["id"] for row in listed["runs"]} == {run.id for run in group.runs}
    mirror = artifacts.open_mirror(url)
    there = json.loads(rlclinic("diagnose", "@last", "--artifacts", url, "--json").stdout)
    known = [[(cause["id"], cause["probability"], cause["agree"]) for cause in each["diagnosis"]["causes"]] for each in (here, there)]
    assert known[0] == known[1] != []
    # A checkpoint comes when it is needed, and not before.
    assert Store(mirror).run(group.runs[0].id).checkpoints == []
    artifacts.open_mirror(url, group.runs[0].id, checkpoints=True)
    assert Store(mirror).run(group.runs[0].id).checkpoint("@best").valid
    # What is removed there is not listed any more.
    assert not Path("runs").exists()


def test_of_two_machines_that_go_on_with_a_run_one_keeps_the_name_and_nothing_is_mixed(url: str, group: Group, tmp_path: Path) -> None:
    push(group)
    run = group.runs[0]
    there = Store(tmp_path / "there")
    artifacts.pull(there, [run.id])
    moved = there.run(run.id)
    (moved.path / "report.md").write_text("gone on with there")
    assert artifacts.push([moved]) == [run.id]
    # The first machine comes back from a cut, and knows nothing of it.
    (run.path / "report.md").write_text("gone on with here")
    with pytest.raises(Taken, match="another machine has gone on"):
        artifacts.push([run])
    third = Store(tmp_path / "third")
    artifacts.pull(third, [run.id])
    assert (third.run(run.id).path / "report.md").read_text() == "gone on with there"
    # It takes the newer one, and may go on with that.
    with pytest.raises(Taken, match="another machine has gone on"):
        artifacts.push([run])
    artifacts.pull(Store(run.path.parent), [run.id])
    assert (run.path / "report.md").read_text() == "gone on with there"
    (run.path / "report.md").write_text("again here")
    assert artifacts.push([run]) == [run.id]


def test_of_many_who_take_the_next_number_at_the_same_moment_one_gets_it(url: str, group: Group, tmp_path: Path) -> None:
    run = group.runs[0]
    artifacts.push([run])
    copies = []
    for number in range(4):
        copy = Store(tmp_path / f"copy{number}")
        artifacts.pull(copy, [run.id])
        (copy.run(run.id).path / "report.md").write_text(str(number))
        copies.append(copy.run(run.id))
    ends: list[str] = []

    def go_on(copy: Run) -> None:
        try:
            ends.append(",".join(artifacts.push([copy])))
        except Taken:
            ends.append("taken")

    threads = [threading.Thread(target=go_on, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == sorted([run.id, "taken", "taken", "taken"])


def test_a_push_that_was_killed_before_it_was_noted_goes_on(url: str, group: Group) -> None:
    run = group.runs[0]
    artifacts.push([run])
    before = (run.path / artifacts.MARK).read_text()
    (run.path / "report.md").write_text("one")
    artifacts.push([run])
    (run.path / artifacts.MARK).write_text(before)
    (run.path / "report.md").write_text("two")
    assert artifacts.push([run]) == [run.id]


def test_what_is_no_longer_there_is_removed_from_there_too_but_not_under_a_readers_feet(url: str, group: Group, tmp_path: Path) -> None:
    run = group.runs[0]
    large = os.urandom(100_000)
    for number in range(4):
        (run.path / "curve.bin").write_bytes(large + bytes([number]))
        artifacts.push([run])
    import obstore

    with artifacts._opened(url) as remote:
        parts = [entry["path"] for chunk in obstore.list(remote, f"parts/{run.id}/") for entry in chunk if entry["size"] == 100_001]
        numbers = artifacts._numbers(remote, "runs", run.id)
    assert (len(parts), numbers) == (2, [3, 4])
    there = Store(tmp_path / "there")
    artifacts.pull(there, [run.id])
    assert (there.run(run.id).path / "curve.bin").read_bytes() == large + b"\3"


def test_who_has_no_lease_any_more_puts_nothing_there(url: str, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = tmp_path / "deadline"
    lease.write_deadline(deadline, lease.now() - 1.0)
    monkeypatch.setenv(lease.VARIABLE, str(deadline))
    with pytest.raises(lease.LeaseLost):
        artifacts.push([group.runs[0]])
    monkeypatch.delenv(lease.VARIABLE)
    with pytest.raises(NotFound):
        artifacts.pull(Store(tmp_path / "there"), [group.runs[0].id])


def test_a_local_run_that_was_never_put_there_is_not_replaced(url: str, group: Group, tmp_path: Path) -> None:
    push(group)
    other = Store(tmp_path / "other")
    shutil.copytree(group.runs[0].path, other.root / group.runs[0].id)
    (other.root / group.runs[0].id / artifacts.MARK).unlink()
    with pytest.raises(Taken, match="not replaced"):
        artifacts.pull(other, [group.runs[0].id])


# ── copies on several machines ──


def test_who_takes_a_run_has_all_of_it_and_nothing_more_is_taken_of_the_one_before(url: str, group: Group, tmp_path: Path) -> None:
    run = group.runs[0]
    push(group)
    there = Store(tmp_path / "there")
    artifacts.take(there, "runs", run.id)
    assert files_of(there.run(run.id)) == files_of(run) != {}
    (run.path / "report.md").write_text("by the one before")
    with pytest.raises(Taken, match="another machine has gone on"):
        artifacts.push([run])
    (there.run(run.id).path / "report.md").write_text("by the one who took it")
    assert artifacts.push([there.run(run.id)]) == [run.id]
    # Whoever had it follows, and goes on with it once it is taken back.
    home = Store(run.path.parent)
    assert artifacts.follow(home, "runs", run.id, whole=False)
    assert (run.path / "report.md").read_text() == "by the one who took it"
    assert artifacts.is_followed(home, "runs", run.id)
    assert artifacts.push([run]) == []
    artifacts.take(home, "runs", run.id)
    artifacts.take(home, "runs", run.id)
    assert files_of(there.run(run.id)) == files_of(run)
    assert not artifacts.follow(home, "runs", run.id, whole=True)


def test_a_put_that_comes_late_is_refused_and_one_that_came_just_before_is_not_lost(
    url: str, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = group.runs[0]
    push(group)
    stores = {name: Store(tmp_path / name) for name in ("first", "second")}
    artifacts.take(stores["first"], "runs", run.id)
    first = stores["first"].run(run.id)
    paused: list[str] = []

    def pause() -> None:
        """The first one's lease was good at this moment, and then it sleeps for an hour."""
        if not paused:
            paused.append("first")
            artifacts.take(stores["second"], "runs", run.id)

    monkeypatch.setattr(lease, "check", pause)
    (first.path / "report.md").write_text("late")
    with pytest.raises(Taken):
        artifacts.push([first])
    newest = artifacts.open_mirror(url)
    assert not (Store(newest).run(run.id).path / "report.md").exists()

    # The other way round: the first one's put comes between what the second has read and the number that it takes.
    paused[:] = []
    third = Store(tmp_path / "third")

    def put_between() -> None:
        if not paused:
            paused.append("second")
            (stores["second"].run(run.id).path / "report.md").write_text("in time")
            artifacts.push([stores["second"].run(run.id)])

    monkeypatch.setattr(lease, "check", put_between)
    artifacts.take(third, "runs", run.id)
    assert (third.run(run.id).path / "report.md").read_text() == "in time"


def test_an_upload_that_is_killed_anywhere_loses_nothing(
    folder: Path, group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    run = group.runs[0]
    artifacts.push([run])
    put, left = obstore.put, [0]

    class Killed(BaseException):
        pass

    def killed(*given: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return put(*given, **more)

    monkeypatch.setattr(obstore, "put", killed)
    ends = set()
    for moment in range(6):
        left[0] = 100
        artifacts.take(Store(run.path.parent), "runs", run.id)
        (run.path / "curve.bin").write_bytes(os.urandom(100_000))
        (run.path / "other.bin").write_bytes(os.urandom(100_000))
        before, left[0] = files_of(run), moment
        try:
            artifacts.push([run])
            ends.add("put")
        except Killed:
            ends.add("killed")
        there = Store(tmp_path / f"there{moment}")
        left[0] = 100
        artifacts.take(there, "runs", run.id)  # all of it can be read, as it was or as it is
        assert files_of(there.run(run.id)).keys() >= {"config.json", "status.json", "metrics.csv"}
        artifacts.take(Store(run.path.parent), "runs", run.id)
        for name in ("curve.bin", "other.bin"):
            (run.path / name).write_bytes(before[name])
        artifacts.push([run])
        artifacts.take(there, "runs", run.id)
        assert files_of(there.run(run.id)) == before
    assert ends == {"put", "killed"}


# ── hostile object stores ──


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(artifacts.VARIABLE, f"file://{tmp_path}/objects")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "objects"


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"../../escaped": {"sha256": "0" * 64, "size": 1, "content": "eA=="}}},
        {"files": {"/etc/x": {"sha256": "0" * 64, "size": 1, "content": "eA=="}}},
        {"files": {"checkpoints/../x": {"sha256": "0" * 64, "size": 1, "content": "eA=="}}},
        {"files": {".hidden": {"sha256": "0" * 64, "size": 1, "content": "eA=="}}},
        {"files": {"x": {"sha256": "../../x", "size": 1}}},
        {"files": {"x": {"sha256": "0" * 64, "size": 10**15}}},
        {"files": {"x": "y"}},
        {"files": []},
        {"links": {"@best": "../../.."}},
        {"links": {"@../x": "1"}},
        {"id": "other"},
        {"kind": "groups"},
    ],
    ids=str,
)
def test_a_manifest_that_is_none_of_ours_writes_nothing(folder: Path, group: Group, tmp_path: Path, change: dict[str, Any]) -> None:
    run = group.runs[0]
    artifacts.push([run])
    place = folder / "manifests" / "runs" / run.id / "00000001.json"
    record = json.loads(place.read_text())
    files = {**record["files"], **change["files"]} if isinstance(change.get("files"), dict) else change.get("files", record["files"])
    place.write_text(json.dumps({**record, **change, "files": files}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunError, match="none of ours"):
        artifacts.pull(Store(tmp_path / "there"), [run.id])
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == []


def test_a_part_that_was_changed_is_refused(folder: Path, group: Group, tmp_path: Path) -> None:
    run = group.runs[0]
    (run.path / "curve.bin").write_bytes(os.urandom(100_000))
    artifacts.push([run])
    for part in (folder / "parts" / run.id).iterdir():
        part.write_bytes(b"x" * 100_000)
    with pytest.raises(RunError, match="not what was put there"):
        artifacts.pull(Store(tmp_path / "there"), [run.id])
    assert not (tmp_path / "there" / run.id).exists()


@pytest.mark.parametrize("given", ["s3://key:secret@bucket/x", "s3://bucket/x?secret=1", "http://bucket", "s3:///x", "runs", "s3://[x"])
def test_a_url_with_credentials_or_of_something_else_is_refused(given: str) -> None:
    with pytest.raises(UsageError) as refused:
        artifacts.check(given)
    assert "key:secret" not in str(refused.value)


def test_an_object_store_that_cannot_be_reached_ends_no_training_and_tells_no_secret(
    group: Group, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {
        "AWS_ENDPOINT": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        artifacts.VARIABLE: "s3://runs/x",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(artifacts, "timedelta", lambda seconds: __import__("datetime").timedelta(seconds=0.1))
    with artifacts.uploading(group.runs):
        pass
    said = capsys.readouterr().err
    assert said.count("cannot be used") == 1
    assert SECRET not in said
    assert "AKIAEXAMPLE" not in said
