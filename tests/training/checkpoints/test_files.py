"""Checkpoint folders: what is written is what is read, links point where they should, and old ones make room."""

import json
from pathlib import Path

import pytest
import torch

from rlclinic.errors import CheckpointCorrupt
from rlclinic.runs import disk
from rlclinic.training.checkpoints import files
from rlclinic.training.checkpoints.files import Checkpoint


def made(step: int) -> Checkpoint:
    tensors = {"a": torch.full((2, 3), float(step)), "b": torch.tensor([step], dtype=torch.int64)}
    return Checkpoint(
        tensors, {"mean": torch.zeros(3)}, {"env.state": torch.ones(1, dtype=torch.float64)}, {"env_steps": step, "iteration": step // 10}
    )


def kept(run: Path) -> list[int]:
    return files.steps(run)


def test_what_is_written_is_read_back_with_every_type_and_bit(tmp_path: Path) -> None:
    written = made(10)
    written.policy["odd"] = torch.tensor([float("nan"), -0.0, 1e-45])
    found = files.read(files.write(tmp_path, written, best=False))
    assert found.state == written.state | {"best": False}
    assert found.env_steps == 10
    for part in ("policy", "optimizer", "loop"):
        for name, tensor in getattr(written, part).items():
            back = getattr(found, part)[name]
            assert back.dtype == tensor.dtype
            assert back.numpy().tobytes() == tensor.numpy().tobytes()


def test_a_slice_of_a_larger_tensor_is_saved_without_the_rest(tmp_path: Path) -> None:
    whole = torch.randn(1_000, 4)
    path = files.write(tmp_path, Checkpoint({"row": whole[3], "column": whole[:5, 2]}, {}, {}, {"env_steps": 1}), best=False)
    assert (path / "policy.safetensors").stat().st_size < 1_000
    found = files.read(path)
    assert torch.equal(found.policy["row"], whole[3])
    assert torch.equal(found.policy["column"], whole[:5, 2])


def test_the_best_the_last_and_the_one_before_are_kept(tmp_path: Path) -> None:
    for step in range(10, 70, 10):
        files.write(tmp_path, made(step), best=step == 20)
    assert kept(tmp_path) == [20, 50, 60]
    assert (tmp_path / "checkpoints" / "@best").readlink() == Path("20")
    assert (tmp_path / "checkpoints" / "@last").readlink() == Path("60")
    files.write(tmp_path, made(70), best=True)
    assert kept(tmp_path) == [60, 70]


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    for step in (900, 1_000):
        files.write(tmp_path, made(step), best=False)
    assert kept(tmp_path) == [900, 1_000]
    assert files.newest(tmp_path)[0] is not None
    found, passed = files.newest(tmp_path)
    assert found is not None
    assert found.env_steps == 1_000
    assert passed == []


def test_writing_a_step_again_replaces_it(tmp_path: Path) -> None:
    files.write(tmp_path, made(10), best=False)
    again = made(10)
    again.policy["a"] += 1
    files.write(tmp_path, again, best=False)
    assert kept(tmp_path) == [10]
    assert torch.equal(files.read(tmp_path / "checkpoints" / "10").policy["a"], again.policy["a"])


@pytest.mark.parametrize("name", files.FILES)
def test_a_flipped_bit_in_any_file_is_found(tmp_path: Path, name: str) -> None:
    path = files.write(tmp_path, made(10), best=False)
    data = bytearray((path / name).read_bytes())
    data[-1] ^= 1
    (path / name).write_bytes(bytes(data))
    with pytest.raises(CheckpointCorrupt, match=name):
        files.read(path)


@pytest.mark.parametrize("name", [*files.FILES, files.MANIFEST])
def test_a_missing_file_is_found(tmp_path: Path, name: str) -> None:
    path = files.write(tmp_path, made(10), best=False)
    (path / name).unlink()
    with pytest.raises(CheckpointCorrupt, match="incomplete"):
        files.read(path)


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_message(tmp_path: Path) -> None:
    for step in (10, 20):
        files.write(tmp_path, made(step), best=False)
    (tmp_path / "checkpoints" / "20" / "loop.safetensors").write_bytes(b"half")
    found, passed = files.newest(tmp_path)
    assert found is not None
    assert found.env_steps == 10
    assert len(passed) == 1
    assert "checkpoints/20" in passed[0]
    assert "loop.safetensors" in passed[0]


def test_the_manifest_covers_every_other_file(tmp_path: Path) -> None:
    path = files.write(tmp_path, made(10), best=False)
    assert set(json.loads((path / files.MANIFEST).read_bytes())) == set(files.FILES)
    assert {entry.name for entry in path.iterdir()} == {*files.FILES, files.MANIFEST}


def test_a_kill_between_a_checkpoint_and_its_names_is_mended_by_the_resume(tmp_path: Path) -> None:
    for step, best in ((128, True), (256, True)):
        files.write(tmp_path, made(step), best=best)
    folder = tmp_path / "checkpoints"
    for name in ("@last", "@best"):
        disk.point(folder / name, "128")
    (folder / ".@last.1.1").symlink_to("256")
    found, _ = files.newest(tmp_path)
    assert found is not None
    files.mend(tmp_path, found)
    assert {name: str((folder / name).readlink()) for name in ("@last", "@best")} == {"@last": "256", "@best": "256"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
