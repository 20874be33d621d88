"""A member's replay on disk: segments of rows, of which only those that changed since the last checkpoint are written again.

<checkpoint>/replay/0000.safetensors …   65,536 rows each, in the order in which they lie in memory
                    rest.safetensors     what belongs to no row: priorities, final observations, counters
                    manifest.json        sha256 of the files above, and how many transitions were ever stored; written last

Only the newest checkpoint has one: an older one would cost as much disk and be needed by nobody but a fork from there.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from rlclinic import plain_files
from rlclinic.training.data import prioritized, replay
from rlclinic.training.data.replay import Replay, Shape

FOLDER: Final = "replay"
MANIFEST: Final = "manifest.json"
REST: Final = "rest.safetensors"
SEGMENT: Final = 65_536
LARGEST_MANIFEST: Final = 4 << 20
"""Bytes; no manifest that was written here has as many."""


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


def objection(memory: Replay, saved: Sequence[Remembered | None], n_envs: int) -> str | None:
    """Why what members remembered, of n_envs environments each, cannot be put into this memory; None if it can (see `fit`)."""
    there = [each for each in saved if each is not None]
    if len(there) < len(saved):
        return "it was not saved with that checkpoint: only a run's newest one has it, unless run.save_replay=false"
    first, shape = there[0], memory.shape
    if any((each.stored, each.capacity) != (first.stored, first.capacity) for each in there):
        return "the runs' replays have different sizes"
    if ("once.ring" in first.rows) != shape.once:
        return "algo.optimize_memory_usage was another"
    if ("images.obs" in first.rows) != (memory.images is not None) or first.rows["table"].shape[1] != shape.width:
        return "its rows hold other observations or actions"
    apart = {"images.obs": shape.images and not shape.once, "once.ring": shape.once}
    if any(wanted and tuple(first.rows[name].shape[1:]) != shape.obs_shape for name, wanted in apart.items()):
        return "its rows hold other observations"
    if n_envs != shape.n_envs and shape.once:
        return f"with algo.optimize_memory_usage it is ordered by environments, and there were {n_envs} instead of {shape.n_envs}"
    return None


def fit(saved: Remembered, shape: Shape, n_envs: int) -> Remembered:
    """What was remembered of n_envs environments, laid out for a memory of another capacity or with another number of environments.

    The newest rows are kept. Neighbours in time stay neighbours, and where the rows of one environment end in the middle of a column,
    they are marked as cut, so that no n-step window goes from one environment to another.
    """
    if (shape.rows, shape.n_envs) == (saved.capacity, n_envs):
        return saved
    start = saved.stored % saved.capacity if saved.stored > saved.capacity else 0
    order = (torch.arange(saved.size) + start) % saved.capacity  # oldest first
    ends = torch.empty(0, dtype=torch.int64)
    if n_envs == shape.n_envs:
        order = order[-shape.rows :]
    else:
        # One environment after the other, each with its newest steps, then cut into as many columns as there are environments now.
        by_env = order.view(-1, n_envs)[-math.ceil(shape.rows / n_envs) :].T  # [old envs, steps]
        kept = min(by_env.numel(), shape.rows) // shape.n_envs * shape.n_envs
        order, ends = by_env.flatten()[by_env.numel() - kept :].view(shape.n_envs, kept // shape.n_envs).T.flatten(), by_env[:, -1]
    rows = {name: tensor[order] for name, tensor in saved.rows.items()}
    cells = replay.cells_of(shape)
    table, last = rows["table"].clone(), torch.isin(order, ends) & (rows["table"][:, cells["terminated"].start] == 0)
    table[last, cells["truncated"].start] = 1.0
    rest = dict(saved.rest)
    if "tree.leaves" in rest:
        rest["tree.leaves"] = rest["tree.leaves"][order]
    fitted = Remembered({**rows, "table": table}, rest, len(order), shape.rows)
    return _fit_finals(fitted, shape.finals) if shape.once else fitted


def _fit_finals(saved: Remembered, room: int) -> Remembered:
    """The final observations of cut episodes for another number of places: the newest are kept, numbered from 0, and the others unknown."""
    cuts, finals, number = int(saved.rest["once.cuts"]), saved.rest["once.finals"], saved.rows["once.number"]
    kept = min(cuts, room, len(finals))
    first = cuts - kept
    placed = torch.zeros(room, *finals.shape[1:], dtype=finals.dtype)
    placed[:kept] = finals[torch.arange(first, cuts) % len(finals)]
    # A number below all that can be kept says that the observation is lost, as an overwritten one does.
    renumbered = torch.where(number < 0, -1, torch.where(number >= first, number - first, -room - 1))
    rest = saved.rest | {"once.finals": placed, "once.cuts": torch.full_like(saved.rest["once.cuts"], kept)}
    return replace(saved, rows=saved.rows | {"once.number": renumbered}, rest=rest)


def put(memory: Replay, saved: Sequence[Remembered]) -> None:
    """Fill a fresh memory with what members remembered; it has to have its shape (see `fit`)."""
    memory.stored = saved[0].stored
    size, device = memory.size, memory.table.device
    for index, each in enumerate(saved):
        memory.table[index, :size] = each.rows["table"]
        if memory.images is not None:
            for name, tensor in memory.images._asdict().items():
                tensor[index, :size] = each.rows[f"images.{name}"]
        if memory.once is not None:
            once = memory.once
            once.ring[index, replay.in_ring(memory, torch.arange(size))] = each.rows["once.ring"]
            once.ring[index, replay.next_in_ring(memory)] = each.rest["once.next"]
            once.number[index, :size] = each.rows["once.number"]
            once.finals[index], once.cuts[index] = each.rest["once.finals"], each.rest["once.cuts"]
    if memory.tree is not None and "tree.leaves" in saved[0].rest:
        leaves = torch.stack([each.rest["tree.leaves"] for each in saved]).to(device)
        memory.tree = replay.refill(memory.tree, leaves, torch.stack([each.rest["tree.highest"] for each in saved]))
    elif memory.tree is not None:
        # They were drawn uniformly so far: all get the priority of rows that were never drawn.
        places = torch.arange(size, device=device).expand(len(saved), -1)
        valid = memory.table[:, :size, memory.cells["valid"].start] if memory.shape.marks_valid else None
        memory.tree = prioritized.add(memory.tree, places, valid)


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
            if Path(name).name != name:
                return None  # not what we write: it would lead out of the folder
            data = plain_files.read_bytes(source / name)
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
        found = json.loads(plain_files.read_bytes(source / MANIFEST, LARGEST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    whole = (
        isinstance(found, dict)
        and {"stored", "capacity", "files"} <= set(found)
        and isinstance(found["files"], dict)
        and REST in found["files"]
    )
    return found if whole else None


def drop(folder: Path) -> None:
    """Take a checkpoint's replay away: a newer one has its own."""
    if (folder / FOLDER).exists():
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
