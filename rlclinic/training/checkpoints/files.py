"""Checkpoints of one member: written so that a kill leaves the previous one usable, read only if every byte is right.

checkpoints/<step>/policy.safetensors     weights and normalizers: all that acting needs
                   optimizer.safetensors  moments and step count
                   loop.safetensors       env state, position, episode statistics
                   state.json             counters, schedule state, the byte offset in metrics.csv
                   replay/                what is remembered (see replay_files); only with the newest
                   manifest.json          sha256 of the files above; written last
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from rlclinic import plain_files
from rlclinic.actions import Action
from rlclinic.errors import CheckpointCorrupt
from rlclinic.runs import disk, lease
from rlclinic.training.checkpoints import replay_files, tables
from rlclinic.training.checkpoints.replay_files import LARGEST_MANIFEST, Remembered

FILES: Final = ("policy.safetensors", "optimizer.safetensors", "loop.safetensors", "state.json")
MANIFEST: Final = "manifest.json"
WAITING: Final = 8
"""Threads that wait for the disk at the same time."""
Tensors = dict[str, Tensor]


@dataclass
class Checkpoint:
    """One member at one env step. Tensors have no member axis."""

    policy: Tensors
    optimizer: Tensors
    loop: Tensors
    state: dict[str, Any] = field(default_factory=dict)
    replay: Remembered | None = None

    @property
    def env_steps(self) -> int:
        return int(self.state["env_steps"])


def write(run: Path, checkpoint: Checkpoint, *, best: bool, sync: bool = True) -> Path:
    """Write a checkpoint, point @last (and @best) at it, and drop all but the best, the last and the one before.

    sync: wait for the disk with every file. Without, the caller waits once for many checkpoints; the checksums find one cut short.
    """
    folder = run / "checkpoints"
    target = folder / str(checkpoint.env_steps)
    with disk.guarded(target):
        folder.mkdir(exist_ok=True)
        building = folder / f".{checkpoint.env_steps}.{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        try:
            _fill(building, replace(checkpoint, state=checkpoint.state | {"best": best}), sync)
            if checkpoint.replay is not None:
                replay_files.write(building, checkpoint.replay, (folder / "@last") if (folder / "@last").exists() else None)
            # A large one takes a while: its job may be another worker's by now.
            lease.check()
            # A name appears only with everything in it; a resume that comes through here again replaces its twin.
            shutil.rmtree(target, ignore_errors=True)
            building.rename(target)
        except (OSError, lease.LeaseLost):
            shutil.rmtree(building, ignore_errors=True)
            raise
    _point(run, checkpoint.env_steps, best=best)
    return target


def mend(run: Path, checkpoint: Checkpoint) -> None:
    """Name the newest checkpoint @last, and @best if it was to be: a kill may have come between it and its names."""
    _point(run, checkpoint.env_steps, best=bool(checkpoint.state.get("best")))


def _point(run: Path, step: int, *, best: bool) -> None:
    folder = run / "checkpoints"
    disk.point(folder / "@last", str(step))
    if best:
        disk.point(folder / "@best", str(step))
    _prune(folder)
    for other in steps(run):
        if other != step:
            replay_files.drop(folder / str(other))


def _fill(folder: Path, checkpoint: Checkpoint, sync: bool) -> None:
    contents = {
        "policy.safetensors": save_tensors(_contiguous(checkpoint.policy)),
        "optimizer.safetensors": save_tensors(_contiguous(checkpoint.optimizer)),
        "loop.safetensors": save_tensors(_contiguous(tables.pack(checkpoint.loop))),
        "state.json": json.dumps(checkpoint.state, indent=1).encode(),
    }
    manifest = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    with ExitStack() as files:
        written = []
        for name, data in [*contents.items(), (MANIFEST, json.dumps(manifest, indent=1).encode())]:
            file = files.enter_context((folder / name).open("wb"))
            file.write(data)
            file.flush()
            written.append(file.fileno())
        if sync:
            _at_once(os.fsync, written)


def read(path: Path, *, replay: bool = False) -> Checkpoint:
    """Read a checkpoint after checking every file against the manifest; CheckpointCorrupt says what is wrong.

    replay: also what is remembered, where that was saved and is whole; without it a run can still go on, from new experience.
    """
    try:
        manifest = json.loads(plain_files.read_bytes(path / MANIFEST, LARGEST_MANIFEST))
        contents = {name: plain_files.read_bytes(path / name) for name in FILES}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointCorrupt(*_describe_damage(path, f"it is incomplete ({error})")) from error
    if not isinstance(manifest, dict):
        raise CheckpointCorrupt(*_describe_damage(path, f"{MANIFEST} is not what was written"))
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest.get(name):
            raise CheckpointCorrupt(*_describe_damage(path, f"{name} is not what was written (its checksum differs)"))
    try:
        policy, optimizer, loop = (load_tensors(contents[name]) for name in FILES[:3])
        counters, remembered = json.loads(contents["state.json"]), replay_files.read(path) if replay else None
        return Checkpoint(policy, optimizer, tables.unpack(loop), counters, remembered)
    except (SafetensorError, ValueError, RecursionError) as error:
        raise CheckpointCorrupt(*_describe_damage(path, str(error))) from error


def steps(run: Path) -> list[int]:
    """Env steps of all checkpoints of a run, rising; whole or not is for `read` to say."""
    folder = run / "checkpoints"
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def newest(run: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, and a message for each newer one that had to be passed over."""
    passed: list[str] = []
    for step in reversed(steps(run)):
        try:
            return read(run / "checkpoints" / str(step), replay=True), passed
        except CheckpointCorrupt as error:
            passed.append(str(error))
    return None, passed


def _contiguous(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _prune(folder: Path) -> None:
    kept = {str((folder / link).readlink()) for link in ("@best", "@last") if (folder / link).is_symlink()}
    entries = list(folder.iterdir())
    numbered = sorted((path for path in entries if path.name.isdigit()), key=lambda path: int(path.name))
    for path in numbered[:-2]:
        if path.name not in kept:
            _remove(path)
    # What a killed process was building: the run's lock is ours, so nobody is building it any more.
    for path in entries:
        if path.name.startswith("."):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    """A folder and all that is in it, as far as it can be removed."""

    def unlink(file: Path) -> None:
        with suppress(OSError):
            file.unlink()

    _at_once(unlink, [path for path in folder.rglob("*") if not path.is_dir()])
    shutil.rmtree(folder, ignore_errors=True)


def _at_once(call: Callable[[Any], None], each: Sequence[Any]) -> None:
    """Calls that wait for the disk, together: it writes its journal once for all of them, where each alone would wait for a turn."""
    with ThreadPoolExecutor(WAITING) as pool:
        list(pool.map(call, each))


def _describe_damage(path: Path, what: str) -> tuple[str, ...]:
    return (
        f"checkpoint {path} cannot be used: {what}.\n"
        "  Training from it would go on from numbers that no run ever had.\n  An earlier one is used where there is one: ",
        Action("runs checkpoints", path.parent.parent.name),
    )
