"""`python -m benchmarks.diagnosis.witnessed --part fit`: how often an environment that is examined beside a log names its own fault.

Faults of environments are planted in worlds, one world of each family in turn, as Gymnasium environments. The log beside them says nothing
but that returns stay at what random actions bring: what is right is the environment's testimony alone, joined as `diagnose --env
--eval-env` joins it. `--part odd` plants them in environments unlike any world (benchmarks.diagnosis.environments.odd); `--part sound`
looks at those, at more of odd kinds and at Gymnasium's own, all of them sound, and `--part uncommon` at sound ones of kinds that no other
part has (benchmarks.diagnosis.environments.uncommon_sound); `--part everyday` plants these faults and more in five
environments that were written to attack the checks (benchmarks.diagnosis.environments.everyday), `--part third_party` in sixteen that
others published (benchmarks.diagnosis.environments.third_party says which packages), `--part strangers` in ten more whose
mistakes are made in their own code (benchmarks.diagnosis.environments.strangers); `--part visitors` looks at twelve by a guest who had
not read the checks, with mistakes in their text (benchmarks.diagnosis.environments.visitors), and `--part second_guest` at fourteen by
another (benchmarks.diagnosis.environments.second_guest). Of those, `second_guest_open` names its misses; of `second_guest_sealed` nothing
is printed but totals.
Faults that begin in the middle of a run are left out, since a fresh environment does not have them. For `evaluation-mismatch` the
answer that evaluation uses another environment is right. Families that are held out are looked at once, and the row says when.
"""

import argparse
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis.environments import everyday, odd, odd_sound, second_guest, strangers, third_party, uncommon_sound, visitors
from benchmarks.diagnosis.faults import Fault
from benchmarks.diagnosis.faulty import EnvFault
from benchmarks.diagnosis.measure import wilson
from benchmarks.diagnosis.worlds import cells, families, gym_worlds, learnable, planted
from rlclinic.diagnosis import engine, environment_evidence
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Severity
from rlclinic.diagnosis.lint.env import lint_facts
from rlclinic.diagnosis.rules import cases
from rlclinic.runs.history import History
from rlclinic.training.envs.examine import contract, environment, play
from rlclinic.training.envs.examine.environment import examine

SECONDS = 120.0
"""So long that steps, and not a busy machine, decide when a look is over."""
LIMITS: Final = {"10%": 0.1, "7% terminal": 0.07, "15%": 0.15}
"""Shares of the world's time limit, by a fault's label."""
ODD_SCORES: Final = {
    "reward x1e4": 1e4, "reward /1e4": 1e-4, "cents": 1e-3, "shares of a cent": 1e-4, "bill in millicents": 1e4,
}  # fmt: skip
"""What a fault multiplies good returns with."""
GUESTS: Final[dict[str, Any]] = {"visitors": visitors, "second_guest": second_guest}
GUEST_PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "visitors": ("visitors", visitors.NAMES),
    "second_guest": ("second_guest", second_guest.NAMES),
    "second_guest_open": ("second_guest", second_guest.OPEN),
    "second_guest_sealed": ("second_guest", second_guest.SEALED),
}
"""The parts that guests wrote: whose, and which environments of theirs."""
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


@dataclass(frozen=True)
class OddCell:
    """One environment unlike any world; `evaluation`: its fault lies in the environment of evaluation alone."""

    world: str
    name: str
    evaluation: bool = False

    @property
    def fault(self) -> str | None:
        return self.name or None

    @property
    def accepted(self) -> set[str]:
        if self.world in strangers.MAKERS:
            return strangers.WRONG[self.world, self.name]
        if self.world in third_party.WORLDS:
            return set(third_party.FAULTS[self.name][1])
        return (odd.EVALUATION if self.evaluation else everyday.FAULTS)[self.name][2]


@dataclass(frozen=True)
class VisitorCell:
    """One environment of a guest: as it is, with a mistake in its text, or odd but sound."""

    world: str
    name: str
    guest: str = "visitors"

    @property
    def mistake(self) -> visitors.Slip | None:
        mistake: visitors.Slip | None = GUESTS[self.guest].slip(self.world, self.name)
        return mistake

    @property
    def fault(self) -> str | None:
        return self.name if self.mistake else None

    @property
    def accepted(self) -> set[str]:
        return set(self.mistake.accepted) if self.mistake else set()


def is_sealed(cell: "Cell | OddCell | VisitorCell") -> bool:
    """Whether it may only be counted: nobody is to learn how it was answered."""
    return isinstance(cell, VisitorCell) and cell.guest == "second_guest" and cell.world in second_guest.SEALED


def list_cells(part: str, worlds_each: int) -> "Iterator[Cell | OddCell | VisitorCell]":
    """Every fault in some worlds, each of another family; and every sound world once. Odd environments have every fault that fits."""
    if part == "odd":
        for name in odd.SOUND:
            for evaluation, faults in enumerate((odd.FAULTS, odd.EVALUATION)):
                yield from (OddCell(name, label, bool(evaluation)) for label, fault in faults.items() if odd.fits(name, fault[1]))
            yield OddCell(name, "")
        return
    if part == "everyday":
        for name in everyday.SOUND:
            yield from (OddCell(name, label) for label, fault in everyday.FAULTS.items() if everyday.fits(name, fault[1]))
            yield OddCell(name, "")
        return
    if part in GUEST_PARTS:
        guest, names = GUEST_PARTS[part]
        changed = [*GUESTS[guest].SLIPS, *GUESTS[guest].VARIANTS]
        yield from (VisitorCell(world, name, guest) for world, name in changed if world in names)
        yield from (VisitorCell(name, "", guest) for name in names)
        return
    if part == "strangers":
        yield from (OddCell(world, name) for world, name in strangers.WRONG)
        yield from (OddCell(world, "") for world in strangers.MAKERS)
        return
    if part == "third_party":
        yield from (OddCell(world, label) for world, label in third_party.cells())
        yield from (OddCell(world, "") for world in third_party.WORLDS)
        return
    if part in ("sound", "uncommon"):
        yield from (OddCell(name, "") for name in (odd_sound.ALL if part == "sound" else uncommon_sound.SOUND))
        return
    # Worlds that an earlier part left belong to families that were examined with it.
    known = [name for name in cells.worlds(part) if families.world(name).family in cells.SPLITS[part]]
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


def _look_for(seconds: float) -> None:
    global SECONDS
    SECONDS = seconds


def look(cell: Cell | OddCell | VisitorCell) -> tuple[str, float, bool, bool]:
    """The first cause, its probability, whether that is right (of a sound world: whether it is not the environment's), and HIGH."""
    play.RANDOM_STEPS, play.CONSTANT_STEPS = 3_000, 300
    play.speed = _assume_speed
    environment.MOST_SEARCH = SECONDS
    contract.MOST_WAITED = 1e6  # However long this machine has no core to spare.
    if isinstance(cell, VisitorCell):
        facts, threshold = _look_at_visitor(cell)
    else:
        facts, threshold = _look_at_odd(cell) if isinstance(cell, OddCell) else _look_at_world(cell)
    run = _silent_log(facts[0], threshold)
    beside = (lint_facts(facts[1]), facts[1]) if len(facts) > 1 else None
    first = environment_evidence.join(engine.diagnose([run]), [Case(run)], lint_facts(facts[0]), facts[0], beside).causes[0]
    high = first.severity is Severity.HIGH
    if cell.fault is None:
        return first.id, first.probability, not first.moved_first.startswith("seen in the environment"), high
    return first.id, first.probability, first.id in cell.accepted, high


def _look_at_world(cell: Cell) -> tuple[list[dict[str, Any]], float | None]:
    """What is seen of the environments of training and evaluation, and the threshold."""
    fault = EnvFault() if cell.fault is None else cell.fault.env
    share = LIMITS.get(cell.fault.label, 1.0) if cell.fault is not None else 1.0
    limit = max(4, round(families.world(cell.world).limit * share))
    sides = [EnvFault() if fault.eval_only else fault, EnvFault() if fault.train_only else fault]
    facts = [examine(_maker(cell.world, side, limit), cell.world, SECONDS, searches=place == 0) for place, side in enumerate(sides)]
    scores = 1.0 if cell.fault is None else cell.fault.scores
    return facts, float(learnable.load()[cell.world]["threshold"]) * scores


def _look_at_odd(cell: OddCell) -> tuple[list[dict[str, Any]], float | None]:
    """The same; the threshold is most of the way from random actions to the best simple policy of the sound environment, if either ends."""
    if cell.world in uncommon_sound.SOUND:
        return [examine(uncommon_sound.SOUND[cell.world], cell.world, SECONDS, searches=True)], uncommon_sound.threshold(cell.world)
    if cell.world in third_party.WORLDS:
        changed = partial(third_party.make, cell.world, cell.name)
        return [examine(changed, cell.world, SECONDS, searches=True)], third_party.threshold(cell.world, cell.name)
    make = {**odd_sound.ALL, **everyday.SOUND, **strangers.MAKERS}[cell.world]
    sound = examine(make, cell.world, SECONDS, searches=True)
    returns = sound["random"].get("returns") or [0.0]
    level = float(np.mean(returns))
    best = (sound.get("search") or {}).get("best", level + 3 * float(np.std(returns)))
    threshold = (level + 0.8 * max(best - level, 0.1)) * ODD_SCORES.get(cell.name, 1.0) if sound["random"].get("returns") else None
    if cell.evaluation:
        return [sound, examine(lambda: odd.EVALUATION[cell.name][0](make()), cell.world, SECONDS)], threshold
    if not cell.name:
        return [sound], threshold
    if cell.world in strangers.MAKERS:
        return [examine(lambda: strangers.MAKERS[cell.world](cell.name), cell.world, SECONDS, searches=True)], threshold
    return [examine(lambda: everyday.FAULTS[cell.name][0](make()), cell.world, SECONDS, searches=True)], threshold


def _look_at_visitor(cell: VisitorCell) -> tuple[list[dict[str, Any]], float | None]:
    """The same; the threshold is its author's."""
    guest, mistake = GUESTS[cell.guest], cell.mistake
    changed = guest.maker(cell.world, cell.name)
    if mistake is None:
        return [examine(changed, cell.world, SECONDS, searches=True)], guest.threshold(cell.world, cell.name)
    threshold = guest.threshold(cell.world) * mistake.scores
    if mistake.evaluation:
        sound = examine(guest.maker(cell.world), cell.world, SECONDS, searches=True)
        return [sound, examine(changed, cell.world, SECONDS)], threshold
    return [examine(changed, cell.world, SECONDS, searches=True)], threshold


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
    parser.add_argument(
        "--part", choices=(*cells.SEEDS, "odd", "sound", "uncommon", "everyday", "strangers", "third_party", *GUEST_PARTS), default="fit"
    )
    parser.add_argument("--worlds", type=int, default=2, help="worlds for each fault")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th cell, to try it out")
    parser.add_argument("--first", type=int, default=0, help="of those, the place of the first")
    parser.add_argument("--sound", action="store_true", help="only those without a fault")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--each", action="store_true", help="name right answers, too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each environment; `diagnose --env` takes 20")
    asked = parser.parse_args()
    wanted = list(list_cells(asked.part, asked.worlds))
    if (asked.first or asked.every > 1) and any(map(is_sealed, wanted)):
        parser.error("--first and --every pick single cells, and of a sealed part only totals are told: leave them out.")
    wanted = wanted[asked.first :: asked.every]
    wanted = [cell for cell in wanted if not asked.sound or cell.fault is None]
    with get_context("spawn").Pool(asked.processes, _look_for, (asked.seconds,)) as pool:
        answers = []
        for cell, answer in zip(wanted, pool.imap(look, wanted), strict=True):
            answers.append(answer)
            first, odds, right, high = answer
            if (asked.each or not right) and not is_sealed(cell):
                name = (
                    f"sound {cell.name if isinstance(cell, VisitorCell) else ''}".strip()
                    if cell.fault is None
                    else cell.fault
                    if isinstance(cell.fault, str)
                    else f"{cell.fault.cause}/{cell.fault.label}"
                )
                print(f"{name:40} {cell.world:16} {first} {odds:.2f}{' HIGH' if high else ''}{' right' if right else ''}", flush=True)
    faults = [answer for cell, answer in zip(wanted, answers, strict=True) if cell.fault is not None]
    sound = [answer for cell, answer in zip(wanted, answers, strict=True) if cell.fault is None]
    rows = []
    kinds = {
        "odd": "environments unlike any world",
        "sound": "odd and well-known environments",
        "uncommon": "environments of kinds that no other part has",
        "everyday": "five more environments",
        "strangers": "ten environments with mistakes in their own code",
        "third_party": "sixteen environments that others published",
        "visitors": "twelve environments of a guest",
        "second_guest": "fourteen environments of a second guest",
        "second_guest_open": "the open seven of a second guest",
        "second_guest_sealed": "the sealed seven of a second guest",
    }
    where = kinds.get(asked.part, f"{asked.part} families")
    for what, bar, better, hits, count in [
        (f"with --env, {where}: environment faults, top-1", 95, "higher", sum(each[2] for each in faults), len(faults)),
        (
            f"with --env, {where}: sound ones, a cause in the environment",
            0,
            "lower",
            sum(not each[2] for each in sound),
            len(sound),
        ),
        (
            f"with --env, {where}: sound ones, a cause in the environment at HIGH",
            0,
            "lower",
            sum(not each[2] and each[3] for each in sound),
            len(sound),
        ),
    ][int(not faults) :]:
        share = wilson(hits, count)
        interval = [100 * share["low"], 100 * share["high"]]
        rows.append(
            {"what": what, "unit": "%", "better": better, "bar": bar, "value": 100 * share["share"], "interval": interval, "n": count}
        )
        print(f"{what:80} {100 * share['share']:.1f} % [{interval[0]:.1f}, {interval[1]:.1f}], n = {count}")
    command = f"python -m benchmarks.diagnosis.witnessed --part {asked.part} --worlds {asked.worlds}" + (" --sound" if asked.sound else "")
    command += f" --seconds {asked.seconds:g}" if asked.seconds != SECONDS else ""
    # The file of looks is written by hand: every look is kept beside the ones before.
    provenance.write("witness", rows, provenance.provenance(command), quick=True)


if __name__ == "__main__":
    main()
