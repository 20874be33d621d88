"""A checkpoint that is not whole is never used: the one before it is, and the log says so."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlclinic.runs.record import Run
from tests.crash import cohorts
from tests.launch.warm import Warm

Results = list[tuple[list[str], bytes]]


def shorten(checkpoint: Path) -> None:
    file = checkpoint / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def empty(checkpoint: Path) -> None:
    (checkpoint / "optimizer.safetensors").write_bytes(b"")


def flip_a_bit(checkpoint: Path) -> None:
    file = checkpoint / "loop.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)


def change_the_step(checkpoint: Path) -> None:
    file = checkpoint / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"iteration": 1}))


def lose_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").unlink()


def cut_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text('{"policy.safetensors": "')


def replace_the_manifest(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text("[]")


def lose_a_file(checkpoint: Path) -> None:
    (checkpoint / "optimizer.safetensors").unlink()


def lose_all_files(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()


@pytest.fixture(scope="module")
def halfway(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort that was killed late in its run, while the second member's checkpoint was written."""
    folder = tmp_path_factory.mktemp("halfway")
    runs = cohorts.create(folder / "runs", cohorts.config())
    code = warm.run(
        *(run.path for run in runs), printed=folder / "printed", fault=("signal_at_change", str(runs[1].path / "checkpoints"), 90)
    )
    assert code == -9, (folder / "printed").read_text()
    return folder / "runs"


def copied(halfway: Path, folder: Path) -> list[Run]:
    shutil.copytree(halfway, folder, symlinks=True)
    return [Run(path) for path in sorted(folder.iterdir()) if path.name.startswith("g")]


@pytest.mark.parametrize(
    "harm",
    [
        shorten,
        empty,
        flip_a_bit,
        change_the_step,
        lose_the_manifest,
        cut_the_manifest,
        replace_the_manifest,
        lose_a_file,
        lose_all_files,
    ],
    ids=lambda harm: harm.__name__,
)
def test_the_checkpoint_before_a_broken_one_is_used_and_the_log_says_so(
    warm: Warm, undisturbed: Results, halfway: Path, tmp_path: Path, printed: Path, harm: Callable[[Path], None]
) -> None:
    runs = copied(halfway, tmp_path / "runs")
    before, broken = runs[0].checkpoints[-2:]
    harm(broken.path)
    assert not broken.valid
    assert warm.run(runs[0].path, "--resume", printed=printed) == 0, printed.read_text()
    assert f"checkpoint {broken.path} cannot be used" in runs[0].log
    assert f"resume from env step {before.step}, exactly where it was" in runs[0].log
    cohorts.check_same(runs[:1], undisturbed[:1])


def test_half_a_checkpoint_that_a_kill_left_behind_is_ignored_and_swept_up(
    warm: Warm, undisturbed: Results, halfway: Path, tmp_path: Path, printed: Path
) -> None:
    runs = copied(halfway, tmp_path / "runs")
    last = runs[0].checkpoints[-1]
    leftover = runs[0].path / "checkpoints" / f".{last.step + 256}.99999"
    shutil.copytree(last.path, leftover)
    (leftover / "manifest.json").unlink()
    (runs[0].path / "checkpoints" / ".@last.99999").symlink_to("nowhere")
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    assert f"resume from env step {last.step}, exactly where it was" in runs[0].log
    cohorts.check_same(runs, undisturbed)


def test_a_run_without_any_whole_checkpoint_is_refused_with_the_reason_for_each(
    warm: Warm, halfway: Path, tmp_path: Path, printed: Path
) -> None:
    runs = copied(halfway, tmp_path / "runs")
    rows = (runs[0].path / "metrics.csv").read_bytes()
    for checkpoint in runs[0].checkpoints:
        flip_a_bit(checkpoint.path)
    assert warm.run(runs[0].path, "--resume", printed=printed) == 1
    said = printed.read_text()
    assert f"run {runs[0].id} has no checkpoint that can be used" in said
    assert all(str(checkpoint.path) in said for checkpoint in runs[0].checkpoints)
    assert "Traceback" not in said
    assert (runs[0].path / "metrics.csv").read_bytes() == rows, "what was there is still there"


def test_rows_after_the_checkpoint_are_cut_off_and_half_a_row_does_no_harm(
    warm: Warm, undisturbed: Results, halfway: Path, tmp_path: Path, printed: Path
) -> None:
    runs = copied(halfway, tmp_path / "runs")
    for run in runs:
        with (run.path / "metrics.csv").open("a") as file:
            file.write("1794717765.2,99999,77,1,2,3\n0.25,1")
    assert warm.run(*(run.path for run in runs), "--resume", printed=printed) == 0, printed.read_text()
    cohorts.check_same(runs, undisturbed)
