"""Where an iteration's time goes: the functions of training timed from outside, on a few iterations without a run folder."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final

import torch

from rlclinic.config import Config
from rlclinic.training import assembly, choosing, cohort, envs, gradients, optim, rows, sentinels
from rlclinic.training.cohort import Member
from rlclinic.training.data import rollout as rollouts
from rlclinic.training.data.episodes import Episodes
from rlclinic.training.loops import on_policy
from rlclinic.training.nets import mlp, written
from rlclinic.training.sentinels import Seen

PHASES: Final = ("env", "act", "estimate", "gather", "forward", "backward", "optimizer", "transfer", "sentinels", "logging", "idle")
WARM_UPS: Final = 2


@dataclass
class Stopwatch:
    """Seconds by phase; what runs inside another phase counts for the inner one."""

    device: torch.device
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    _inner: list[float] = field(default_factory=lambda: [0.0])

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        self._wait()
        began = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            self._wait()
            spent = time.perf_counter() - began
            self.seconds[name] += spent - self._inner.pop()
            self._inner[-1] += spent

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


SEAMS: Final = (
    (mlp, "actor", "act"),
    (on_policy, "assess", "estimate"),
    (gradients, "gradient", "forward"),
    (written, "forward", "forward"),
    (written, "backward", "backward"),
    (torch.autograd, "grad", "backward"),
    (optim, "step", "optimizer"),
    (optim, "clip_by_norm", "optimizer"),
    (sentinels, "every_row", "sentinels"),
    (rows, "summarize", "logging"),
    (rows, "looked_at", "logging"),
)
"""Functions that training calls through their modules, and the phase that each belongs to."""


@dataclass(frozen=True)
class Measured:
    """What a few iterations of a config took."""

    engine: str
    env_steps_per_second: float
    iteration_seconds: float
    phases: dict[str, float]
    """Seconds per iteration, where they can be told apart (the eager engine); else empty."""
    memory_mib: float
    gpu_busy: float | None


def measure(config: Config, members: int, seconds: float, *, apart: bool) -> Measured:
    """Train a few iterations, for about so many seconds after a warm-up. apart: also by phase, which costs some of the speed."""
    torch.set_num_threads(config.run.threads)
    made = _Shop(config, members)
    try:
        for _ in range(WARM_UPS):
            made.iterate()
        watch = Stopwatch(made.device)
        with ExitStack() as undo:
            if apart:
                _instrument(watch, made.env, undo)
            return _timed(made, watch if apart else None, seconds)
    finally:
        made.env.close()


def _timed(made: "_Shop", watch: Stopwatch | None, seconds: float) -> Measured:
    cuda = made.device.type == "cuda"
    began, iterations = time.perf_counter(), 0
    while time.perf_counter() - began < seconds or iterations < 2:
        made.iterate()
        iterations += 1
    if cuda:
        torch.cuda.synchronize()
    spent = time.perf_counter() - began
    phases = {} if watch is None else {name: value / iterations for name, value in watch.seconds.items()}
    if phases:
        phases["idle"] = max(0.0, spent / iterations - sum(phases.values()))
    memory = torch.cuda.max_memory_allocated() / 2**20 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    busy = _busy(made, spent / iterations) if cuda and watch is None else None
    speed = iterations * made.plan.rollout_size * len(made.members) / spent
    return Measured(made.plan.engine, speed, spent / iterations, phases, memory, busy)


def _busy(made: "_Shop", iteration_seconds: float) -> float:
    """The share of an iteration in which the GPU computes: its operations' own times, over the time without a profiler."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    with recording(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(WARM_UPS):
            made.iterate()
        torch.cuda.synchronize()
    computing = sum(each.self_device_time_total for each in record.key_averages()) / 1e6 / WARM_UPS
    return min(1.0, computing / iteration_seconds)


def _instrument(watch: Stopwatch, env: Any, undo: ExitStack) -> None:
    """Put the stopwatch around the seams, until `undo` is closed."""

    def swap(owner: Any, name: str, function: Any) -> None:
        undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, function)

    for owner, name, phase in SEAMS:
        swap(owner, name, watch.wrap(phase, getattr(owner, name)))
    swap(rollouts, "minibatches", watch.wrap_each("gather", rollouts.minibatches))
    env.step = watch.wrap("env", env.step)
    undo.callback(delattr, env, "step")
    swap(Episodes, "add", watch.wrap("transfer", Episodes.add))


class _Shop:
    """A cohort without folders."""

    def __init__(self, config: Config, members: int) -> None:
        self.device = assembly.device_of(config)
        seeds = list(range(members))
        self.env = envs.make(config.env, seeds, config.env.n_envs, device=str(self.device))
        plan = assembly.plan_for(config, self.env)
        choice = choosing.choose(config, plan, self.env, members, self.device, None)
        self.plan, self.engine = replace(plan, engine=choice.kind), choice.make()
        self.members = [Member(SimpleNamespace(id="none"), config, None) for _ in seeds]  # type: ignore[arg-type]
        self.learner = assembly.fresh_learner(self.plan, seeds, config.env.n_envs, self.device)
        self.position = on_policy.Position(self.env.reset(), self.env.action_mask)
        self.seed = torch.tensor(seeds, device=self.device).view(-1, 1, 1)
        self.episodes, self.iteration = Episodes(members, config.env.n_envs), 0

    def iterate(self) -> None:
        """What `on_policy_turn.iterate` does, and a row's sentinels and sums."""
        steps = self.iteration * self.plan.rollout_size
        hp = cohort.hyperparameters(self.members, steps, self.plan.policy, self.device)
        clock = dict.fromkeys(("env", "act", "learn"), 0.0)
        turn = self.engine.turn(self.plan, self.learner, self.env, self.position, hp, None, self.seed, self.iteration, clock)
        elapsed = self.episodes.add(turn.rollout)
        seen = Seen(turn.before, turn.after, turn.rollout, turn.whole, turn.raw, turn.readings, turn.closing, elapsed)
        found = sentinels.every_row(self.plan, seen, self.env)
        rows.looked_at(list(found), rows.together(found).cpu())
        rows.summarize(turn.readings)
        everyone = cohort.active_mask(self.members, self.device)
        self.learner = on_policy.renormalize(self.plan, turn.after, turn.rollout, hp, everyone)
        self.iteration += 1
