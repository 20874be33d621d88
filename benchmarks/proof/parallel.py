"""Simulations on all cores: the figures do not depend on how many there are.

PROOF_WORKERS=1 simulates in this process, as the tests do.
"""

import multiprocessing
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_tasks: Sequence[Callable[[], Any]] = ()


def workers() -> int:
    """Processes at a time."""
    return int(os.environ.get("PROOF_WORKERS", "0")) or len(os.sched_getaffinity(0))


def evaluate(tasks: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """What each task comes to, under its name."""
    return dict(zip(tasks, _evaluate(list(tasks.values())), strict=True))


def add_up(work: Callable[[np.random.Generator, int], Any], cases: int, seed: int, block: int) -> Any:
    """The sum of `work(rng, cases)`, a number or several, over blocks of so many cases, each with random numbers of its own."""
    sizes = [min(block, cases - start) for start in range(0, cases, block)]

    def task(number: int, size: int) -> Callable[[], Any]:
        return lambda: np.asarray(work(np.random.default_rng([seed, number]), size))

    return sum(_evaluate([task(number, size) for number, size in enumerate(sizes)]))


def _evaluate(tasks: Sequence[Callable[[], T]]) -> list[T]:
    global _tasks  # children of a fork see it: closures need not be pickled
    if workers() == 1 or len(tasks) == 1 or multiprocessing.parent_process() is not None:
        return [task() for task in tasks]
    _tasks = tasks
    with multiprocessing.get_context("fork").Pool(min(workers(), len(tasks))) as pool:
        return pool.map(_run, range(len(tasks)), chunksize=1)


def _run(place: int) -> Any:
    return _tasks[place]()
