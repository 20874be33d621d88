"""Checkpoints for tests: written as training writes them, with the one thing changed that a check is about."""

import hashlib
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from rlclinic.config import files
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store

SIZES = (4, 64, 64)
STEPS_PER_ENV_STEP = 0.1

Files = dict[str, dict[str, Any]]
Change = Callable[[Files, int], None]


def orthogonal(rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    q, _ = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    return (np.sqrt(2) * (q if rows >= columns else q.T)).astype(np.float32)


def network(seed: int) -> dict[str, np.ndarray]:
    """Actor and critic as they start out."""
    rng = np.random.default_rng(seed)
    found = {}
    for trunk in ("actor", "critic"):
        for place, (before, after) in enumerate(pairwise(SIZES)):
            found[f"{trunk}.{place}.weight"] = orthogonal(before, after, rng)
            found[f"{trunk}.{place}.bias"] = (0.01 * rng.standard_normal((1, after))).astype(np.float32)
    found |= {"policy.weight": 0.1 * orthogonal(2, 64, rng), "policy.bias": np.full((1, 2), 0.01, np.float32)}
    return found | {"value.weight": orthogonal(1, 64, rng), "value.bias": np.full(1, 0.1, np.float32)}


def contents(step: int, seed: int) -> Files:
    """Everything that a healthy checkpoint at an env step holds."""
    rng = np.random.default_rng([seed, step])
    policy = {name: value + (1e-6 * step * rng.standard_normal(value.shape)).astype(np.float32) for name, value in network(seed).items()}
    size = sum(value.size for value in policy.values())
    obs = rng.standard_normal((8, 4)).astype(np.float32)
    policy |= {
        "obs_stats.count": np.array([float(step)]),
        "obs_stats.mean": np.zeros(4),
        "obs_stats.var": np.ones(4),
    }
    optimizer = {
        "mean": (1e-3 * rng.standard_normal(size)).astype(np.float32),
        "square": (1e-6 * rng.random(size) + 1e-9).astype(np.float32),
        "steps": np.array([STEPS_PER_ENV_STEP * step], np.float32),
    }
    return {"policy": policy, "optimizer": optimizer, "loop": {"obs": obs}, "state": {"env_steps": step}}


def write(folder: Path, made: Files) -> Path:
    """One checkpoint folder with its manifest."""
    folder.mkdir(parents=True)
    data = {f"{name}.safetensors": save(_whole(made[name])) for name in ("policy", "optimizer", "loop")}
    data["state.json"] = json.dumps(made["state"]).encode()
    manifest = {name: hashlib.sha256(each).hexdigest() for name, each in data.items()}
    for name, each in {**data, "manifest.json": json.dumps(manifest).encode()}.items():
        (folder / name).write_bytes(each)
    return folder


def _whole(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(value) for name, value in tensors.items()}


def make_run(root: Path, change: Change | None = None, seed: int = 0, steps: tuple[int, ...] = (10_000, 20_000, 30_000)) -> Run:
    """A run with checkpoints. `change` gets the contents of each and its place, counted from the last (0, -1, -2)."""
    config = files.load("CartPole-v1:ppo_zoo", []).config.model_copy(update={"seed": seed})
    run = Store(root).create_group([config]).runs[0]
    for place, step in enumerate(steps):
        made = contents(step, seed)
        if change is not None:
            change(made, place - len(steps) + 1)
        write(run.path / "checkpoints" / str(step), made)
    return Run(run.path)
