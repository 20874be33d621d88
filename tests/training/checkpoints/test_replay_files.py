"""A replay on disk: the same bytes back, only what changed written again, and damage noticed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlclinic.training.checkpoints import replay_files
from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay
from tests.training.data.test_replay import ENVS, filled, lived, shape

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
    assert replay_files.objection(fresh, [found], ENVS) is None
    replay_files.put(fresh, [replay_files.fit(found, fresh.shape, ENVS)])
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


def fitted(full: Replay, made: replay.Shape, n_envs: int = ENVS) -> Replay:
    """The first member's memory, put into one of another shape."""
    other, saved = replay.start(made, 1, CPU), replay_files.take(full, 0)
    assert replay_files.objection(other, [saved], n_envs) is None
    replay_files.put(other, [replay_files.fit(saved, made, n_envs)])
    return other


@pytest.mark.parametrize("kind", [{}, {"once": True}, {"prioritized": True}])
@pytest.mark.parametrize("steps", [20, 50])
@pytest.mark.parametrize("rows", [10, 32, 128])
def test_another_capacity_keeps_the_newest_rows_and_what_follows_them(rows: int, steps: int, kind: dict[str, bool]) -> None:
    taken = lived(steps)
    full = filled(replay.start(shape(64, **kind), 2, CPU), taken, 5)
    other = fitted(full, shape(rows, **kind))
    kept = min(rows, full.size) // ENVS
    assert other.size == kept * ENVS
    for env in range(ENVS):
        old, new = replay.newest(full, env, kept), replay.newest(other, env, kept)
        assert len(new) == kept
        assert torch.equal(other.table[0, new, other.cells["reward"].start], taken.reward[0, -kept:, env])
        gamma = torch.full((1, 1), 0.9)
        before, after = replay.gather(full, old.expand(2, -1), 2, gamma.expand(2, -1)), replay.gather(other, new.expand(1, -1), 2, gamma)
        counted = torch.ones(kept, dtype=torch.bool) if after.weight is None else after.weight[0] > 0
        if before.weight is not None:  # where final observations are lost, rows count less; a smaller memory keeps fewer of them
            assert bool((counted <= (before.weight[0] > 0)).all())
            assert rows < 64 or torch.equal(counted, before.weight[0] > 0)
        assert int(counted.sum()) > kept // 2
        for name in ("obs", "reward", "discount", "next_obs"):
            assert torch.equal(getattr(before, name)[0][counted], getattr(after, name)[0][counted]), name
        if full.tree is not None and other.tree is not None:
            assert torch.equal(other.tree.nodes[0, other.tree.leaves + new], full.tree.nodes[0, full.tree.leaves + old])


@pytest.mark.parametrize("n_envs", [1, 3, 4])
@pytest.mark.parametrize("rows", [24, 96])
@pytest.mark.parametrize("kind", [{}, {"prioritized": True}, {"images": True}])
def test_another_number_of_environments_never_joins_the_rewards_of_two(n_envs: int, rows: int, kind: dict[str, bool]) -> None:
    taken = lived(30, images="images" in kind)
    # The reward says which environment it came from and when, as a digit each.
    taken.reward = torch.arange(30.0).view(1, 30, 1) + 100.0 * torch.arange(float(ENVS)).view(1, 1, ENVS).expand(2, 30, ENVS)
    taken.terminated[:], taken.truncated[:] = False, False
    made = replay.Shape(60, ENVS, tuple(taken.obs.shape[3:]), 1, **kind)
    full = filled(replay.start(made, 2, CPU), taken, 5)
    other = fitted(full, replace(made, rows=rows, n_envs=n_envs))
    replay.cut_newest(other)
    assert other.size == min(rows, 60) // n_envs * n_envs
    drawn = replay.gather(other, torch.arange(other.size).expand(1, -1), 3, torch.ones(1, 1))
    first = other.table[0, : other.size, other.cells["reward"].start]
    env, when = first // 100, first % 100
    stored = {(int(a), int(b)) for a, b in zip(env, when, strict=True)}
    assert len(stored) == other.size
    newest = 30 - min(rows, 60) // ENVS
    assert sum(int(b) >= newest for _, b in stored) >= 0.8 * len(stored)
    for index in range(other.size):
        expected, at = float(first[index]), int(when[index])
        # It stops early only where nothing more of this environment lies behind it in its column.
        sums = [expected + sum(float(env[index]) * 100 + at + k for k in range(1, n)) for n in (1, 2, 3)]
        assert float(drawn.reward[0, index]) in sums
    whole = sum(float(drawn.reward[0, i]) == 3 * float(first[i]) + 3 for i in range(other.size))
    assert whole >= other.size - 2 * (ENVS + n_envs)
    assert bool((drawn.discount == 1).all())


def test_priorities_begin_where_rows_were_drawn_uniformly_and_are_forgotten_where_they_are_again() -> None:
    plain = fitted(memory(prioritized=True), shape(64))
    assert plain.tree is None
    ranked = fitted(memory(), shape(64, prioritized=True))
    assert ranked.tree is not None
    assert bool((ranked.tree.nodes[0, ranked.tree.leaves :][: ranked.size] == 1).all())


def test_rows_of_another_shape_do_not_fit_and_it_says_why() -> None:
    found = replay_files.take(memory(), 0)

    def why(made: replay.Shape, n_envs: int = ENVS) -> str | None:
        return replay_files.objection(replay.start(made, 1, CPU), [found], n_envs)

    assert why(shape(64)) is None
    assert why(shape(64, once=True)) == "algo.optimize_memory_usage was another"
    assert why(replay.Shape(rows=64, n_envs=2, obs_shape=(5,), action_size=1)) == "its rows hold other observations or actions"
    assert "not saved" in str(replay_files.objection(memory(), [None], ENVS))
    saving = replay_files.take(memory(once=True), 0)
    reason = replay_files.objection(replay.start(replace(shape(64, once=True), n_envs=4), 1, CPU), [saving], ENVS)
    assert "there were 2 instead of 4" in str(reason)


@pytest.mark.parametrize("kind", [{}, {"once": True}])
def test_what_comes_after_a_restart_of_the_environments_does_not_continue_the_newest_rows(kind: dict[str, bool]) -> None:
    first, second = lived(10, seed=1), lived(10, seed=2)
    for taken in (first, second):
        taken.terminated[:], taken.truncated[:] = False, False
        taken.following[:, -1] = taken.next_obs[:, -1]
    full = filled(replay.start(shape(64, **kind), 2, CPU), first, 5)
    replay.cut_newest(full)
    filled(full, second, 5)
    drawn = replay.gather(full, torch.arange(16, 20).expand(2, -1), 3, torch.full((2, 1), 0.5))  # the last two steps before it
    assert torch.allclose(drawn.reward[:, 2:], first.reward[:, 9])
    assert torch.allclose(drawn.reward[:, :2], first.reward[:, 8] + 0.5 * first.reward[:, 9])
    assert drawn.discount.tolist() == [[0.25, 0.25, 0.5, 0.5]] * 2
    assert torch.equal(drawn.next_obs, first.next_obs[:, [9, 9], :].flatten(1, 2))
    assert drawn.weight is None or bool((drawn.weight == 1).all())
