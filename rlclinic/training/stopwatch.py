"""Who takes how long in an iteration: a stopwatch around the functions that training calls through their modules."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from rlclinic.training import optim, trainer
from rlclinic.training.data import prioritized, replay, rollouts
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.envs.base import VecEnv
from rlclinic.training.fast import actor_critic_backward, gradients, q_net_backward, replay_passes, wide
from rlclinic.training.loops import off_policy, off_policy_iteration, on_policy, on_policy_iteration

PHASES: Final = {
    "env": "stepping environments",
    "act": "choosing actions",
    "estimate": "values, advantages, normalizers",
    "gather": "rows into and out of minibatches or the replay",
    "transfer": "between the environments' arrays and the device",
    "forward": "networks, targets and losses",
    "backward": "gradients",
    "optimizer": "steps along them, target networks",
    "sentinels": "what diagnosis reads",
    "logging": "episode statistics, rows, files",
    "other": "what lies between all these",
    "idle": "waiting: another process had the core, or the disk was slow",
}
SEAMS: Final = (
    (on_policy, "collect", "act"),
    (on_policy, "estimate_advantages", "estimate"),
    (on_policy, "update_normalizers", "estimate"),
    (gradients, "gradient", "forward"),
    (actor_critic_backward, "forward", "forward"),
    (actor_critic_backward, "backward", "backward"),
    (torch.autograd, "grad", "backward"),
    (optim, "step", "optimizer"),
    (optim, "adam_in_place", "optimizer"),
    (optim, "clip_by_norm", "optimizer"),
    (off_policy.Collector, "collect", "act"),
    (off_policy, "learn", "forward"),
    (off_policy, "Draws", "gather"),
    (off_policy, "gather_batches", "forward"),
    (off_policy, "update_normalizers", "estimate"),
    (off_policy, "descend", "optimizer"),
    (off_policy, "follow", "optimizer"),
    (replay, "add", "gather"),
    (replay, "gather", "gather"),
    (replay, "by_priority", "gather"),
    (prioritized, "put", "gather"),
    (replay_passes.Rounds, "by_weights", "backward"),
    (wide.WideRounds, "by_weights", "backward"),
    (on_policy_iteration, "compute_sentinels", "sentinels"),
    (off_policy_iteration, "compute_sentinels", "sentinels"),
    (off_policy_iteration, "summarize", "logging"),
    (Episodes, "add", "logging"),
    (trainer, "prepare_row", "logging"),
    (trainer, "write_rows", "logging"),
)
"""Functions that training calls through their modules or classes, and the phase that each belongs to; the innermost counts."""
EACH: Final = ((rollouts, "minibatches", "gather"), (rollouts, "segments", "gather"))
"""Generators: what they do until the next item."""


@dataclass
class Stopwatch:
    """Seconds by phase; what runs inside another phase counts for the inner one."""

    device: torch.device
    elsewhere: bool = False
    """Whether environments are stepped by other processes (workers, actors) or threads, so that waiting for them is their time."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    _wall: list[float] = field(default_factory=lambda: [0.0])
    _worked: list[float] = field(default_factory=lambda: [0.0])

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._wait()
        began, worked = time.perf_counter(), time.process_time()
        self._wall.append(0.0)
        self._worked.append(0.0)
        try:
            yield
        finally:
            self._wait()
            wall, work = time.perf_counter() - began, time.process_time() - worked
            self._count(name, wall - self._wall.pop(), work - self._worked.pop())
            self._wall[-1] += wall
            self._worked[-1] += work

    def _count(self, name: str, wall: float, work: float) -> None:
        """On a CPU, time in which this process did not work is nobody's phase. Several threads work more than time passes."""
        own = wall if self.device.type == "cuda" or (self.elsewhere and name == "env") else min(wall, max(work, 0.0))
        self.seconds[name] += own
        self.seconds["idle"] += wall - own

    def finish(self, wall: float, work: float) -> dict[str, float]:
        """Phases of all that was watched, which took so long altogether."""
        self._count("other", max(wall - self._wall[0], 0.0), work - self._worked[0])
        return self.seconds

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(name):
                return function(*args, **kwargs)

        return timed

    def wrap_each(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A generator, timed while it makes the next item."""

        def timed(*args: Any, **kwargs: Any) -> Iterator[Any]:
            items = function(*args, **kwargs)
            while True:
                with self.phase(name):
                    item = next(items, None)
                if item is None:
                    return
                yield item

        return timed


def put_around(watch: Stopwatch, env: VecEnv, undo: ExitStack) -> None:
    """Put the stopwatch around the seams, until `undo` is closed."""

    def swap(owner: Any, name: str, function: Any) -> None:
        undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, function)

    for owner, name, phase in SEAMS:
        swap(owner, name, watch.wrap(phase, getattr(owner, name)))
    for owner, name, phase in EACH:
        swap(owner, name, watch.wrap_each(phase, getattr(owner, name)))
    swap(q_net_backward, "forward_and_back", _with_timed_ways_back(watch, q_net_backward.forward_and_back))
    swap(off_policy, "prepare_descent", _with_timed_steps(watch, off_policy.prepare_descent))
    simulates, copies = env.stepping
    if copies is not None:
        swap(copies, "step", watch.wrap("transfer", copies.step))
    plays = "collect" if hasattr(simulates, "collect") else "step"  # actors are waited for by the rollout
    swap(simulates, plays, watch.wrap("env", getattr(simulates, plays)))


def _with_timed_ways_back(watch: Stopwatch, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        with watch.phase("forward"):
            out, back = function(*args)
        return out, q_net_backward.Back(*(watch.wrap("backward", way) for way in back))

    return timed


def _with_timed_steps(watch: Stopwatch, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        return watch.wrap("optimizer", function(*args))

    return timed
