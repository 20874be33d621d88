"""Steps Gymnasium environments in other processes: worth it where one step takes longer than a message (some 50 us)."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rlclinic.actions import Action, Change
from rlclinic.errors import ConfigError, EnvironmentFailed, UsageError
from rlclinic.training.data import info_columns
from rlclinic.training.envs import making, worker
from rlclinic.training.envs.spaces import Actions, Observations
from rlclinic.training.envs.stepping import Rows
from rlclinic.training.envs.worker import EnvShare, Reply, WorkerPlan

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig

_GONE = (EOFError, ConnectionResetError, BrokenPipeError)


class Workers:
    """A Backend: each process steps neighbouring rows of [M, N] and leaves the results in shared memory."""

    def __init__(
        self,
        config: EnvConfig,
        factory: making.Factory | None,
        observations: Observations,
        actions: Actions,
        shape: tuple[int, int],
        once: bool,
    ) -> None:
        self.failures: dict[int, Exception] = {}
        self.skips = once
        self._retired: set[int] = set()
        self._name = making.name_of(config, factory)
        self._shape = shape
        said = 0 if once else len(info_columns.columns(config))
        memory = _memory(observations, actions, shape, config.action_mask, said, 0 if once else len(config.step_info))
        arrays = worker.views(memory)
        self._action = arrays.pop("action")
        self._rows = Rows(**arrays)
        self._rows.clear()
        spec = making.spec_for(config) if factory is None else None
        self._crew: list[_Hand] = []
        try:
            for parts in _shares(shape, config.workers):
                self._crew.append(_Hand(WorkerPlan(config, factory, spec, parts, memory, config.action_mask, once), self._name))
            for hand in self._crew:
                self._hear(hand)
        except BaseException:
            self.close()
            raise
        if len(self.failures) == shape[0]:
            self.close()
            raise ConfigError(str(self.failures[0]))

    def reset(self, seeds: list[list[int]], rows: Rows) -> None:
        self._ask("reset", seeds, self._out())
        np.copyto(rows.obs, self._rows.obs)
        if rows.mask is not None and self._rows.mask is not None:
            np.copyto(rows.mask, self._rows.mask)
        self._clear_out(rows)

    def set_taken(self, steps: list[int]) -> None:
        self._ask("set_taken", steps, self._out())

    def step(self, action: np.ndarray, rows: Rows) -> bool:
        np.copyto(self._action, action)
        ended = self._ask("step", self._out())
        for name, array in vars(rows).items():
            if array is not None:
                np.copyto(array, getattr(self._rows, name))
        self._clear_out(rows)
        return ended

    def progress(self) -> object:
        return tuple(hand.waits for hand in self._crew)

    def find_waiting(self) -> tuple[int | None, str]:
        waiting = [hand for hand in self._crew if hand.waits]
        return (waiting[0].member, waiting[0].describe()) if waiting else (None, f"{self._name}: a worker process")

    def interrupt(self, reason: str) -> bool:
        for hand in self._crew:
            if hand.waits:
                hand.kill(reason)
        return True

    def _ask(self, *command: Any) -> bool:
        """Send to all, then hear all: they work at the same time."""
        for hand in self._crew:
            hand.tell(command)
        replies = [self._hear(hand) for hand in self._crew]
        return any(replies)

    def _hear(self, hand: _Hand) -> bool:
        reply = hand.hear()
        for member, text in reply.failed:
            self.failures.setdefault(member, EnvironmentFailed(text))
        return reply.ended

    def _out(self) -> frozenset[int]:
        """Members whose envs are no longer stepped; their workers close them when they hear of it."""
        return frozenset(self._retired.union(self.failures))

    def _clear_out(self, rows: Rows) -> None:
        for member in self._out():
            rows.of(member).clear()

    def retire(self, members: Iterable[int]) -> None:
        self._retired.update(members)

    def render(self, member: int, env: int) -> Any:
        raise UsageError(
            "Environments in other processes give no pictures.\n  Only their numbers come back.\n  Try: ", Change("env.workers", 0)
        )

    def close(self) -> None:
        for hand in self._crew:
            hand.dismiss()
        self._crew = []


class _Hand:
    """One worker process and the pipe to it."""

    def __init__(self, plan: WorkerPlan, name: str) -> None:
        self._parts, self._name = plan.parts, name
        self._gone = False
        self._killed_for: str | None = None
        self.waits = False
        """Whether it was asked something that it has not answered."""
        context = _context()
        self._pipe: Connection
        self._pipe, far = context.Pipe()
        self._process: BaseProcess = context.Process(target=worker.main, args=(far, plan), daemon=True)
        self._start(plan)
        far.close()

    def _start(self, plan: WorkerPlan) -> None:
        by_name = plan.spec is not None and isinstance(plan.spec.entry_point, str)
        try:
            with _without_main() if by_name else nullcontext():
                self._process.start()
        except OSError:
            raise
        except Exception as reason:  # pickling fails in as many ways as there are types
            self._gone = True
            raise ConfigError(
                f"env.workers={plan.config.workers}: {self._name} cannot be sent to another process ({reason}).\n"
                "  A worker makes the environment by itself, so it must be able to import it.\n"
                "  Try: define it at the top level of a module, or ",
                Change("env.workers", 0),
            ) from reason

    @property
    def member(self) -> int:
        """The first member whose envs it steps."""
        return self._parts[0].member

    def describe(self) -> str:
        """The process and its envs, in words."""
        envs = ", ".join(f"{part.first}-{part.stop - 1}" for part in self._parts)
        return f"{self._name}: worker process {self._process.pid}, which steps envs {envs},"

    def kill(self, reason: str) -> None:
        """End the process; whoever waits for its answer hears why."""
        self._killed_for = reason
        self._process.kill()

    def tell(self, command: tuple[Any, ...]) -> None:
        self.waits = True
        if not self._gone:
            with suppress(*_GONE):
                self._pipe.send(command)

    def hear(self) -> Reply:
        if self._gone:
            return Reply()
        try:
            reply: Reply = self._pipe.recv()
            self.waits = False
            return reply
        except _GONE:
            self._gone, self.waits = True, False
            text = self._killed_for or self._obituary()
            return Reply(failed=tuple((part.member, text) for part in self._parts))

    def _obituary(self) -> str:
        self._process.join(timeout=5.0)
        code = self._process.exitcode
        how = "ended without a word" if not code else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        envs = ", ".join(f"{part.first}-{part.stop - 1}" for part in self._parts)
        return (
            f"{self._name}: worker process {self._process.pid}, which stepped envs {envs}, {how}.\n"
            "  The state of its environments is lost, so this run stops here. SIGKILL often means that memory ran out;\n"
            '  a worker that dies at once, that the script lacks `if __name__ == "__main__":`.\n'
            f"  Try: {Action('train', resume='RUN')} with fewer env.workers, or with env.workers=0 to see the environment's own error"
        )

    def dismiss(self) -> None:
        """Ask the worker to go; make it go if it will not."""
        if self._process.pid is None:
            return
        self.tell(("close",))
        self._pipe.close()
        self._process.join(timeout=5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module, which multiprocessing would import again in every worker: in training that is all of torch.

    Only for environments that are made by name; a user's own class may live in the main module.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _context() -> Any:
    """A fork server where there is one: a plain fork would copy torch's threads and locks in whatever state they are."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([worker.__name__])
    return context


def _memory(
    observations: Observations, actions: Actions, shape: tuple[int, int], masked: bool, said: int = 0, reads: int = 0
) -> dict[str, Any]:
    """Shared memory for a step's actions and results, `said` numbers of each episode's info among them.

    It belongs to no file: it is gone with the last process.
    """
    spec = actions.spec
    choices = () if spec.kind == "discrete" else (len(spec.sizes),) if spec.kind != "box" else spec.sizes
    fields: dict[str, tuple[str, tuple[int, ...]]] = {
        "action": ("float32" if spec.kind == "box" else "int64", (*shape, *choices)),
        "next_obs": (observations.dtype, (*shape, *observations.shape)),
        "obs": (observations.dtype, (*shape, *observations.shape)),
        "reward": ("float32", shape),
        "terminated": ("bool", shape),
        "truncated": ("bool", shape),
        "success": ("float32", shape),
        "valid": ("bool", shape),
    }
    if masked:
        fields |= {name: ("bool", (*shape, sum(spec.sizes))) for name in ("mask", "final_mask")}
    if said:
        fields["info"] = ("float64", (*shape, said))
    if reads:
        fields["said"] = ("float32", (*shape, reads))
    context = _context()
    return {
        name: (context.RawArray("b", int(np.dtype(dtype).itemsize * np.prod(size))), dtype, size) for name, (dtype, size) in fields.items()
    }


def _shares(shape: tuple[int, int], workers: int) -> list[tuple[EnvShare, ...]]:
    """Split M x N rows into neighbouring shares, so that a worker's death touches as few members as possible."""
    members, n_envs = shape
    edges = np.linspace(0, members * n_envs, workers + 1).round().astype(int)
    shares = []
    for low, high in itertools.pairwise(edges.tolist()):
        touched = range(low // n_envs, -(-high // n_envs))
        shares.append(tuple(EnvShare(m, max(low - m * n_envs, 0), min(high - m * n_envs, n_envs)) for m in touched))
    return [parts for parts in shares if parts]
