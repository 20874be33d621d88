"""Images in observations: which boxes are images, and how they are laid out in a row. Free of torch, so that env workers start fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rlclinic.errors import ConfigError
from rlclinic.training.envs.base import Picture
from rlclinic.training.envs.reports import WrongShape

Write = Callable[[np.ndarray, Any], None]


@dataclass(frozen=True)
class Image:
    """One image: its size with the channels last, how its bounds lie, and how it is written into [H, W, C]."""

    shape: tuple[int, int, int]
    dtype: str
    low: np.ndarray
    high: np.ndarray
    write: Write | None
    """None where plain assignment does it."""


def find(space: Space[Any]) -> Image | None:
    """The image that a box of three axes is, or a box of bytes with two; None for everything else.

    The channels are the last axis if it is shorter than the first one, else the first. Bytes stay bytes until the network, which
    divides them by 255; other numbers become float32 and are taken as they are.
    """
    if not isinstance(space, spaces.Box) or 0 in space.shape:
        return None
    dtype = "uint8" if space.dtype == np.uint8 else "float32"
    if len(space.shape) == 2 and dtype == "uint8":
        return _lay_out(space, dtype, lambda image: np.expand_dims(image, -1))
    if len(space.shape) != 3:
        return None
    if space.shape[2] < space.shape[0]:
        return _lay_out(space, dtype, None)
    return _lay_out(space, dtype, lambda image: np.moveaxis(image, 0, -1))


def _lay_out(space: spaces.Box, dtype: str, turn: Callable[[np.ndarray], np.ndarray] | None) -> Image:
    low, high = (
        np.asarray(bound, dtype=np.float32) if turn is None else turn(bound.astype(np.float32)) for bound in (space.low, space.high)
    )
    height, width, channels = low.shape

    def write(row: np.ndarray, value: Any) -> None:
        if np.shape(value) != space.shape:
            raise WrongShape(np.shape(value), space.shape)
        row[...] = turn(np.asarray(value))  # type: ignore[misc]

    return Image((height, width, channels), dtype, low, high, None if turn is None else write)


def join(named: Mapping[str, Image], env_id: str) -> tuple[Picture, str, Write]:
    """The images of a Dict side by side as channels of one; they must have one size and one type."""
    sizes = {key: f"{'x'.join(map(str, image.shape))} {image.dtype}" for key, image in named.items()}
    if len({(*image.shape[:2], image.dtype) for image in named.values()}) > 1:
        raise ConfigError(
            f"{env_id} has images of different kinds in its observation: {', '.join(f'{key} {text}' for key, text in sizes.items())}.\n"
            "  They become the channels of one image, so height, width and type must be equal.\n"
            "  Try: a wrapper that resizes them or leaves one out, in env.wrappers: [ResizeObservation, ...]"
        )
    places, at = [], 0
    for key, image in named.items():
        places.append((key, slice(at, at + image.shape[2]), image.write))
        at += image.shape[2]
    height, width, _ = next(iter(named.values())).shape

    def write(row: np.ndarray, value: Any) -> None:
        for key, place, write_one in places:
            if write_one is None:
                if np.shape(value[key]) != row[..., place].shape:
                    raise WrongShape(np.shape(value[key]), row[..., place].shape, f"a field {key} of an observation")
                row[..., place] = value[key]
            else:
                write_one(row[..., place], value[key])

    return Picture(height, width, at), next(iter(named.values())).dtype, write
