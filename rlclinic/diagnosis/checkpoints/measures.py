"""What can be read off saved weights: norms, changes, rank, and units that no longer do anything."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rlclinic.diagnosis.checkpoints.files import Array, Saved, Tensors

Matrix = NDArray[np.float64]
LARGEST_SIDE: Final = 1024
"""Larger matrices are not decomposed: it would take longer than the rest of a diagnosis."""
DRAWN: Final = 256
SATURATED: Final = 0.97
"""|tanh| above this passes less than 6 % of a gradient."""
_BOUNDED: Final = ("tanh", "sigmoid")
_ACTIVATIONS: Final[dict[str, Callable[[Matrix], Matrix]]] = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.01 * z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0.0))),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
}


@dataclass(frozen=True)
class Layer:
    """One tensor of a checkpoint."""

    name: str
    shape: tuple[int, ...]
    norm: float
    change: float | None
    """Norm of the difference to the checkpoint before, as a share of the norm; None without one."""
    rank: float | None
    """Effective rank: exp of the entropy of the singular values (Roy and Vetterli 2007); None for vectors."""
    not_finite: int


def layers(saved: Saved, before: Saved | None) -> list[Layer]:
    """Every weight tensor of a checkpoint, in order of names."""
    return [_layer(name, value, None if before is None else before.weights.get(name)) for name, value in sorted(saved.weights.items())]


def _layer(name: str, value: Array, before: Array | None) -> Layer:
    bad = int(value.size - np.isfinite(value).sum()) if value.dtype.kind == "f" else 0
    numbers = value.astype(np.float64)
    norm = float(np.linalg.norm(numbers))
    comparable = before is not None and before.shape == value.shape and bad == 0
    change = float(np.linalg.norm(numbers - np.asarray(before, dtype=np.float64))) / max(norm, 1e-12) if comparable else None
    return Layer(name, tuple(value.shape), norm, change, None if bad else effective_rank(numbers), bad)


def effective_rank(matrix: Matrix) -> float | None:
    """How many directions a matrix uses, 1 to its smaller side; None for vectors, empty and huge ones."""
    if matrix.ndim != 2 or min(matrix.shape) < 2 or max(matrix.shape) > LARGEST_SIDE:
        return None
    singular = np.linalg.svd(matrix, compute_uv=False)
    total = float(singular.sum())
    if not total > 0:
        return 0.0
    share = singular[singular > 0] / total
    return float(math.exp(-float(np.sum(share * np.log(share)))))


def is_same(one: Array, other: Array) -> bool:
    """Bit for bit."""
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


# ── units ──


@dataclass(frozen=True)
class Units:
    """The hidden layer of a trunk, seen through observations."""

    name: str
    width: int
    dead: int
    """Units that give the same for all observations."""
    saturated: int
    """Units at the end of their range for nearly all of them (tanh and sigmoid only)."""


def units(saved: Saved, net: Mapping[str, Any], obs: Matrix) -> list[Units]:
    """Every hidden layer of every trunk on observations [rows, D] as the network sees them; [] where shapes do not fit."""
    activation = str(net.get("activation", "tanh"))
    layers_seen = []
    for trunk in ("actor", "critic", "trunk"):
        x, place = obs, 0
        while (weight := saved.policy.get(f"{trunk}.{place}.weight")) is not None and weight.ndim == 2 and weight.shape[0] == x.shape[1]:
            x = _activate(activation, _affine(saved.policy, f"{trunk}.{place}", x, weight))
            layers_seen.append(_count(f"{trunk}.{place}", activation, x))
            place += 1
    return layers_seen


def _affine(policy: Tensors, name: str, x: Matrix, weight: Array) -> Matrix:
    z = x @ weight.astype(np.float64)
    bias, scale, shift = (policy.get(f"{name}.{part}") for part in ("bias", "scale", "shift"))
    z = z + bias.astype(np.float64).reshape(-1) if bias is not None and bias.size == z.shape[1] else z
    if scale is None or shift is None or scale.size != z.shape[1] or shift.size != z.shape[1]:
        return z
    z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)
    return np.asarray(z * scale.reshape(-1) + shift.reshape(-1), dtype=np.float64)


def _activate(name: str, z: Matrix) -> Matrix:
    with np.errstate(all="ignore"):
        made = _ACTIVATIONS[name](z) if name in _ACTIVATIONS else z
    return np.asarray(made, dtype=np.float64)


def _count(name: str, activation: str, x: Matrix) -> Units:
    spread = x.std(0)
    dead = int((spread <= 1e-6 * max(float(np.abs(x).max(initial=0.0)), 1e-12)).sum())
    if activation not in _BOUNDED:
        return Units(name, x.shape[1], dead, 0)
    size = np.abs(x) if activation == "tanh" else np.abs(2 * x - 1)
    return Units(name, x.shape[1], dead, int(((size > SATURATED).mean(0) > 0.9).sum()))


def observations(saved: Sequence[Saved], clip: float) -> tuple[Matrix, str]:
    """Observations as the network sees them: those saved with the checkpoints, and draws from the normalizer where there is one.

    Also says what they are; [0, 0] if nothing was saved.
    """
    batches = [flat for each in saved if (flat := rows(each.loop.get("obs"))) is not None]
    width = batches[-1].shape[1] if batches else 0
    seen = np.concatenate([batch for batch in batches if batch.shape[1] == width]) if batches else np.empty((0, 0))
    moments = normalizer(saved[-1]) if saved else None
    if moments is None or (width and len(moments[0]) != width):
        return seen, f"{len(seen)} saved observations"
    mean, deviation = moments
    drawn = np.random.default_rng(0).standard_normal((DRAWN, len(mean)))
    scaled = (seen - mean) / deviation if width else np.empty((0, len(mean)))
    joined = np.clip(np.concatenate([scaled, drawn]), -clip, clip)
    return joined, f"{len(seen)} saved observations and {DRAWN} draws from the normalizer"


def rows(obs: Array | None) -> Matrix | None:
    """Observations [envs, ...] as rows; None if there are none, or one of them is not finite."""
    if obs is None or obs.ndim < 2 or obs.shape[0] == 0 or not np.isfinite(obs).all():
        return None
    return np.asarray(obs, dtype=np.float64).reshape(obs.shape[0], -1)


def normalizer(saved: Saved) -> tuple[Matrix, Matrix] | None:
    """Mean and deviation of observations, if the run normalizes them and they can be used."""
    mean, var = saved.policy.get("obs_stats.mean"), saved.policy.get("obs_stats.var")
    if mean is None or var is None or mean.shape != var.shape or not (np.isfinite(mean).all() and np.isfinite(var).all()):
        return None
    return np.asarray(mean, dtype=np.float64).reshape(-1), np.sqrt(np.maximum(np.asarray(var, dtype=np.float64).reshape(-1), 1e-12))
