"""Every cell of the worlds' corpus: a world, what is planted in it, seeds. Cells of equal shape train as one cohort."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.diagnosis import faults
from benchmarks.diagnosis.cells import Cell
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.tasks import Task
from benchmarks.diagnosis.worlds import families, learnable, planted
from rlclinic.config import Config
from rlclinic.config.algorithms import shape_key
from rlclinic.config.overrides import set_values
from rlclinic.errors import ConfigError

SPLITS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("split.json").read_text("utf-8"))
HEALTHY: Final = {
    "fit": 8,
    "held_out": 38,
    "reserve": 20,
    "second": 28,
    "third": 16,
    "fourth": 30,
    "fifth": 26,
    "sixth": 40,
    "seventh": 26,
    "eighth": 26,
}
"""Healthy and odd-but-healthy groups of each world."""
SEEDS: Final = {
    "fit": 0,
    "held_out": 300,
    "reserve": 600,
    "second": 900,
    "third": 1200,
    "fourth": 1500,
    "fifth": 1800,
    "sixth": 2100,
    "seventh": 2400,
    "eighth": 2700,
}
SMALL: Final = {
    "fit": 0.1,
    "held_out": 0.22,
    "reserve": 0.14,
    "second": 0.22,
    "third": 0.1,
    "fourth": 0.1,
    "fifth": 0.06,
    "sixth": 0.06,
    "seventh": 0.06,
    "eighth": 0.06,
}
"""Share of worlds in which faults are planted that need a program of their own."""
DRAWS: Final = {"third": 4}
"""Worlds of a family, where they are not all."""
MOST: Final = {"fourth": 3, "fifth": 3, "sixth": 2, "seventh": 2, "eighth": 2}
"""Worlds of a family at most: the first ones that are learned."""


@dataclass(frozen=True)
class WorldTask(Task):
    """A world with settings that it is learned with."""

    @property
    def config(self) -> Config:
        return learnable.base(self.id)

    @property
    def continuous(self) -> bool:
        return families.world(self.id).dims > 0


@dataclass(frozen=True)
class WorldCell(Cell):
    """A group to train; the threshold is put in afterwards, so that groups with different ones can share a program."""

    threshold: float = 0.0
    part: str = "fit"

    @property
    def cohort(self) -> Any:
        return (self.task.id, shape_key(self.config), self.bug, self.env.shape())

    def about(self) -> dict[str, Any]:
        environment = all(fault.cause in planted.ENVIRONMENT_CAUSES for fault in self.faults)
        return {**super().about(), "part": self.part, "family": families.world(self.task.id).family, "environment": environment}


def worlds(part: str) -> list[str]:
    """The worlds of one part of the split that are learned, family by family, and those that an earlier part left untrained."""
    measured, found = learnable.load(), list(SPLITS["left"].get(part, ()))
    for family in SPLITS[part]:
        names = families.names(family, draws=DRAWS.get(part, families.DRAWS))
        found += [name for name in names if measured.get(name, {}).get("learned")][: MOST.get(part)]
    return found


def all_cells(part: str) -> Iterator[WorldCell]:
    """The cells of one part of the split, in a fixed order."""
    measured = learnable.load()
    for name in worlds(part):
        yield from _of_world(WorldTask(name, "", "fit" if part == "fit" else "test", own=True), measured[name], part)


def _of_world(task: WorldTask, measured: dict[str, Any], part: str) -> Iterator[WorldCell]:
    yield from _single(task, measured, part)
    for number in range(HEALTHY[part]):
        yield from _cell(task, (faults.mild(number),), measured, part, number + 1)
    for fault in (*faults.SHAPES, *planted.THRESHOLD):
        if planted.draw(task.id, fault.label) < SMALL[part] or fault.cause != "healthy":
            yield from _cell(task, (fault,), measured, part)
    yield from _double(task, measured, part)


def _single(task: WorldTask, measured: dict[str, Any], part: str) -> Iterator[WorldCell]:
    base, small = task.config, SMALL[part]
    for cause, choices in planted.menu(base).items():
        fitting = [fault for fault in choices if fault.fits(task)]
        if not fitting:
            continue
        chosen = fitting[int(planted.draw(task.id, cause) * len(fitting))]
        for cell in _cell(task, (chosen,), measured, part):
            alone = shape_key(cell.config) != _base_shape(task.id) or cell.env.shape() != EnvFault().shape()
            environment = cause in planted.ENVIRONMENT_CAUSES
            share = (1.5 if environment else 1) * small if alone else 1.0 if environment else 0.5
            if planted.draw(cause, task.id, "planted") < share:
                yield cell
    for fault in planted.BUGS:
        if fault.fits(task) and planted.draw(fault.label, task.id) < 0.6 * small:
            yield from _cell(task, (fault,), measured, part)


def _double(task: WorldTask, measured: dict[str, Any], part: str) -> Iterator[WorldCell]:
    base = task.config
    menu = planted.menu(base)
    for first, second in planted.PAIRS:
        if planted.draw(first, second, task.id) < 0.35:
            for cell in _cell(task, tuple(menu[cause][-1] for cause in (first, second)), measured, part):
                if shape_key(cell.config) == _base_shape(task.id):
                    yield cell


def _cell(task: WorldTask, chosen: Sequence[Fault], measured: dict[str, Any], part: str, more: int = 0) -> Iterator[WorldCell]:
    """A cell, or nothing where its config would not be valid or nothing would be changed."""
    config, scores = task.config, 1.0
    try:
        for fault in chosen:
            if changes := fault.settings(config):
                config = set_values(config, changes)
            scores *= fault.scores
    except ConfigError:
        return
    threshold = measured["threshold"] * scores
    if chosen[0].cause == "threshold-out-of-reach":
        best = max(measured["ends"])
        threshold = best + 0.4 * max(abs(best), best - measured["random"])
    elif config == task.config and chosen[0].cause != "healthy" and all(f.env == EnvFault() and f.bug is None for f in chosen):
        return
    seed = SEEDS[part] + 2 * more
    yield WorldCell(task, tuple(chosen), "fit" if part == "fit" else "test", (seed, seed + 1), config, round(threshold, 6), part)


@cache
def _base_shape(name: str) -> Any:
    return shape_key(learnable.base(name))


def with_threshold(cell: WorldCell, run: Any) -> Any:
    """A run as it would be with its threshold in the config."""
    return replace(run, threshold=cell.threshold, settings={**run.settings, "spec.threshold": cell.threshold})
