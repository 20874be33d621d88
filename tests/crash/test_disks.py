"""A disk that is full, read-only or broken: a clear error, the other members go on, nothing earlier is lost."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlclinic.errors import DiskFailed
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store
from tests.crash import cohorts, faults
from tests.launch.warm import Warm

Results = list[tuple[list[str], bytes]]


def check_nothing_lost(run: Run, expected: tuple[list[str], bytes]) -> None:
    """What the member wrote until its disk refused is a whole part of what it would have written, with whole checkpoints."""
    lines = (run.path / "metrics.csv").read_bytes()
    assert lines.endswith(b"\n"), "half a row was left behind"
    rows = [len(line.split(",")) for line in lines.decode().splitlines()]
    assert len(set(rows)) == 1, "a row is not whole"
    assert len(rows) <= len(expected[0])
    assert all(checkpoint.valid for checkpoint in run.checkpoints)


# Early, in its first words; in a checkpoint, at the folder, at a file, at its name; late.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "after", "said"),
    [
        ("ENOSPC", 5, "the disk is full"),
        ("ENOSPC", 61, "the disk is full"),
        ("ENOSPC", 66, "the disk is full"),
        ("EROFS", 68, "the file system is read-only"),
        ("EACCES", 64, "permission denied"),
        ("EIO", 120, "Input/output error"),
    ],
)
def test_a_member_whose_disk_refuses_fails_alone_and_resumes_when_it_can_write_again(
    warm: Warm, undisturbed: Results, tmp_path: Path, printed: Path, name: str, after: int, said: str
) -> None:
    good, bad = cohorts.create(tmp_path / "runs", cohorts.config())
    assert warm.run(good.path, bad.path, printed=printed, fault=("refuse", str(bad.path), name, after)) == 1
    text = printed.read_text()
    assert f"{bad.id}: failed at env step" in text
    assert f"cannot write {bad.path}" in text
    assert said in text
    assert "Everything written before is intact" in text
    assert "Traceback" not in text
    assert good.id not in text
    cohorts.check_same([good], undisturbed[:1])
    assert bad.status.state in ("failed", "crashed", "queued")
    check_nothing_lost(bad, undisturbed[1])
    assert warm.run(bad.path, "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same([bad], undisturbed[1:])


def test_the_advice_names_the_run_also_when_a_checkpoint_could_not_be_written(warm: Warm, tmp_path: Path, printed: Path) -> None:
    (run,) = cohorts.create(tmp_path / "runs", cohorts.config(), seeds=(0,))
    assert warm.run(run.path, printed=printed, fault=("refuse", str(run.path / "checkpoints"), "ENOSPC", 20)) == 1
    assert run.status.state == "failed", "only its checkpoints are refused, so it can say what happened"
    assert f"cannot write {run.path / 'checkpoints'}" in (run.status.reason or "")
    assert f"rlclinic train --resume {run.id}" in (run.status.reason or "")
    assert "the disk is full" in run.log


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_really_is_full_is_said_to_be_and_costs_nothing_but_time(
    warm: Warm, undisturbed: Results, small_disk: Path, printed: Path
) -> None:
    runs = cohorts.create(small_disk / "runs", cohorts.config())
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 120_000))
    assert warm.run(*(run.path for run in runs), printed=printed) == 1
    # In a run's own status where the last bytes of the disk are enough for it, otherwise where the process prints.
    told = printed.read_text() + "".join(run.status.reason or "" for run in runs)
    assert "the disk is full" in told
    assert "Traceback" not in told
    for run, expected in zip(runs, undisturbed, strict=True):
        assert run.checkpoints, "the disk was full before the first checkpoint"
        check_nothing_lost(run, expected)
    ballast.unlink()
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine can look into, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def hand_over(path: Path) -> None:
    """Make it nobody's own, so that a process that has become nobody can write there."""
    if os.getuid() == 0:
        for each in [path, *path.rglob("*")]:
            os.chown(each, faults.NOBODY, faults.NOBODY, follow_symlinks=False)


def test_a_folder_without_write_permission_is_refused_and_the_other_member_trains(
    warm: Warm, undisturbed: Results, open_folder: Path
) -> None:
    good, bad = cohorts.create(open_folder / "runs", cohorts.config())
    before = {path.name: path.read_bytes() for path in bad.path.iterdir()}
    hand_over(good.path)
    bad.path.chmod(0o555)
    printed = open_folder / "printed"
    assert warm.run(good.path, bad.path, printed=printed, fault=("become_nobody",)) == 1
    text = printed.read_text()
    assert f"cannot write {bad.path / 'lock'}: permission denied" in text
    assert "--runs-dir DIR" in text
    assert "Traceback" not in text
    cohorts.check_same([good], undisturbed[:1])
    assert {path.name: path.read_bytes() for path in bad.path.iterdir()} == before


def test_a_read_only_runs_folder_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(DiskFailed, match="the file system is read-only") as caught:
        Store(tmp_path / "runs").create_group([cohorts.config()])
    assert "--runs-dir DIR" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
