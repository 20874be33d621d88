"""Where cohorts train: in processes of this machine, or on the nodes of a Ray cluster (`--on ray`, or RLCLINIC_ON).

RLCLINIC_ON is not set            processes of this machine (`launch.local`)
RLCLINIC_ON=ray                   the cluster that RAY_ADDRESS names; without it, one that is started on this machine and ends with us
RLCLINIC_ON=ray://auto            the cluster that this machine is a node of
RLCLINIC_ON=ray://HOST:10001      a cluster elsewhere, through its Ray Client
RLCLINIC_ON=ray?gpus=0.25         four cohorts share a GPU; with every form

A trial or search that a worker does launches its cohorts as jobs of the queue instead (`launching`, `ops.jobs.start`).
Whatever the place, runs, progress, stops and results are the same, to the byte on CPUs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from rlclinic.errors import UsageError
from rlclinic.launch import local

VARIABLE: Final = "RLCLINIC_ON"
_FORMS: Final = "ray, ray://auto, ray://HOST:10001, each with ?gpus=0.25 behind it where cohorts share a GPU"


@dataclass(frozen=True)
class RayPlace:
    """A Ray cluster, and the share of a GPU that a cohort takes there."""

    address: str | None = None
    """As `ray.init` takes it; None: RAY_ADDRESS, else one of our own."""
    gpus: float = 1.0


@dataclass(frozen=True)
class Launcher:
    """A place of somebody else's making: what starts cohorts there, and how many cores it has."""

    start: Callable[..., local.Launch]
    """As `local.start`."""
    count_cores: Callable[[], int]


_launcher: ContextVar[Launcher | None] = ContextVar("launcher", default=None)


@contextmanager
def launching(launcher: Launcher) -> Iterator[None]:
    """Cohorts that the block starts are started by this one."""
    before = _launcher.set(launcher)
    try:
        yield
    finally:
        _launcher.reset(before)


def choose(given: str | None) -> None:
    """Take the place that an option names, for this process and its children."""
    if given is not None:
        read(given)
        os.environ[VARIABLE] = given


def current() -> RayPlace | None:
    """The Ray cluster where cohorts train; None: on this machine."""
    return read(os.environ.get(VARIABLE, ""))


def on_ray() -> bool:
    """Whether cohorts train on Ray."""
    return current() is not None


def read(text: str) -> RayPlace | None:
    """A place by its name; None for this machine."""
    name, _, query = text.strip().partition("?")
    if name in ("", "local") and not query:
        return None
    options = dict(parse_qsl(query, keep_blank_values=True))
    try:
        gpus = float(options.pop("gpus", 1.0))
    except ValueError:
        gpus = -1.0
    scheme, _, host = name.partition("://")
    if scheme != "ray" or options or (name != "ray" and not host) or not (0 < gpus <= 1 or (gpus > 0 and gpus.is_integer())):
        raise UsageError(f"{text!r} is no place to train on.\n  Nothing was started.\n  There are: local, {_FORMS}")
    return RayPlace(None if not host else "auto" if host == "auto" else name, gpus)


def is_elsewhere() -> bool:
    """Whether cohorts train on the nodes of a cluster that this process does not start, and take no cores of this machine."""
    place = current()
    return place is not None and (place.address is not None or bool(os.environ.get("RAY_ADDRESS")))


def count_cores(here: int | None = None) -> int:
    """Cores that cohorts may use: `here` on this machine (None: all that this process may use), else those of the cluster."""
    if (launcher := _launcher.get()) is not None:
        return launcher.count_cores()
    place = current()
    if place is None:
        return here or local.available_cores()
    from rlclinic.launch import ray

    return ray.count_cores(place)


def count_gpus() -> int:
    """Cohorts that GPUs take at a time: one on this machine."""
    place = current()
    if place is None:
        return 1
    from rlclinic.launch import ray

    return ray.count_gpus(place)


def have_gpu(here: bool) -> bool:
    """Whether there is a GPU to train on."""
    return here if current() is None else count_gpus() > 0


def start(
    cohorts: Sequence[Sequence[Path | str]],
    *,
    parallel: int | None = None,
    resume: bool = False,
    detach: bool = False,
    threads: int = 1,
    module: str = local.TRAINING,
    device: str = "cpu",
) -> local.Launch:
    """Train run folders as cohorts where RLCLINIC_ON says; the rest as `local.start`."""
    if (launcher := _launcher.get()) is not None:
        return launcher.start(cohorts, parallel=parallel, resume=resume, threads=threads)
    place = current()
    if place is None or detach:
        # What is left behind by a detached launch finds the same place.
        return local.start(cohorts, parallel=parallel, resume=resume, detach=detach, threads=threads, module=module, device=device)
    from rlclinic.launch import ray

    return ray.start(place, cohorts, parallel=parallel, resume=resume, threads=threads, module=module, device=device)
