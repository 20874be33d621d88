"""The processes that train one cohort together: who they are, how they are started, and what they exchange.

Rank 0 starts the others on its own machine, with the variables that torchrun gives (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
MASTER_PORT). Where these are set already, torchrun or another launcher has started all of them, on any machines:

    torchrun --standalone --nproc-per-node 2 -m rlclinic.training runs/RUN

Gradients and rollouts go through memory that ranks of one machine share, else through gloo on CPUs and nccl on GPUs, one message for each
purpose. Sums are taken in the order of ranks by both of the first two, so where ranks run changes no bit. What rank 0 announces is JSON.
"""

import json
import math
import os
import socket
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic, perf_counter
from typing import Any, Final

import torch
from torch import Tensor
from torch import distributed as dist

from rlclinic.actions import Change
from rlclinic.errors import ConfigError
from rlclinic.training.parallel import shared_memory, watch
from rlclinic.training.parallel.watch import OBITUARY_SECONDS, START_SECONDS, Heart, Pulse, RankLost

FOLLOWER: Final = "rlclinic.training.parallel"
"""The module that other ranks run."""
JOIN: Final = timedelta(seconds=START_SECONDS)
FOREVER: Final = timedelta(days=30)
"""Collectives have no time limit of their own: a rank that computes for long is waited for, and what hangs the watch ends."""
ANNOUNCED: Final = 4096
"""Bytes of an announcement that go in one message."""
SLOWER_SECONDS: Final = 2
"""The watch comes before the kernel: it can say who is missing."""
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
GET_ADDRESS: Final = 0x8915
"""SIOCGIFADDR: the address of a network interface."""
MISUNDERSTOOD_SECONDS: Final = 30.0
"""How long ranks that mean different messages wait for the watch to say so."""
ALIGNED: Final = 8
PIECE_BYTES: Final = 4 << 20
"""Of a message, what lies in the memory that ranks share at a time: it has two slots for each, however large networks are."""
Tensors = dict[str, Tensor]
Shapes = list[tuple[str, list[int], str]]

# PyTorch's type hints leave out some of what it exports.
_torch: Any = dist
_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Ranks:
    """The ranks, as one of them sees them."""

    def __init__(self, store: Any, rank: int, world: int, device: torch.device, children: "list[subprocess.Popen[bytes]] | None" = None):
        self.rank, self.world, self.device = rank, world, device
        self.pulse, self._children = Pulse(), children or []
        self.heart = Heart(store.clone() if hasattr(store, "clone") else store, rank, world, self.pulse, self._children)
        self.heart.start()
        self.waited = 0.0
        """Seconds in collectives so far."""
        self.broken = False
        self.in_order = True
        """Whether sums are taken in the order of ranks; else in that of gloo's ring, as runs were begun before (config.corrections)."""
        self.memory: shared_memory.SharedMemory | None = None
        self._meet(store)
        before = set(_open_files())
        try:
            backend = "nccl" if device.type == "cuda" else "gloo"
            dist.init_process_group(backend, store=_torch.PrefixStore("group", store), rank=rank, world_size=world, timeout=FOREVER)
        except Exception as error:
            raise self._explain("join", error) from error
        if device.type == "cuda":
            self.heart.abort = _abort_nccl
        if device.type == "cpu":
            with self._collective("shared memory"):
                self._share(shared_memory.FIRST_BYTES)
            if self.memory is None:
                self.heart.links = _watch_connections(before)

    def _share(self, slot_bytes: int) -> shared_memory.SharedMemory | None:
        """Memory that all ranks see, with slots of so many bytes; none where they do not share a machine."""

        def broadcast(numbers: Tensor) -> Tensor:
            dist.broadcast(numbers, 0)
            return numbers

        def lowest(numbers: Tensor) -> Tensor:
            dist.all_reduce(numbers, dist.ReduceOp.MIN)
            return numbers

        self.memory = shared_memory.open_together(self.rank, self.world, slot_bytes, broadcast, lowest)
        return self.memory

    def _meet(self, store: Any) -> None:
        """Wait until all ranks have started. One that dies on its way would be waited for without end."""
        store.set(f"rlclinic/started/{self.rank}", "")
        limit = monotonic() + START_SECONDS
        missing = list(range(self.world)) if self.rank == 0 else []
        while missing := [rank for rank in missing if not store.check([f"rlclinic/started/{rank}"])]:
            if self.heart.known.wait(0.02) or monotonic() > limit:
                self.broken = True
                why = self.heart.reason or f"{', '.join(f'rank {rank}' for rank in missing)} did not start within {START_SECONDS:.0f} s"
                raise RankLost(f"{why}.\n  Nothing was trained.\n  What it printed says why: see the run's log of its launch")

    # ── collectives ──

    @contextmanager
    def _collective(self, name: str) -> Iterator[None]:
        started = perf_counter()
        self.pulse.enter(name)
        try:
            yield
            if self.device.type == "cuda":
                # nccl only puts it into a queue: who waits is to be seen waiting here, and what was broken off is no answer.
                torch.cuda.current_stream(self.device).synchronize()
                if self.heart.known.is_set():
                    raise RuntimeError("broken off")
        except RuntimeError as error:
            raise self._explain(name, error) from error
        finally:
            self.pulse.leave()
            self.waited += perf_counter() - started

    def _explain(self, name: str, error: Exception) -> RankLost:
        """Why a collective broke: what the watch has found out, or the transport's own words."""
        self.broken = True
        if self.rank == 0:
            self.heart.known.wait(OBITUARY_SECONDS)
        why = self.heart.reason or f"collective broken: {_shorten(error)} ({self.heart.describe_others()})"
        return RankLost(
            f"{why}.\n  Rank {self.rank} was in collective {self.pulse.sequence} ({name}), and cannot go on without the others.\n"
            "  Everything up to the last checkpoint is intact, and a resume goes on from there with all ranks"
        )

    def sum(self, name: str, buffer: Tensor) -> Tensor:
        """The sum over ranks of a buffer, in place."""
        with self._collective(name):
            if not self._orders:
                dist.all_reduce(buffer)
            elif self._have_room(name, buffer):
                flat = buffer.view(1, buffer.numel())
                for piece, every in self._show(name, flat):
                    _add(every, flat[:, piece])
            else:
                size = -(-buffer.numel() // self.world)
                shares = torch.nn.functional.pad(buffer.view(-1), (0, size * self.world - buffer.numel())).view(self.world, size)
                own = self._scatter_sum(shares, torch.empty_like(shares[0]))
                _gather(shares.view(-1), own)
                buffer.view(-1).copy_(shares.view(-1)[: buffer.numel()])
        return buffer

    def meet(self) -> None:
        """Wait for all ranks."""
        self.sum("meeting", torch.zeros(1, device=self.device))

    def scatter_sum(self, name: str, buffer: Tensor) -> Tensor:
        """Of the sum over ranks of a buffer [world, ...], this rank's own part."""
        own = torch.empty_like(buffer[0])
        with self._collective(name):
            if not self._orders:
                _scatter(own.view(-1), buffer.view(-1))
            elif self._have_room(name, buffer):
                for piece, every in self._show(name, buffer.view(self.world, own.numel())):
                    _add(every[:, self.rank], own.view(-1)[piece])
            else:
                self._scatter_sum(buffer, own)
        return own

    def gather(self, name: str, own: Tensor) -> Tensor:
        """A tensor of every rank, [world, ...]."""
        every = own.new_empty((self.world, *own.shape))
        with self._collective(name):
            if self._have_room(name, own):
                flat = every.view(self.world, 1, own.numel())
                for piece, shown in self._show(name, own.contiguous().view(1, own.numel())):
                    flat[:, :, piece] = shown
            else:
                _gather(every.view(-1), own.contiguous().view(-1))
        return every

    @property
    def _orders(self) -> bool:
        return self.in_order and self.device.type == "cpu"

    def _scatter_sum(self, buffer: Tensor, own: Tensor) -> Tensor:
        """`scatter_sum` through the network, in the order of ranks."""
        every = torch.empty_like(buffer)
        _torch.all_to_all_single(every.view(-1), buffer.contiguous().view(-1))
        return _add(every, own)

    def _have_room(self, name: str, own: Tensor) -> bool:
        """Whether ranks share memory, and now with room for a piece of this message."""
        wanted = min(own.nbytes, PIECE_BYTES)
        if self.memory is not None and wanted > self.memory.slot_bytes:
            self._agree(name, own.nbytes)
            self._share(min(max(wanted, 2 * self.memory.slot_bytes), PIECE_BYTES))
        return self.memory is not None

    def _show(self, name: str, own: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """A tensor [K, n] of every rank, some columns of it after the others: [world, K, columns], each until the next one."""
        assert self.memory is not None
        room = self.memory.slot_bytes // (len(own) * own.element_size())
        for first in range(0, own.shape[1], room):
            piece = own[:, first : first + room]
            self.memory.write(self.rank, piece)
            self._agree(name, own.nbytes)
            yield slice(first, first + piece.shape[1]), self.memory.read(piece)

    def _agree(self, name: str, size: int) -> None:
        """Wait for all ranks; if they mean different messages, until the watch names them, as with any collective that hangs."""
        meant = zlib.crc32(f"{self.pulse.sequence} {name} {size}".encode()) >> 1
        if self.memory is not None and self.memory.meets:
            agreed = self.memory.meet(self.rank, meant, self._look)
        else:
            bounds = torch.tensor([meant, -meant])
            dist.all_reduce(bounds, dist.ReduceOp.MAX)
            agreed = bounds.tolist() == [meant, -meant]
        if not agreed:
            self.heart.known.wait(MISUNDERSTOOD_SECONDS)
            raise RuntimeError(f"ranks mean different messages: here it is {name} with {size} bytes")

    def gather_tensors(self, name: str, own: Tensors) -> list[Tensors]:
        """Tensors of every rank by name, in one message; they have the same shapes everywhere."""
        shapes = shapes_of(own)
        return [unpack(shapes, row) for row in self.gather(name, pack(own, self.device)).unbind(0)]

    def _look(self) -> None:
        """RuntimeError where those who are waited for will not come: the watch knows, or a process is no more."""
        gone = None if self.memory is None else self.memory.find_gone()
        if gone is not None or self.heart.known.is_set():
            raise RuntimeError("a rank is lost" if gone is None else f"the process of rank {gone} is gone")

    # ── announcements ──

    def announce(self, kind: str, tensors: Tensors | None = None, **content: Any) -> None:
        """Rank 0's word on what comes next, with tensors that go to everybody."""
        shapes = None if tensors is None else shapes_of(tensors)
        text = json.dumps({"kind": kind, "tensors": shapes, **content}).encode()
        body = len(text).to_bytes(8, "little") + text
        first, rest = body[:ANNOUNCED].ljust(ANNOUNCED, b"\0"), body[ANNOUNCED:]
        self.broadcast("announcement", _as_tensor(first, self.device))
        if rest:
            self.broadcast("announcement", _as_tensor(rest, self.device))
        if tensors is not None:
            self.broadcast(kind, pack(tensors, self.device))

    def listen(self) -> tuple[dict[str, Any], Tensors]:
        """What rank 0 announces."""
        first = self.broadcast("announcement", torch.zeros(ANNOUNCED, dtype=torch.uint8, device=self.device))
        size = int.from_bytes(bytes(first[:8].tolist()), "little")
        body = bytes(first.tolist())[8:]
        if size > len(body):
            body += bytes(self.broadcast("announcement", torch.zeros(size - len(body), dtype=torch.uint8, device=self.device)).tolist())
        content: dict[str, Any] = json.loads(body[:size])
        shapes = content.pop("tensors")
        if shapes is None:
            return content, {}
        buffer = torch.zeros(sum(_padded(shape, dtype) for _, shape, dtype in shapes), dtype=torch.uint8, device=self.device)
        return content, unpack(shapes, self.broadcast(content["kind"], buffer))

    def broadcast(self, name: str, buffer: Tensor) -> Tensor:
        """Rank 0's buffer on every rank, in place."""
        with self._collective(name):
            dist.broadcast(buffer, 0)
        return buffer

    # ── the end ──

    def close(self) -> None:
        """Leave the group; rank 0 ends the others that it has started."""
        if self.rank == 0 and not self.broken:
            with suppress(RankLost):
                self.announce("end")
        self.heart.stop()
        for process in self._children:
            try:
                process.wait(0.0 if self.broken else 10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if dist.is_initialized():
            dist.destroy_process_group()
        while self.heart.links:
            self.heart.links.pop().close()


# ── starting ──

joined: list[Ranks] = []
"""The ranks of this process where others have started them: there is one group for as long as it lives."""


def begin(world: int, device: torch.device) -> Ranks:
    """Rank 0's side: start the others, or join those that torchrun has started."""
    if joined:
        return joined[0]
    if is_launched():
        check_world(world)
        joined.append(join(device))
        return joined[0]
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))  # nobody else's business
    listening.listen()
    port = listening.getsockname()[1]
    store = _torch.TCPStore(
        "127.0.0.1", port, None, is_master=True, timeout=JOIN, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    agree_on_device(store, 0, device)
    variables = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with _talk_over(_find_loopback()):
        children = [
            subprocess.Popen(
                # The kernel ends it with this process, however that ends.
                [sys.executable, "-m", "rlclinic.launch.child", str(os.getpid()), FOLLOWER],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(1, world)
        ]
        try:
            return Ranks(store, 0, world, device_of(0, device), children)
        except BaseException:
            for process in children:
                process.kill()
                process.wait()
            raise


def join(device: torch.device | None = None) -> Ranks:
    """A rank that somebody else has started."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store, _, _ = next(_torch.rendezvous("env://", rank, world, timeout=JOIN))
    with _talk_over(find_interface(os.environ["MASTER_ADDR"])):
        kind = agree_on_device(store, rank, device)
        return Ranks(store, rank, world, device_of(int(os.environ.get("LOCAL_RANK", rank)), kind))


def agree_on_device(store: Any, rank: int, device: torch.device | None) -> torch.device:
    """What all ranks compute on: rank 0 alone has a config, and says so before the group is made. Others wait for its word."""
    key = "rlclinic/device"
    if rank == 0:
        store.set(key, "cpu" if device is None else device.type)
    return torch.device(store.get(key).decode())


def leave() -> None:
    """End the ranks that others have started, as there is nothing more to train."""
    while joined:
        joined.pop().close()


def is_launched() -> bool:
    """Whether all ranks were started by torchrun, or by something that gives the same variables."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")) and int(os.environ["WORLD_SIZE"]) > 1


def check_world(world: int) -> None:
    """ConfigError where other ranks were started than the config says."""
    there = int(os.environ["WORLD_SIZE"])
    if there != world:
        raise ConfigError(
            f"run.data_parallel={world}, but WORLD_SIZE={there} ranks were started.\n"
            "  Sums would be taken in another order than before, and a resume would not be exact.\n"
            f"  Try: torchrun --nproc-per-node {world}, or a fork with run.data_parallel={there}"
        )


def device_of(local_rank: int, device: torch.device) -> torch.device:
    """A GPU for each rank of a machine."""
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise ConfigError(
            f"rank {local_rank} of this machine has no GPU: there are {count}.\n  Two ranks on one GPU would only wait for each other.\n"
            "  Try: ",
            Change("run.data_parallel", max(count, 1)),
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _abort_nccl() -> None:
    """End what nccl waits for on the GPU; nothing else does, not even the end of the others."""
    _torch.distributed_c10d._abort_process_group()


def find_interface(master: str) -> str | None:
    """The network interface towards rank 0's machine; gloo would take whatever this machine's name stands for, often its loopback."""
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((master, 9))  # sends nothing
            own = socket.inet_aton(probe.getsockname()[0])
            for _, name in socket.if_nameindex():
                with suppress(OSError):  # it has no address
                    if fcntl.ioctl(probe.fileno(), GET_ADDRESS, struct.pack("256s", name.encode()))[20:24] == own:
                        return name
    except (ImportError, OSError):
        pass
    return None


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - numbers, not paths
    except OSError:
        return []


def _watch_connections(before: set[int]) -> list[socket.socket]:
    """The connections to other machines that this process has made since then; the kernel ends those of which nothing is heard.

    Nobody tells a machine that its link was cut or that another one lost its power: it would wait for the rest of its life.
    """
    found = []
    for number in set(_open_files()) - before:
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            link = socket.socket(fileno=os.dup(number))
            try:
                link.getpeername()
                silent = round(watch.LOST_SECONDS) + SLOWER_SECONDS
                for level, option, value in (
                    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(silent // 4, 1)),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(silent // 4, 1)),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
                    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * silent),
                ):
                    link.setsockopt(level, option, value)
            except (OSError, AttributeError):
                link.close()  # it listens, or is not to a machine
            else:
                found.append(link)
    return found


def _find_loopback() -> str | None:
    """Ranks of one machine talk over its loopback, where nobody listens."""
    try:
        names = [name for _, name in socket.if_nameindex()]
    except OSError:
        return None
    return next((name for name in ("lo", "lo0") if name in names), None)


@contextmanager
def _talk_over(interface: str | None) -> Iterator[None]:
    """Have gloo connect over that interface, unless the user has named one; what this process starts later chooses its own."""
    if interface is None or INTERFACE in os.environ:
        yield
        return
    os.environ[INTERFACE] = interface
    try:
        yield
    finally:
        del os.environ[INTERFACE]


# ── tensors as bytes ──


def shapes_of(tensors: Tensors) -> Shapes:
    """What `unpack` needs to know."""
    return [(name, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors.items()]


def pack(tensors: Tensors, device: torch.device) -> Tensor:
    """Tensors one after the other as bytes."""
    parts = []
    for tensor in tensors.values():
        part = tensor.detach().to(device).contiguous().view(-1).view(torch.uint8)
        parts += [part, part.new_zeros(-len(part) % ALIGNED)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8, device=device)


def unpack(shapes: Shapes, buffer: Tensor) -> Tensors:
    """The inverse; what comes out lies in the buffer."""
    found, start = {}, 0
    for name, shape, kind in shapes:
        dtype = getattr(torch, kind)
        size = math.prod(shape) * dtype.itemsize
        found[name] = buffer[start : start + size].view(dtype).view(shape)
        start += _padded(shape, kind)
    return found


def _padded(shape: list[int], kind: str) -> int:
    size = math.prod(shape) * int(getattr(torch, kind).itemsize)
    return size + -size % ALIGNED


def _add(every: Tensor, total: Tensor) -> Tensor:
    """The sum of the parts of all ranks [world, ...], in their order."""
    torch.add(every[0], every[1], out=total)
    for part in every[2:]:
        total += part
    return total


def _as_tensor(text: bytes, device: torch.device) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).to(device)


def _shorten(error: Exception) -> str:
    """What a transport says, without where in its source it says it, and what it advises."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rpartition("] ")[2] or type(error).__name__
    return first.partition(". ")[0][:200]
