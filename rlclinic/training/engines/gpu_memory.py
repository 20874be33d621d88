"""When a GPU's memory does not suffice: how many members would fit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from rlclinic.actions import Argument, Change
from rlclinic.errors import RunError

SPARE: Final = 0.9
"""The share of the memory that a cohort may take; the rest is the driver's and the libraries'."""
_UNITS: Final = {"MiB": 1 << 20, "GiB": 1 << 30, "KiB": 1 << 10, "bytes": 1}


@contextmanager
def enough_for(members: int) -> Iterator[None]:
    """Iteration running out of GPU memory into an error that says how many members fit."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        total, used = (torch.cuda.mem_get_info()[1], torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else (0, 0)
        raise RunError(*advice(members, total, used, str(error))) from error


def advice(members: int, total: int, used: int, said: str) -> tuple[str, ...]:
    """What happened and what to do, as parts of an error; `said` is PyTorch's message, which names the piece that was wanted last."""
    fits = fitting(members, total, used + wanted(said))
    return (
        f"{members} runs together do not fit into the GPU's {total / 2**30:.0f} GiB of memory.\n"
        f"  Nothing was trained beyond the last checkpoint.\n"
        f"  About {fits} fit: train them in groups of at most {fits} (",
        Argument("seeds", fits),
        "), or on the CPU: ",
        Change("run.device", "cpu", option="device"),
    )


def fitting(members: int, total: int, needed: int) -> int:
    """How many members fit, if so many need `needed` bytes: memory grows with their number."""
    return max(1, min(members - 1, int(members * SPARE * total / needed))) if needed else max(1, members // 2)


def wanted(said: str) -> int:
    """The size of the piece that could not be had, from PyTorch's message."""
    found = re.search(r"Tried to allocate ([\d.]+) (\w+)", said)
    return int(float(found[1]) * _UNITS.get(found[2], 1)) if found else 0
