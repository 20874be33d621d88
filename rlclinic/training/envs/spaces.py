"""Gymnasium's spaces as flat float32 observations or images, and an ActionSpec. Free of torch, so that env workers start fast."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic.errors import ConfigError
from rlclinic.training.envs import images
from rlclinic.training.envs.base import ActionSpec, Picture
from rlclinic.training.envs.images import Write
from rlclinic.training.envs.reports import OutOfSpace, WrongShape


@dataclass(frozen=True)
class Observations:
    """How one env's observation becomes an array."""

    shape: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray
    write: Write | None
    """Writes an observation into its row; None where plain assignment does it."""
    dtype: str = "float32"
    """uint8 for images that are bytes."""
    picture: Picture | None = None


@dataclass(frozen=True)
class Actions:
    """How a row of training's actions becomes what env.step() takes."""

    spec: ActionSpec
    decode: Callable[[np.ndarray], Iterable[Any]]
    """[N] or [N, K] int64, or raw float32 [N, dim], to N actions of the env's own shape and type."""


def observations(space: Space[Any], env_id: str) -> Observations:
    """How observations are written; ConfigError for spaces that no network takes."""
    found = _observations(space, env_id)
    if not np.prod(found.shape):
        raise ConfigError(
            f"{env_id} has the observation space {space}, which holds no number.\n"
            "  A policy that sees nothing could only act at random.\n"
            "  Try: observations with at least one number, a constant 0 if there is nothing to see"
        )
    return found


def _observations(space: Space[Any], env_id: str) -> Observations:
    """Boxes keep their shape, images with the channels last; all else becomes a vector: one-hot Discrete, and Dict or Tuple one
    part after another. A Dict with images becomes one image and a vector of the rest."""
    image = images.find(space)
    if image is not None:
        return Observations(image.shape, image.low, image.high, image.write, image.dtype, Picture(*image.shape))
    if isinstance(space, spaces.Dict):
        found = {key: image for key, sub in space.spaces.items() if (image := images.find(sub)) is not None}
        if found:
            return _split_images(space, found, env_id)
    if isinstance(space, spaces.Box) and space.shape:
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        return Observations(space.shape, low, high, None)
    part = _part(space, env_id, "")
    return Observations((part.size,), part.low, part.high, part.write)


def images_of(shape: tuple[int, ...]) -> Observations:
    """Images of bytes [height, width, channels] that need no translation."""
    height, width, channels = shape
    low, high = np.zeros(shape, np.float32), np.full(shape, 255, np.float32)
    return Observations(shape, low, high, None, "uint8", Picture(height, width, channels))


def _split_images(space: spaces.Dict, found: dict[str, images.Image], env_id: str) -> Observations:
    """A Dict's images as one, and behind it in the same row the rest as float32; in the image's own type, so that one array holds both."""
    picture, dtype, write_image = images.join(found, env_id)
    rest = _join([(key, _part(sub, env_id, f".{key}")) for key, sub in space.spaces.items() if key not in found])
    picture = replace(picture, vector=rest.size)
    size, square = picture.size, (picture.height, picture.width, picture.channels)
    tail = rest.size * 4 // np.dtype(dtype).itemsize
    numbers = np.empty(rest.size, np.float32)

    def write(row: np.ndarray, value: Any) -> None:
        write_image(row[:size].reshape(square), value)
        rest.write(numbers, value)
        if not np.isfinite(numbers).all():  # among bytes nobody would see it
            raise ValueError(f"a number beside the image is {numbers[~np.isfinite(numbers)][0]}")
        row[size:] = numbers.view(dtype)

    if not rest.size:
        low, high = (np.concatenate([getattr(image, bound) for image in found.values()], -1) for bound in ("low", "high"))
        return Observations(square, low, high, write_image, dtype, picture)
    # Bounds say nothing about a number's single bytes.
    bounds = np.full(size + tail, np.inf, np.float32)
    return Observations((size + tail,), -bounds, bounds, write, dtype, picture)


def actions(space: Space[Any], env_id: str) -> Actions:
    """How to act in the space; Dict, Tuple and other nested action spaces are refused."""
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        shift = (lambda rows: rows) if first == 0 else (lambda rows: rows + first)
        return Actions(ActionSpec("discrete", (int(space.n),)), shift)
    if isinstance(space, spaces.MultiDiscrete):
        return _multi_discrete(space)
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        spec = ActionSpec("multi_binary", (2,) * int(np.prod(shape)))
        return Actions(spec, lambda rows: rows.astype(np.int8).reshape(-1, *shape))
    if isinstance(space, spaces.Box):
        return _box(space)
    raise ConfigError(
        f"{env_id} has the action space {space}, which training cannot act in.\n"
        "  Policies here choose from Discrete, MultiDiscrete, MultiBinary and Box spaces.\n"
        '  Try: a wrapper that flattens it, in env.wrappers: [{id: "module:Class"}]'
    )


def _multi_discrete(space: spaces.MultiDiscrete) -> Actions:
    shape, dtype, first = space.nvec.shape, space.dtype, space.start.ravel()
    spec = ActionSpec("multi_discrete", tuple(int(n) for n in space.nvec.ravel()))
    return Actions(spec, lambda rows: (rows + first).astype(dtype).reshape(-1, *shape))


def _box(space: spaces.Box) -> Actions:
    shape, dtype = space.shape, space.dtype
    low, high = space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel()
    spec = ActionSpec("box", (int(np.prod(shape)),), low, high)
    whole = np.issubdtype(dtype, np.integer)

    def decode(rows: np.ndarray) -> np.ndarray:
        rows = np.clip(rows, low, high)
        return (np.rint(rows) if whole else rows).astype(dtype, copy=False).reshape(-1, *shape)

    return Actions(spec, decode)


@dataclass(frozen=True)
class _Part:
    """A piece of a flat observation: its width, bounds and how it is written."""

    size: int
    low: np.ndarray
    high: np.ndarray
    write: Write


def _part(space: Space[Any], env_id: str, field: str) -> _Part:
    if isinstance(space, spaces.Box):
        return _Part(int(np.prod(space.shape)), _flat(space.low), _flat(space.high), _write_values(space.shape, field))
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return _Part(size, np.zeros(size, np.float32), np.ones(size, np.float32), _write_values(space.shape, field))
    if isinstance(space, spaces.Discrete):
        return _one_hot(np.array([space.n]), np.array([space.start]), field)
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.ravel(), space.start.ravel(), field)
    if isinstance(space, spaces.Dict):
        return _join([(key, _part(sub, env_id, f"{field}.{key}")) for key, sub in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return _join([(index, _part(sub, env_id, f"{field}.{index}")) for index, sub in enumerate(space.spaces)])
    where = f"field {field[1:]} of its observation" if field else "observation"
    raise ConfigError(
        f"{env_id} has a {type(space).__name__} space as {where}: {space}.\n"
        "  It has no fixed number of values, so no network could take it.\n"
        '  Try: a wrapper that turns it into a Box, in env.wrappers: [{id: "module:Class"}]'
    )


def _join(named: list[tuple[Any, _Part]]) -> _Part:
    """Parts one after another: what gymnasium.spaces.flatten gives, in the space's own order of keys."""
    places, at = [], 0
    for key, part in named:
        places.append((key, slice(at, at + part.size), part.write))
        at += part.size

    def write(row: np.ndarray, value: Any) -> None:
        for key, place, write_part in places:
            write_part(row[place], value[key])

    empty = np.empty(0, np.float32)
    low, high = (np.concatenate([empty, *(getattr(part, bound) for _, part in named)]) for bound in ("low", "high"))
    return _Part(at, low, high, write)


def _one_hot(sizes: np.ndarray, first: np.ndarray, field: str) -> _Part:
    total = int(sizes.sum())
    begins = np.concatenate(([0], np.cumsum(sizes)[:-1]))

    def write(row: np.ndarray, value: Any) -> None:
        if np.size(value) != len(begins):
            raise WrongShape(np.shape(value), begins.shape if len(begins) > 1 else (), _called(field))
        which = np.ravel(value) - first
        if (which < 0).any() or (which >= sizes).any():  # it would mark another state, or a number of the next part
            raise OutOfSpace(f"{_called(field)} that is {value}, but its observation_space has the numbers {_describe(first, sizes)}")
        row[...] = 0.0
        row[which + begins] = 1.0

    return _Part(total, np.zeros(total, np.float32), np.ones(total, np.float32), write)


def _write_values(shape: tuple[int, ...], field: str) -> Write:
    def write(row: np.ndarray, value: Any) -> None:
        # A single number may come with or without axes; anything else would be repeated, or taken in another order.
        if np.shape(value) != shape and not np.size(value) == row.size == 1:
            raise WrongShape(np.shape(value), shape, _called(field))
        row[...] = np.ravel(value)

    return write


def _describe(first: np.ndarray, sizes: np.ndarray) -> str:
    return " and ".join(f"{low} to {low + size - 1}" for low, size in zip(first.tolist(), sizes.tolist(), strict=True))


def _called(field: str) -> str:
    return f"a field {field[1:]} of an observation" if field else "an observation"


def _flat(bound: np.ndarray) -> np.ndarray:
    return np.asarray(bound, dtype=np.float32).ravel()
