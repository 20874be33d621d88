"""Memory that ranks of one machine share: what one writes, the others read, without a way through the kernel's sockets.

Rank 0 makes it (memfd: it has no name that could be left behind, and ends with the processes), the others open it by rank 0's process
number. Whether it is really the same memory is not guessed from names of hosts, which containers share, but seen: a random number that
rank 0 has written there must be read by all. Where one cannot, all use their network.

Each rank has a slot of its own, twice: those of one message are read while those of the next are written. Who has read the slots of a
message says so by coming to the next one, so one meeting a message is enough.
"""

import mmap
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

HEADER_BYTES: Final = 64
FIRST_BYTES: Final = 1 << 16
"""Of a slot at the start; it grows with the largest message."""


class SharedMemory:
    """Slots for every rank's part of a message."""

    def __init__(self, buffer: Tensor, slot_bytes: int, world: int) -> None:
        self.slot_bytes = slot_bytes
        self._slots = buffer[HEADER_BYTES:].view(2, world, slot_bytes)
        self._turn = 0

    def write(self, rank: int, own: Tensor) -> None:
        """Put a rank's part of the next message into its slot."""
        self._turn = 1 - self._turn
        self._slots[self._turn, rank, : own.nbytes].copy_(_as_bytes(own))

    def read(self, like: Tensor) -> Tensor:
        """The parts of all ranks, [world, ...], as they lie in memory: to be read before the next message, not kept."""
        every = self._slots[self._turn, :, : like.nbytes]
        return every.view(like.dtype).view(len(every), *like.shape)


def open_together(
    rank: int, world: int, slot_bytes: int, broadcast: Callable[[Tensor], Tensor], lowest: Callable[[Tensor], Tensor]
) -> SharedMemory | None:
    """Memory with room for parts of so many bytes, called by all ranks at once; None where they do not share any.

    broadcast: rank 0's numbers for everybody. lowest: the lowest of all ranks' numbers.
    """
    slot_bytes += -slot_bytes % HEADER_BYTES
    size = HEADER_BYTES + 2 * world * slot_bytes
    handle, buffer = -1, None
    if rank == 0 and hasattr(os, "memfd_create"):
        try:
            handle = os.memfd_create("rlclinic-ranks")
            os.ftruncate(handle, size)
            buffer = _map(handle, size)
            buffer[:8].view(torch.int64)[0] = secrets.randbits(62)
        except OSError:
            buffer = None
    known = torch.tensor([os.getpid(), handle, 0 if buffer is None else int(buffer[:8].view(torch.int64)[0])])
    owner, theirs, token = broadcast(known).tolist()
    if rank and theirs >= 0:
        try:
            opened = os.open(Path("/proc") / str(owner) / "fd" / str(theirs), os.O_RDWR)
            try:
                buffer = _map(opened, size)
            finally:
                os.close(opened)
        except (OSError, ValueError):
            buffer = None
    same = buffer is not None and int(buffer[:8].view(torch.int64)[0]) == token
    everybody = bool(lowest(torch.tensor([int(same)])))
    if handle >= 0:
        os.close(handle)  # all have it open by now
    return SharedMemory(buffer, slot_bytes, world) if everybody and buffer is not None else None


def _map(handle: int, size: int) -> Tensor:
    return torch.frombuffer(mmap.mmap(handle, size), dtype=torch.uint8)


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
