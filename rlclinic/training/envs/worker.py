"""The process that steps a share of the environments, on command. Free of torch: it starts in a fraction of a second."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlclinic.errors import EnvironmentFailed, RlclinicError
from rlclinic.training.data.info_columns import Tally
from rlclinic.training.envs import making, spaces
from rlclinic.training.envs.stepping import Lanes, Rows

if TYPE_CHECKING:
    from rlclinic.config import EnvConfig


@dataclass(frozen=True)
class EnvShare:
    """A run of neighbouring envs of one member."""

    member: int
    first: int
    stop: int

    @property
    def place(self) -> tuple[int, slice]:
        """Where the part lies in [M, N] arrays."""
        return self.member, slice(self.first, self.stop)


@dataclass(frozen=True)
class WorkerPlan:
    """All that a worker must know. Travels to it by pickle, the arrays' memory by its handle."""

    config: EnvConfig
    factory: making.Factory | None
    spec: EnvSpec | None
    """The registered env, in case that it was registered by the user's script and not by a module."""
    parts: tuple[EnvShare, ...]
    memory: dict[str, tuple[Any, str, tuple[int, ...]]]
    """Name of an array in Rows, or "action": shared memory, dtype, shape."""
    masked: bool
    once: bool


@dataclass(frozen=True)
class Reply:
    """What a worker answers: whether anything ended, and the parts that failed with their messages."""

    ended: bool = False
    failed: tuple[tuple[int, str], ...] = ()


def main(pipe: Connection, plan: WorkerPlan) -> None:
    """Obey ("reset", seeds, members to drop), ("set_taken", steps, members to drop), ("step", members to drop) and ("close",).

    Until the pipe closes, as it does with training.
    """
    # Ctrl-C reaches the whole process group; training decides what is to be done, not each worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        crew = _Crew(plan)
    except RlclinicError as reason:
        pipe.send(Reply(failed=tuple((part.member, str(reason)) for part in plan.parts)))
        return
    pipe.send(Reply())
    try:
        while True:
            command, *arguments = pipe.recv()
            if command == "close":
                break
            obey: dict[str, Callable[..., Reply]] = {"reset": crew.reset, "set_taken": crew.set_taken, "step": crew.step}
            pipe.send(obey[command](*arguments))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass  # training is gone, and so is the reason to go on
    crew.close()


class _Crew:
    def __init__(self, plan: WorkerPlan) -> None:
        # What is named by its module is imported here again: that registers what it has by itself.
        if plan.spec is not None and ":" not in plan.config.id:
            gym.registry.setdefault(plan.spec.id, plan.spec)
        name = making.name_of(plan.config, plan.factory)
        arrays = views(plan.memory)
        self._action = arrays.pop("action")
        rows = Rows(**arrays)
        self._lanes: dict[EnvShare, tuple[Lanes, Rows]] = {}
        for part in plan.parts:
            envs = [making.make_single(plan.config, plan.factory) for _ in range(part.first, part.stop)]
            obs, act = spaces.observations(envs[0].observation_space, name), spaces.actions(envs[0].action_space, name)
            tally = None if rows.info is None else Tally(plan.config, len(envs))
            lanes = Lanes(envs, name, obs, act, plan.masked, plan.once, part.first, tally, plan.config.step_info)
            self._lanes[part] = lanes, rows.of(part.place)

    def reset(self, seeds: list[list[int]], dropped: frozenset[int]) -> Reply:
        self._drop(*(part for part in self._lanes if part.member in dropped))
        failed = []
        for part, (lanes, rows) in list(self._lanes.items()):
            try:
                lanes.reset(seeds[part.member][part.first : part.stop], rows)
            except EnvironmentFailed as reason:
                failed.append((part.member, str(reason)))
                self._drop(part)
        return Reply(failed=tuple(failed))

    def set_taken(self, steps: list[int], dropped: frozenset[int]) -> Reply:
        self._drop(*(part for part in self._lanes if part.member in dropped))
        for part, (lanes, _) in self._lanes.items():
            lanes.set_taken(steps[part.member])
        return Reply()

    def step(self, dropped: frozenset[int]) -> Reply:
        self._drop(*(part for part in self._lanes if part.member in dropped))
        ended, failed = False, []
        for part, (lanes, rows) in list(self._lanes.items()):
            rows.blank()
            try:
                ended |= lanes.step(self._action[part.place], rows)
            except EnvironmentFailed as reason:
                failed.append((part.member, str(reason)))
                self._drop(part)
        return Reply(ended, tuple(failed))

    def _drop(self, *parts: EnvShare) -> None:
        for part in parts:
            lanes, _ = self._lanes.pop(part)
            lanes.close()

    def close(self) -> None:
        self._drop(*self._lanes)


def views(memory: dict[str, tuple[Any, str, tuple[int, ...]]]) -> dict[str, np.ndarray]:
    """Numpy's view of each piece of shared memory."""
    return {name: np.frombuffer(block, dtype, count=int(np.prod(shape))).reshape(shape) for name, (block, dtype, shape) in memory.items()}
