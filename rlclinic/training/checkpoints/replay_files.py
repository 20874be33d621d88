"""A member's replay on disk: segments of rows, of which only those that changed since the last checkpoint are written again.

<checkpoint>/replay/0000.safetensors …   65,536 rows each, in the order in which they lie in memory
                    rest.safetensors     what belongs to no row: priorities, final observations, counters
                    manifest.json        sha256 of the files above, and how many transitions were ever stored; written last

Only the newest checkpoint has one: an older one would cost as much disk and be needed by nobody but a fork from there.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from rlclinic.training.data import replay
from rlclinic.training.data.replay import Replay

FOLDER: Final = "replay"
MANIFEST: Final = "manifest.json"
REST: Final = "rest.safetensors"
SEGMENT: Final = 65_536


@dataclass(frozen=True)
class Remembered:
    """One member's replay: tensors with a row axis of `size`, those without, and the counters."""

    rows: dict[str, Tensor]
    rest: dict[str, Tensor]
    stored: int
    capacity: int

    @property
    def size(self) -> int:
        return min(self.stored, self.capacity)


def take(memory: Replay, index: int) -> Remembered:
    """One member's part of a cohort's memory; views, to be written before anything else is remembered."""
    size = memory.size
    rows, rest = {"table": memory.table[index, :size]}, dict[str, Tensor]()
    if memory.images is not None:
        rows |= {f"images.{name}": tensor[index, :size] for name, tensor in memory.images._asdict().items()}
    if memory.once is not None:
        places = replay.in_ring(memory, torch.arange(size, device=memory.table.device))
        rows |= {"once.ring": memory.once.ring[index, places], "once.number": memory.once.number[index, :size]}
        rest |= {
            "once.finals": memory.once.finals[index],
            "once.cuts": memory.once.cuts[index],
            "once.next": memory.once.ring[index, replay.next_in_ring(memory)],
        }
    if memory.tree is not None:
        first = memory.tree.leaves
        rest |= {"tree.leaves": memory.tree.nodes[index, first : first + size], "tree.highest": memory.tree.highest[index]}
    return Remembered(rows, rest, memory.stored, memory.shape.rows)


def put(memory: Replay, found: list[Remembered]) -> None:
    """Fill a fresh memory with what members remembered. Another capacity keeps the newest rows."""
    first = found[0]
    if memory.shape.rows != first.capacity and first.stored > first.capacity:
        found = [_turned(each, memory.shape.rows) for each in found]
        first = found[0]
    memory.stored, size = first.stored, min(first.stored, first.capacity)
    for index, each in enumerate(found):
        memory.table[index, :size] = each.rows["table"]
        if memory.images is not None:
            for name, tensor in memory.images._asdict().items():
                tensor[index, :size] = each.rows[f"images.{name}"]
        if memory.once is not None:
            _put_once(memory, index, each, size)
    if memory.tree is not None:
        leaves = torch.stack([each.rest["tree.leaves"] for each in found]).to(memory.table.device)
        memory.tree = replay.refilled(memory.tree, leaves, torch.stack([each.rest["tree.highest"] for each in found]))


def _put_once(memory: Replay, index: int, each: Remembered, size: int) -> None:
    once = memory.once
    assert once is not None
    places = replay.in_ring(memory, torch.arange(size))
    once.ring[index, places] = each.rows["once.ring"]
    once.ring[index, replay.next_in_ring(memory)] = each.rest["once.next"]
    once.number[index, :size] = each.rows["once.number"]
    once.finals[index], once.cuts[index] = each.rest["once.finals"], each.rest["once.cuts"]


def _turned(each: Remembered, capacity: int) -> Remembered:
    """The same rows, oldest first, and the newest of them where there is less room."""
    start = each.stored % each.capacity
    order = (torch.arange(each.capacity) + start) % each.capacity
    order = order[max(each.capacity - capacity, 0) :]
    rest = {**each.rest, **({"tree.leaves": each.rest["tree.leaves"][order]} if "tree.leaves" in each.rest else {})}
    return Remembered({name: rows[order] for name, rows in each.rows.items()}, rest, len(order), max(capacity, len(order)))


def fits(memory: Replay, each: Remembered) -> bool:
    """Whether saved rows can be put into this memory: the same columns, of as many envs."""
    same = each.rows["table"].shape[1] == memory.table.shape[2] and each.stored % memory.shape.n_envs == 0
    named = ("images.obs" in each.rows) == (memory.images is not None) and ("tree.leaves" in each.rest) == (memory.tree is not None)
    once = memory.once is None if "once.ring" not in each.rows else memory.once is not None and memory.shape.rows == each.capacity
    return same and named and once


def write(folder: Path, remembered: Remembered, before: Path | None) -> None:
    """Write a checkpoint's replay; segments that are as they were in the checkpoint `before` are linked, not copied."""
    target = folder / FOLDER
    target.mkdir()
    old = _manifest(before / FOLDER) if before is not None else None
    files: dict[str, str] = {}
    for start in range(0, remembered.size, SEGMENT):
        name = f"{start // SEGMENT:04}.safetensors"
        last = min(start + SEGMENT, remembered.size)
        if before is not None and old is not None and name in old["files"] and _same(old, remembered, start, last):
            os.link(before / FOLDER / name, target / name)
            files[name] = old["files"][name]
            continue
        files[name] = _write(target / name, {key: rows[start:last] for key, rows in remembered.rows.items()})
    files[REST] = _write(target / REST, remembered.rest)
    manifest = {"stored": remembered.stored, "capacity": remembered.capacity, "files": files}
    _store(target / MANIFEST, json.dumps(manifest, indent=1).encode())


def _same(old: dict[str, Any], now: Remembered, start: int, last: int) -> bool:
    """Whether no row from start to last was written since: the ring has come by neither."""
    if old["capacity"] != now.capacity or old["stored"] > now.stored or min(old["stored"], old["capacity"]) < last:
        return False
    first, count = old["stored"] % now.capacity, now.stored - old["stored"]
    if count >= now.capacity:
        return False
    written = [(first, min(first + count, now.capacity)), (0, max(first + count - now.capacity, 0))]
    return not any(a < last and start < b for a, b in written)


def _write(path: Path, tensors: dict[str, Tensor]) -> str:
    data = save_tensors({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    _store(path, data)
    return hashlib.sha256(data).hexdigest()


def _store(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path) -> Remembered | None:
    """The replay of a checkpoint; None where there is none, or where a byte of it is not what was written."""
    source = folder / FOLDER
    manifest = _manifest(source)
    if manifest is None:
        return None
    contents: dict[str, dict[str, Tensor]] = {}
    try:
        for name, digest in manifest["files"].items():
            data = (source / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != digest:
                return None
            contents[name] = load_tensors(data)
    except (OSError, SafetensorError):
        return None
    rest = contents.pop(REST)
    parts = [contents[name] for name in sorted(contents)]
    rows = {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}
    return Remembered(rows, rest, manifest["stored"], manifest["capacity"])


def _manifest(source: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((source / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"stored", "capacity", "files"} <= set(found) else None


def drop(folder: Path) -> None:
    """Take a checkpoint's replay away: a newer one has its own."""
    if (folder / FOLDER).exists():
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
