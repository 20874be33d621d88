"""Every cell of the corpus: a task, a fault or none, seeds; and how cells become cohorts that train together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.diagnosis import faults
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.tasks import TASKS, Task
from rlclinic.config import Config
from rlclinic.config.algorithms import shape_key
from rlclinic.config.overrides import set_values
from rlclinic.errors import ConfigError

MILD: Final = 40
"""Odd but harmless variations of each task."""
LARGEST: Final = 160
"""Members of one cohort."""


@dataclass(frozen=True)
class Cell:
    """One group of runs to train."""

    task: Task
    faults: tuple[Fault, ...]
    split: str
    seeds: tuple[int, ...]
    config: Config

    @property
    def id(self) -> str:
        return f"{self.task.id}/" + "+".join(f"{fault.cause}:{fault.label}" for fault in self.faults) + f"/{self.split}"

    @property
    def env(self) -> EnvFault:
        """The faults of its environment, together."""
        return together([fault.env for fault in self.faults])

    @property
    def bug(self) -> str | None:
        return next((fault.bug for fault in self.faults if fault.bug), None)

    @property
    def cohort(self) -> Any:
        """Cells with equal keys can train as one cohort."""
        return (self.task.id, shape_key(self.config), self.bug, self.env.shape())

    def about(self) -> dict[str, Any]:
        """What a file says of it."""
        return {
            "id": self.id,
            "task": self.task.id,
            "split": self.split,
            "own": self.task.own,
            "causes": [fault.cause for fault in self.faults],
            "also": sorted({also for fault in self.faults for also in fault.also}),
            "labels": [fault.label for fault in self.faults],
            "kind": "two" if len(self.faults) > 1 else self.faults[0].kind,
        }


def together(parts: Sequence[EnvFault]) -> EnvFault:
    """Several faults of one environment."""
    joined, idle = EnvFault(), EnvFault()
    for part in parts:
        changed = {name: value for name, value in vars(part).items() if value != getattr(idle, name)}
        joined = replace(joined, **changed)
    return joined


def all_cells() -> Iterator[Cell]:
    """The whole corpus, in a fixed order."""
    for task in TASKS:
        yield from _single(task)
        yield from _healthy(task)
        if not task.costly and not task.fresh:
            yield from _double(task)


def _single(task: Task) -> Iterator[Cell]:
    for fault in (*faults.SETTINGS, *faults.ENVIRONMENTS, *faults.late(task), *faults.BUGS):
        if not fault.fits(task):
            continue
        # On a task that is only for testing every severity may be looked at; one is enough where a run is costly.
        split = "test" if task.split == "test" else fault.split
        if task.costly and (fault.split == "fit" and fault.bug is None):
            continue
        made = make(task, (fault,), split)
        if made is not None:
            yield made


def _healthy(task: Task) -> Iterator[Cell]:
    count = 8 if task.costly else 16 if task.fresh else MILD
    for fault in (*(faults.mild(index) for index in range(count)), *(() if task.costly else faults.SHAPES)):
        if fault.fits(task):
            made = make(task, (fault,), "test" if task.split == "test" else fault.split)
            if made is not None:
                yield made


def _double(task: Task) -> Iterator[Cell]:
    menu = {fault.cause: fault for fault in (*faults.SETTINGS, *faults.ENVIRONMENTS) if fault.split == "test" and fault.fits(task)}
    for first, second in faults.PAIRS:
        if first in menu and second in menu:
            made = make(task, (menu[first], menu[second]), "test")
            if made is not None:
                yield made


def make(task: Task, planted: tuple[Fault, ...], split: str) -> Cell | None:
    """A cell, or None where the fault cannot be expressed in this task's config."""
    config = task.config
    try:
        for fault in planted:
            changes = fault.settings(config)
            if fault.scores != 1.0 and config.spec.threshold is not None:
                changes = [*changes, f"spec.threshold={config.spec.threshold * fault.scores}"]
            config = set_values(config, changes) if changes else config
    except ConfigError:
        return None
    if all(f.env == EnvFault() and f.bug is None for f in planted) and config == task.config and planted[0].cause != "healthy":
        return None
    first = 0 if split == "fit" else 700 if task.fresh else 100
    # A group of three is measured; two are enough to fit on. Bugs of the cohort itself need company.
    count = 3 if split == "test" and not task.costly and not task.fresh else 2
    if planted[0].cause == "healthy":
        first, count = first + 10 * (1 + int(planted[0].label.rpartition("-")[2]) if "mild" in planted[0].label else 0), 2
    return Cell(task, planted, split, tuple(range(first, first + count)), config)


def cohorts(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells that train together, at most LARGEST members at a time."""
    by_key: dict[Any, list[Cell]] = {}
    for cell in cells:
        by_key.setdefault(cell.cohort, []).append(cell)
    made: list[list[Cell]] = []
    for group in by_key.values():
        part: list[Cell] = []
        for cell in group:
            if part and sum(len(each.seeds) for each in part) + len(cell.seeds) > (4 if cell.task.costly else LARGEST):
                made.append(part)
                part = []
            part.append(cell)
        made.append(part)
    return made
