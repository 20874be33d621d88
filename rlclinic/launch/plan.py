"""Which runs train together: cohorts of equal shape, spread over the cores."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final

from rlclinic.config import Config, shape_key
from rlclinic.errors import UsageError

MAX_MEMBERS: Final = 64
"""Members of a cohort on a CPU core: beyond this a larger batch no longer saves overhead, and memory grows."""


def plan(configs: Sequence[Config], cores: int, device: str = "cpu", gpus: int = 1) -> list[list[int]]:
    """Positions in `configs`, one list per cohort; each cohort is one process.

    Runs of one shape share a cohort. On a CPU they are split so that every core has work: 8 runs on 2 cores make 4 + 4.
    A GPU takes all runs of a shape at once; several GPUs, or parts of one, share them.
    """
    if not configs or cores < 1:
        raise UsageError(f"nothing to plan: {len(configs)} configs on {cores} cores")
    shapes: dict[tuple[object, ...], list[int]] = {}
    for position, config in enumerate(configs):
        shapes.setdefault(shape_key(config), []).append(position)
    if device != "cpu":
        return [cohort for members in shapes.values() for cohort in _split(members, ceil(len(configs) / gpus))]
    share = ceil(len(configs) / cores)
    return [cohort for members in shapes.values() for cohort in _split(members, min(share, MAX_MEMBERS))]


def _split(members: list[int], size: int) -> list[list[int]]:
    """Pieces of at most `size`, as equal as can be: the slowest piece decides when a group is ready."""
    pieces = ceil(len(members) / size)
    bounds = [round(index * len(members) / pieces) for index in range(pieces + 1)]
    return [members[start:end] for start, end in pairwise(bounds)]
