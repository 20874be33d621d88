"""Checkpoints as numpy arrays, read without torch and without trust: what does not fit its manifest is said, never raised."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from rlclinic import plain_files
from rlclinic.runs.record import MANIFEST, Checkpoint

Array = NDArray[Any]
Tensors = Mapping[str, Array]

POLICY, OPTIMIZER, LOOP, STATE = "policy.safetensors", "optimizer.safetensors", "loop.safetensors", "state.json"
LARGEST_BYTES: Final = 512_000_000
"""A file that is larger is not read: the answer must not wait for it, nor memory suffer."""


@dataclass(frozen=True)
class Saved:
    """One checkpoint as it lies on the disk. A file that cannot be read is an empty mapping, and `problems` says why."""

    step: int
    path: Path
    policy: Tensors = field(default_factory=dict)
    optimizer: Tensors = field(default_factory=dict)
    loop: Tensors = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def weights(self) -> dict[str, Array]:
        """The network's tensors: all of the policy file but the normalizers' statistics."""
        return {name: value for name, value in self.policy.items() if not name.startswith(("obs_stats.", "reward_stats."))}

    @property
    def optimizer_steps(self) -> float | None:
        """Gradient steps that the optimizer counted; None if it does not say."""
        counted = [float(each.reshape(-1)[0]) for each in self.find_moments("steps") if each.size == 1 and bool(np.isfinite(each).all())]
        return max(counted, default=None)

    def find_moments(self, name: str) -> list[Array]:
        """An optimizer's numbers of this name; where every network has an optimizer of its own (`actor.mean`), those of all."""
        return [value for key, value in self.optimizer.items() if key.rpartition(".")[2] == name]


def read(checkpoint: Checkpoint) -> Saved:
    """Every file that can be read, and what is wrong with the others."""
    problems: list[str] = []
    contents = {name: data for name in (POLICY, OPTIMIZER, LOOP, STATE) if (data := _bytes(checkpoint.path / name, problems)) is not None}
    _compare(checkpoint.path, contents, problems)
    return Saved(
        step=checkpoint.step,
        path=checkpoint.path,
        policy=_tensors(POLICY, contents, problems),
        optimizer=_tensors(OPTIMIZER, contents, problems),
        loop=_tensors(LOOP, contents, problems),
        state=_state(contents, problems),
        problems=tuple(dict.fromkeys(problems)),
    )


def read_file(path: Path) -> Saved:
    """A plain .safetensors file of anyone's, as if it were a policy."""
    problems: list[str] = []
    data = _bytes(path, problems)
    tensors = _tensors(path.name, {} if data is None else {path.name: data}, problems)
    return Saved(step=0, path=path, policy=tensors, problems=tuple(problems))


def is_pickled(path: Path) -> bool:
    """A zip with PyTorch pickles inside, as Stable-Baselines3 saves models: reading it would run what it says."""
    return path.suffix in (".pt", ".pth", ".pkl", ".ckpt") or zipfile.is_zipfile(path)


def _bytes(path: Path, problems: list[str]) -> bytes | None:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            problems.append(f"{path.name} is larger than {LARGEST_BYTES // 1_000_000} MB and was not read")
            return None
        return plain_files.read_bytes(path)
    except OSError as error:
        problems.append(f"{path.name} cannot be read ({error.strerror or type(error).__name__})")
        return None


def _compare(path: Path, contents: Mapping[str, bytes], problems: list[str]) -> None:
    """The bytes against the manifest, which is written last: without one the checkpoint was never finished."""
    manifest = _json(_bytes(path / MANIFEST, problems))
    if manifest is None:
        problems.append(f"{MANIFEST} is missing or not what was written: the checkpoint was never finished")
        return
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest.get(name):
            problems.append(f"{name} is not what was written: its checksum differs")


def _tensors(name: str, contents: Mapping[str, bytes], problems: list[str]) -> dict[str, Array]:
    if name not in contents:
        return {}
    try:
        tensors = load_tensors(contents[name])
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        problems.append(f"{name} is no safetensors file that numpy can read ({error})")
        return {}
    return {key: value for key, value in tensors.items() if value.dtype.kind in "fiub"}


def _state(contents: Mapping[str, bytes], problems: list[str]) -> Mapping[str, Any]:
    state = _json(contents.get(STATE))
    if state is None and STATE in contents:
        problems.append(f"{STATE} is not JSON")
    return state or {}


def _json(data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
