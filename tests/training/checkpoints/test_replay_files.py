"""A replay on disk: the same bytes back, only what changed written again, and damage noticed."""

import json
from pathlib import Path

import pytest
import torch

from rlclinic.training.checkpoints import replay_files
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from tests.training.data.test_replay import filled, lived, shape

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_files, "SEGMENT", 16)


def memory(rows: int = 64, steps: int = 50, **kind: bool) -> Replay:
    return filled(replay.start(shape(rows, **kind), 2, CPU), lived(steps), 5)


def same(one: Replay, other: Replay, members: list[int]) -> None:
    index = torch.arange(one.size)
    gamma = torch.full((1, 1), 0.9)
    assert one.stored == other.stored
    for place, member in enumerate(members):
        whole = replay.gather(one, index.expand(2, -1), 2, gamma.expand(2, -1))
        own = replay.gather(other, index.expand(len(members), -1), 2, gamma.expand(len(members), -1))
        for a, b in zip(whole, own, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert torch.equal(a[member], b[place])


@pytest.mark.parametrize("kind", [{}, {"once": True}, {"prioritized": True}])
@pytest.mark.parametrize("steps", [20, 50])
def test_what_is_written_comes_back_bit_for_bit(tmp_path: Path, kind: dict[str, bool], steps: int) -> None:
    full = memory(steps=steps, **kind)
    replay_files.write(tmp_path, replay_files.take(full, 1), None)
    found = replay_files.read(tmp_path)
    assert found is not None
    fresh = replay.start(full.shape, 1, CPU)
    assert replay_files.fits(fresh, found)
    replay_files.put(fresh, [found])
    same(full, fresh, [1])
    if full.tree is not None and fresh.tree is not None:
        assert torch.equal(full.tree.nodes[1], fresh.tree.nodes[0])
        assert torch.equal(full.tree.highest[1], fresh.tree.highest[0])
    more = lived(9, seed=5)
    alone = {name: None if each is None else each[1:] for name, each in vars(more).items()}
    filled(full, more, 3)
    filled(fresh, type(more)(**alone), 3)
    same(full, fresh, [1])


def test_only_segments_that_changed_are_written_again(tmp_path: Path) -> None:
    first, second, third = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    for folder in (first, second, third):
        folder.mkdir()
    full = memory(rows=64, steps=24)  # 48 rows: segments 0 to 2
    replay_files.write(first, replay_files.take(full, 0), None)
    filled(full, lived(4, seed=1), 4)  # 8 more: segment 3
    replay_files.write(second, replay_files.take(full, 0), first)
    linked = [
        name for name in ("0000", "0001", "0002") if (second / f"replay/{name}.safetensors").samefile(first / f"replay/{name}.safetensors")
    ]
    assert linked == ["0000", "0001", "0002"]
    filled(full, lived(6, seed=2), 6)  # 12 more: around the end, into segment 0
    replay_files.write(third, replay_files.take(full, 0), second)
    assert not (third / "replay/0000.safetensors").samefile(first / "replay/0000.safetensors")
    assert (third / "replay/0001.safetensors").samefile(first / "replay/0001.safetensors")
    found = replay_files.read(third)
    assert found is not None
    fresh = replay.start(full.shape, 1, CPU)
    replay_files.put(fresh, [found])
    same(full, fresh, [0])


@pytest.mark.parametrize("damage", ["changed", "missing", "no manifest", "odd manifest"])
def test_a_replay_with_a_wrong_byte_counts_as_none(tmp_path: Path, damage: str) -> None:
    replay_files.write(tmp_path, replay_files.take(memory(), 0), None)
    segment, manifest = tmp_path / "replay/0001.safetensors", tmp_path / "replay/manifest.json"
    if damage == "changed":
        data = bytearray(segment.read_bytes())
        data[-1] ^= 1
        segment.write_bytes(data)
    elif damage == "missing":
        segment.unlink()
    elif damage == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text(json.dumps(["no", "manifest"]))
    assert replay_files.read(tmp_path) is None


@pytest.mark.parametrize("rows", [32, 128])
def test_another_capacity_keeps_the_newest_rows(tmp_path: Path, rows: int) -> None:
    steps = lived(50)
    full = filled(replay.start(shape(64), 2, CPU), steps, 5)
    replay_files.write(tmp_path, replay_files.take(full, 0), None)
    found = replay_files.read(tmp_path)
    assert found is not None
    other = replay.start(shape(rows), 1, CPU)
    replay_files.put(other, [found])
    kept = min(rows, 64) // 2
    order = replay.newest(other, 1, 100)
    assert len(order) == kept
    assert torch.equal(other.table[0, order, other.cells["reward"].start], steps.reward[0, -kept:, 1])


def test_rows_of_another_shape_do_not_fit() -> None:
    found = replay_files.take(memory(), 0)
    assert not replay_files.fits(replay.start(shape(64, once=True), 1, CPU), found)
    assert not replay_files.fits(replay.start(shape(64, prioritized=True), 1, CPU), found)
    wider = replay.Shape(rows=64, n_envs=2, obs_shape=(5,), action_size=1)
    assert not replay_files.fits(replay.start(wider, 1, CPU), found)
