"""A few iterations of a config, timed: real training into folders that are thrown away, without evaluations and checkpoints."""

import math
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch

from rlclinic.config import Config
from rlclinic.runs.store import Store
from rlclinic.training import assembly, rows, trainer
from rlclinic.training.engines import gpu_memory
from rlclinic.training.stopwatch import Stopwatch, put_around
from rlclinic.training.trainer import Session

WARM_UPS: Final = 2


@dataclass(frozen=True)
class Measured:
    """What a few iterations of a config took."""

    engine: str
    why: str
    device: str
    env_steps_per_second: float
    iteration_seconds: float
    env_steps_per_iteration: int
    phases: dict[str, float]
    """Seconds per iteration, where they can be told apart (the eager engine); else empty."""
    memory_mib: float
    cpu_busy: float
    """Processor time of this process over wall time: 1 is one core at work all the time, less is waiting."""
    gpu_busy: float | None = None
    """Where that was asked, and there is one."""

    @property
    def env_steps_per_core_second(self) -> float:
        """Env steps per second in which this process had a core: the same on a busy machine, and without meaning for work elsewhere."""
        return self.env_steps_per_second / self.cpu_busy


def measure(config: Config, members: int, seconds: float, *, apart: bool = False, busy: bool = False) -> Measured:
    """Train a few iterations, for about so many seconds after a warm-up.

    apart: also by phase, which costs some of the speed. busy: also how busy a GPU is, which costs some seconds.
    """
    torch.set_num_threads(config.run.threads)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with (
        TemporaryDirectory(prefix="rlclinic-profile-") as folder,
        gpu_memory.enough_for(members),
        _session(config, members, Path(folder)) as session,
    ):
        _warm_up(session, seconds)
        cohort = session.cohort
        watch = Stopwatch(cohort.device, elsewhere=config.env.workers > 0 or getattr(config.algo, "n_actors", 0) > 0) if apart else None
        with ExitStack() as undo:
            if watch is not None:
                put_around(watch, cohort.env, undo)
            found = _timed(session, watch, seconds)
        return replace(found, gpu_busy=_busy(session, found.iteration_seconds)) if busy and cohort.device.type == "cuda" else found


@contextmanager
def _session(config: Config, members: int, folder: Path) -> Iterator[Session]:
    """A cohort in training that has no end, evaluates nothing, and learns as soon as it can."""
    run = config.run.model_copy(update={"eval_episodes": 0, "tensorboard": False, "stop_at_threshold": False})
    starts = getattr(config.algo, "learning_starts", None)
    soon = {} if starts is None else {"learning_starts": min(starts, config.rollout_size + config.batch_rows)}
    config = config.model_copy(update={"run": run, "algo": config.algo.model_copy(update=soon)})
    configs = [config.model_copy(update={"seed": config.seed + number}) for number in range(members)]
    # A random policy's return is measured once per run; here nobody asks for it.
    group = Store(folder).create_group(configs, extra={"random_policy": {}})
    session = Session(assembly.assemble([(each, assembly.load(each, resume=False)) for each in group.runs]))
    try:
        yield session
    finally:
        trainer.close(session)


def _warm_up(session: Session, seconds: float) -> None:
    """Past the first iterations (one, where it is a long one), and with a replay to where gradient steps begin."""
    cohort, until = session.cohort, time.perf_counter() + seconds
    _iterate(session)
    while cohort.iteration < WARM_UPS and time.perf_counter() < until:
        _iterate(session)
    while cohort.env_steps <= getattr(cohort.config.algo, "learning_starts", 0):
        _iterate(session)


def _iterate(session: Session) -> None:
    """An iteration as `trainer.train` makes it, with a row where one is due."""
    row_due = (session.cohort.iteration + 1) % _row_every(session) == 0
    found = trainer.iterate(session, row_due=row_due, costly=False)
    if row_due:
        trainer.prepare_row(session, found)
        trainer.write_rows(session, None)


def _row_every(session: Session) -> int:
    cohort = session.cohort
    return math.ceil(rows.spacing(cohort.config, len(cohort.members), cohort.plan.engine) / cohort.config.rollout_size)


def _timed(session: Session, watch: Stopwatch | None, seconds: float) -> Measured:
    cohort = session.cohort
    cuda, cycle = cohort.device.type == "cuda", _row_every(session)
    before, began, worked = cohort.iteration, time.perf_counter(), time.process_time()
    # Whole cycles from row to row: what a row costs is shared by its iterations.
    while cohort.iteration == before or time.perf_counter() - began < seconds:
        for _ in range(cycle):
            _iterate(session)
    if cuda:
        torch.cuda.synchronize()
    spent, work = time.perf_counter() - began, time.process_time() - worked
    iterations = cohort.iteration - before
    phases = {} if watch is None else {name: value / iterations for name, value in watch.finish(spent, work).items()}
    held = torch.cuda.max_memory_allocated() / 2**20 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    each = spent / iterations
    return Measured(
        engine=cohort.plan.engine,
        why=cohort.engine_why,
        device=cohort.device.type,
        env_steps_per_second=cohort.config.rollout_size * len(cohort.members) / each,
        iteration_seconds=each,
        env_steps_per_iteration=cohort.config.rollout_size,
        phases=phases,
        memory_mib=held,
        cpu_busy=work / spent,
    )


def _busy(session: Session, iteration_seconds: float) -> float:
    """The share of an iteration in which the GPU computes: its operations' own times, over the time without a profiler."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    with recording(activities=[ProfilerActivity.CUDA], acc_events=True) as record:
        for _ in range(WARM_UPS):
            _iterate(session)
        torch.cuda.synchronize()
    computing: Any = sum(average.self_device_time_total for average in record.key_averages()) / 1e6 / WARM_UPS
    return min(1.0, float(computing) / iteration_seconds)
