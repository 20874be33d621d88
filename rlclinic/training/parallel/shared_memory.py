"""Memory that ranks of one machine share: what one writes, the others read, without a way through the kernel's sockets.

Rank 0 makes it (memfd: it has no name that could be left behind, and ends with the processes), the others open it by rank 0's process
number. Whether it is really the same memory is not guessed from names of hosts, which containers share, but seen: a random number that
rank 0 has written there must be read by all. Where one cannot, all use their network.

Each rank has a slot of its own, twice: those of one message are read while those of the next are written. Who has read the slots of a
message says so by coming to the next one, so one meeting a message is enough.

They meet there, too, where every rank has a core: each writes which message it has come to, and looks at the others' words without going to
sleep. A process that sleeps until a socket wakes it finds its core taken by another one, and gets the next after milliseconds.
"""

import mmap
import os
import platform
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

LINE_BYTES: Final = 64
"""Of a processor's cache: what begins there is aligned for everything."""
SPIN_SECONDS: Final = 0.002
"""How long one looks without a pause: longer than ranks usually differ by."""
PAUSE_SECONDS: Final = 0.0002
LOOK_SECONDS: Final = 0.25
"""How often one who waits for long asks whether that makes sense."""
FIRST_BYTES: Final = 1 << 16
"""Of a slot at the start; it grows with the largest message."""


class SharedMemory:
    """Slots for every rank's part of a message."""

    def __init__(self, buffer: Tensor, slot_bytes: int, world: int, *, meets: bool) -> None:
        self.slot_bytes = slot_bytes
        self.meets = meets
        """Whether ranks meet here; else they need another place for it."""
        header = _header_bytes(world)
        self._slots = buffer[header:].view(2, world, slot_bytes)
        self._words: np.ndarray = buffer[LINE_BYTES : LINE_BYTES + 24 * world].view(torch.int64).view(3, world).numpy()
        self._turn = self._meetings = 0

    def write(self, rank: int, own: Tensor) -> None:
        """Put a rank's part of the next message into its slot."""
        self._turn = 1 - self._turn
        self._slots[self._turn, rank, : own.nbytes].copy_(_as_bytes(own))

    def meet(self, rank: int, meaning: int, look: Callable[[], None]) -> bool:
        """Wait for all ranks; whether they have come for the same thing, which `meaning` (31 bits) stands for. look: raises to give up."""
        self._meetings += 1
        words = self._words[self._meetings % 2]
        words[rank] = self._meetings << 31 | meaning  # after what was written into the slot: x86 keeps the order of writes
        began = looked = time.monotonic()
        while not ((words >> 31) == self._meetings).all():
            now = time.monotonic()
            if now - began > SPIN_SECONDS:
                time.sleep(PAUSE_SECONDS)
            if now - looked > LOOK_SECONDS:
                looked = now
                look()
        return bool((words == words[rank]).all())

    def find_gone(self) -> int | None:
        """A rank whose process is no more; None: all live."""
        for rank, pid in enumerate(self._words[2].tolist()):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return rank
            except PermissionError:
                continue
        return None

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
    slot_bytes += -slot_bytes % LINE_BYTES
    size = _header_bytes(world) + 2 * world * slot_bytes
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
    if buffer is not None and same:
        buffer[LINE_BYTES : LINE_BYTES + 24 * world].view(torch.int64)[2 * world + rank] = os.getpid()
    # Looking without sleep takes a core from nobody only where each has one.
    spins = platform.machine() in ("x86_64", "AMD64") and len(os.sched_getaffinity(0)) >= world
    everybody, meets = lowest(torch.tensor([int(same), int(spins)])).tolist()
    if handle >= 0:
        os.close(handle)  # all have it open by now
    return SharedMemory(buffer, slot_bytes, world, meets=bool(meets)) if everybody and buffer is not None else None


def _header_bytes(world: int) -> int:
    """Room for a random number, and for two words and the process number of every rank."""
    return LINE_BYTES + 24 * world + -(24 * world) % LINE_BYTES


def _map(handle: int, size: int) -> Tensor:
    return torch.frombuffer(mmap.mmap(handle, size), dtype=torch.uint8)


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
