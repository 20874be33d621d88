"""`python -m benchmarks.diagnosis.witnessed --part fit`: how often an environment that is examined beside a log names its own fault.

Faults of environments are planted in worlds, one world of each family in turn, as Gymnasium environments. The log beside them says nothing
but that returns stay at what random actions bring: what is right is the environment's testimony alone, joined as `diagnose --env
--eval-env` joins it. `--part odd` plants them in environments unlike any world (benchmarks.diagnosis.environments.odd).
Faults that begin in the middle of a run are left out, since a fresh environment does not have them. For `evaluation-mismatch` the
answer that evaluation uses another environment is right. Families that are held out are looked at once, and the row says when.
"""

import argparse
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.measure import wilson
from benchmarks.diagnosis.worlds import cells, families, gym_worlds, learnable, planted
from rlclinic.diagnosis import engine, witness
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from rlclinic.training.envs.examine import play
from rlclinic.training.envs.examine.environment import examine

SECONDS: Final = 120.0
"""So long that steps, and not a busy machine, decide when a look is over."""
LIMITS: Final = {"10%": 0.1, "7% terminal": 0.07, "15%": 0.15}
"""Shares of the world's time limit, by a fault's label."""
RETURN: Final = "train/roll/ep_rew_mean"
SYNONYMS: Final = {"evaluation-mismatch": {"evaluation-environment-differs"}}


@dataclass(frozen=True)
class Cell:
    """One environment to look at."""

    world: str
    place: int | None
    """Of its fault in the list; None: sound."""

    @property
    def fault(self) -> Fault | None:
        return None if self.place is None else planted.ENVIRONMENTS[self.place]

    @property
    def accepted(self) -> set[str]:
        if self.fault is None:
            return set()
        return {self.fault.cause, *self.fault.also, *SYNONYMS.get(self.fault.cause, ())}


def list_cells(part: str, worlds_each: int) -> Iterator[Cell]:
    """Every fault in some worlds, each of another family; and every sound world once."""
    chosen = list(cells.SPLITS[part])
    known = [name for name in families.names(*chosen) if learnable.load()[name]["learned"]]
    for place, fault in enumerate(planted.ENVIRONMENTS):
        fitting = [name for name in known if families.world(name).dims or fault.cause != "action-bounds"]
        order = sorted(fitting, key=lambda name: zlib.crc32(f"{name}/{place}".encode()))
        kept: dict[str, str] = {}
        for name in order:
            kept.setdefault(families.world(name).family, name)
        yield from (Cell(name, place) for name in list(kept.values())[:worlds_each])
    yield from (Cell(name, None) for name in known)


def _assume_speed(env: Any, seconds: float = 1.0, steps: int = 5_000) -> dict[str, float]:
    """A speed that no finding minds: how fast a machine steps a world is not asked here."""
    return {"steps": 1_000.0, "seconds": 0.1}


def look(cell: Cell) -> tuple[str, float, bool]:
    """The first cause, its probability, and whether that is right (for a sound world: whether it is not the environment's)."""
    play.RANDOM_STEPS, play.CONSTANT_STEPS = 3_000, 300
    play.speed = _assume_speed
    fault = EnvFault() if cell.fault is None else cell.fault.env
    share = LIMITS.get(cell.fault.label, 1.0) if cell.fault is not None else 1.0
    limit = max(4, round(families.world(cell.world).limit * share))
    sides = [EnvFault() if fault.eval_only else fault, EnvFault() if fault.train_only else fault]
    facts = [examine(_maker(cell.world, side, limit), cell.world, SECONDS, searches=place == 0) for place, side in enumerate(sides)]
    scores = 1.0 if cell.fault is None else cell.fault.scores
    threshold = float(learnable.load()[cell.world]["threshold"]) * scores
    run = _silent_log(facts[0], threshold)
    found = witness.join(engine.diagnose([run]), [Case(run)], lint_facts(facts[0]), facts[0], (lint_facts(facts[1]), facts[1]))
    first = found.causes[0]
    if cell.fault is None:
        return first.id, first.probability, not first.moved_first.startswith("seen in the environment")
    return first.id, first.probability, first.id in cell.accepted


def _maker(world: str, fault: EnvFault, limit: int) -> Any:
    made = iter(range(10_000))
    return lambda: gym_worlds.make(world, fault, limit, seed=next(made))


def _silent_log(facts: dict[str, Any], threshold: float | None) -> History:
    """A run whose returns stay where they began, without a setting or a column that would say why."""
    returns = (facts.get("random") or {}).get("returns") or [0.0]
    # A mean of twenty episodes at each row.
    noise = np.std(returns) / np.sqrt(20) * np.random.default_rng(0).standard_normal(1_000)
    level = float(np.mean(returns))
    if threshold is not None:
        level = min(level, threshold - max(0.1 * abs(threshold), 4 * float(np.abs(noise).max())))
    run = cases.foreign({RETURN: lambda share: level + noise[: np.size(share)]})
    assert isinstance(run, History)
    return replace(run, series={RETURN: run.series[RETURN]}, settings={}, threshold=threshold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fit", "held_out", "reserve"), default="fit")
    parser.add_argument("--worlds", type=int, default=2, help="worlds for each fault")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th cell, to try it out")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    wanted = list(list_cells(asked.part, asked.worlds))[:: asked.every]
    with get_context("spawn").Pool(asked.processes) as pool:
        answers = pool.map(look, wanted, chunksize=4)
    for cell, (first, odds, right) in zip(wanted, answers, strict=True):
        if not right:
            name = "sound" if cell.fault is None else f"{cell.fault.cause}/{cell.fault.label}"
            print(f"{name:40} {cell.world:16} {first} {odds:.2f}")
    faults = [answer for cell, answer in zip(wanted, answers, strict=True) if cell.fault is not None]
    sound = [answer for cell, answer in zip(wanted, answers, strict=True) if cell.fault is None]
    rows = []
    for what, bar, better, hits, count in (
        (f"with --env, {asked.part} families: environment faults, top-1", 95, "higher", sum(each[2] for each in faults), len(faults)),
        (
            f"with --env, {asked.part} families: sound worlds, a cause in the environment",
            0,
            "lower",
            sum(not each[2] for each in sound),
            len(sound),
        ),
    ):
        share = wilson(hits, count)
        interval = [100 * share["low"], 100 * share["high"]]
        rows.append(
            {"what": what, "unit": "%", "better": better, "bar": bar, "value": 100 * share["share"], "interval": interval, "n": count}
        )
        print(f"{what:80} {100 * share['share']:.1f} % [{interval[0]:.1f}, {interval[1]:.1f}], n = {count}")
    command = f"python -m benchmarks.diagnosis.witnessed --part {asked.part} --worlds {asked.worlds}"
    provenance.write("witness", rows, provenance.provenance(command), quick=asked.every > 1)


if __name__ == "__main__":
    main()
