"""`python -m benchmarks.diagnosis.worlds.look second`: what the diagnosis says about families that it has never met, once.

The answers are kept in benchmarks/diagnosis/looks. A second look at the same families is refused, as whatever was changed since was
changed with them in sight. `rows` makes the table's rows of a look that was taken.
"""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis.worlds import corpus, sb3_cells
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.causes import UNKNOWN
from rlclinic.diagnosis.findings import Severity
from rlclinic.runs.history import History

FOLDER: Final = Path(__file__).parents[1] / "looks"
LOOKS: Final = {
    "held_out": ("held_out",), "second": ("reserve", "second"), "third": ("third",), "fourth": ("fourth",), "fifth": ("fifth",),
    "sixth": ("sixth",), "seventh": ("seventh",), "eighth": ("eighth",),
}  # fmt: skip
"""Parts of the split that a look is at."""
LATER: Final = {"sixth_sb3": ("sixth", ("catcher-0", "sorter-0"))}
"""Worlds whose cells of SB3 were trained after their part was looked at: they are looked at once as well, with the code of that day.
The part's rules were frozen when it was first looked at, and our own logs of these worlds were seen then."""
ADDED: Final = "with cells added later"
SURE: Final = 0.75
WELL: Final = ("healthy", UNKNOWN, "no-reference", "too-early")


@dataclass(frozen=True)
class Seen:
    """One group's answer."""

    id: str
    view: str
    """ours, callback or plain."""
    role: str
    kind: str
    environment: bool
    tellable: bool
    causes: tuple[str, ...]
    answers: tuple[str, ...]
    """The first three causes."""
    probability: float
    first_kind: str
    first_high: bool
    alarmed: bool
    """A finding or a cause is HIGH."""
    right: bool

    @property
    def both(self) -> bool:
        return set(self.causes) <= set(self.answers)

    @property
    def says_cannot_tell(self) -> bool:
        """The first answer names no cause: it is a symptom with its possible causes, unknown, or too early to tell."""
        return self.first_kind in ("symptom", "cannot tell")


def answer(id: str, view: str, role: str, about: dict[str, Any], accepted: frozenset[str], runs: Sequence[History]) -> Seen:
    """Diagnose one group."""
    found = engine.diagnose(list(runs))
    first = found.causes[0]
    severities = [finding.severity for finding in found.findings] + [cause.severity for cause in found.causes]
    named = tuple(cause.id for cause in found.causes if cause.id != UNKNOWN)[:3]
    causes = tuple(about.get("causes", (about.get("fault"),)))
    return Seen(
        id=id,
        view=view,
        role=role,
        kind=about.get("kind", "user"),
        environment=bool(about["environment"]),
        tellable=causes[0] in sb3_cells.TELLABLE,
        causes=causes,
        answers=(UNKNOWN, *named)[:3] if first.id == UNKNOWN else named,
        probability=first.probability,
        first_kind=first.kind,
        first_high=first.severity == Severity.HIGH,
        alarmed=Severity.HIGH in severities,
        right=first.id in accepted,
    )


def answers(parts: Sequence[str], processes: int = 2, sb3_worlds: Sequence[str] = ()) -> list[Seen]:
    """Every group of some parts of the split that counts; only SB3's cells of some worlds, where such are named."""
    asked: list[tuple[Any, ...]] = []
    for part in parts:
        asked += [
            (group.id, "ours", group.role, group.about, group.accepted, group.runs)
            for group in corpus.load(part)
            if group.role != "unclear" and not sb3_worlds
        ]
        for cell in corpus.load_sb3(part):
            if cell.role != "dropped" and (not sb3_worlds or cell.about["task"] in sb3_worlds):
                asked += [
                    (cell.about["name"], view, cell.role, cell.about, cell.accepted, runs)
                    for view, runs in (("callback", cell.sentinels), ("plain", cell.plain))
                ]
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.starmap(answer, asked, chunksize=16)


def rows(seen: Sequence[Seen], look: str) -> dict[str, Any]:
    """The table's rows."""

    def of(view: str, *conditions: Callable[[Seen], bool]) -> list[Seen]:
        faults = [each for each in seen if each.view == view and each.role == "fault" and each.kind == "user"]
        return [each for each in faults if all(condition(each) for condition in conditions)]

    every = [each for view in ("ours", "callback", "plain") for each in of(view)]
    well = [each for each in seen if each.role == "healthy"]
    two = [each for each in seen if each.role == "two"]
    judged = [each for each in seen if each.view != "plain" and each.role in ("fault", "healthy", "outside") and each.kind != "bug"]
    what = f"worlds, {look}"

    def environment(each: Seen) -> bool:
        return each.environment

    return {
        f"{what}, our logs: user faults, top-1": share(of("ours"), lambda each: each.right),
        f"{what}, our logs: environment faults, top-1": share(of("ours", environment), lambda each: each.right),
        f"{what}, our logs: planted bugs, top-1": share(
            [each for each in seen if each.view == "ours" and each.role == "fault" and each.kind == "bug"], lambda each: each.right
        ),
        f"{what}, SB3 with callback: user faults, top-1": share(of("callback"), lambda each: each.right),
        f"{what}, SB3 with callback: environment faults, top-1": share(of("callback", environment), lambda each: each.right),
        f"{what}, SB3 logs alone: top-1 where the log can tell": share(of("plain", lambda each: each.tellable), lambda each: each.right),
        f"{what}, SB3 logs alone: says that it cannot tell where it cannot": share(
            of("plain", lambda each: not each.tellable), lambda each: each.says_cannot_tell or each.right
        ),
        f"{what}: confidently wrong (HIGH, p >= 0.75, another cause) over all faults": share(
            every, lambda each: not each.right and each.first_high and each.probability >= SURE
        ),
        f"{what}: right at HIGH over all faults": share(every, lambda each: each.right and each.first_high),
        f"{what}: healthy and odd-but-healthy, false alarm at HIGH": share(well, lambda each: each.alarmed),
        f"{what}: two faults, both in top-3": share(two, lambda each: each.both),
        f"{what}: calibration error of the top-1 probability": round(_calibration_error(judged), 4),
    }


def rows_of_sb3(seen: Sequence[Seen], look: str) -> dict[str, Any]:
    """Those rows that are about SB3's cells alone."""
    found = rows([each for each in seen if each.view != "ours"], look)
    return {name: value for name, value in found.items() if any(view in name for view in ("SB3 with callback", "SB3 logs alone"))}


def share(seen: Sequence[Seen], holds: Callable[[Seen], bool]) -> dict[str, float | int]:
    from benchmarks.diagnosis.measure import wilson

    return wilson(sum(holds(each) for each in seen), len(seen))


def _calibration_error(seen: Sequence[Seen], bins: int = 10) -> float:
    pairs = sorted((min(each.probability, 1.0), _fair(each)) for each in seen)
    parts = np.array_split(np.array(pairs, dtype=float), bins)
    return float(sum(len(part) * abs(part[:, 0].mean() - part[:, 1].mean()) for part in parts if len(part)) / max(len(pairs), 1))


def _fair(each: Seen) -> bool:
    if each.role == "outside":
        return each.answers[0] == UNKNOWN
    return each.answers[0] in WELL if each.role == "healthy" else each.right


def file(look: str) -> Path:
    return FOLDER / f"worlds_{look}.json"


def load(look: str) -> list[Seen]:
    """The answers of a look that was taken."""
    found = json.loads(file(look).read_text("utf-8"))["groups"]
    return [Seen(**{**row, "causes": tuple(row["causes"]), "answers": tuple(row["answers"])}) for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("look", choices=(*LOOKS, *LATER))
    look = parser.parse_args().look
    if file(look).exists():
        raise SystemExit(
            f"{file(look).name} is there already: such a look is taken once.\n  Its rows: python -m benchmarks.diagnosis.measure"
        )
    part, worlds = LATER.get(look, (look, ()))
    seen = answers(LOOKS[part], sb3_worlds=worlds)
    origin = provenance.provenance(f"python -m benchmarks.diagnosis.worlds.look {look}")
    head = json.dumps({key: origin[key] for key in ("date", "commit", "command")})
    body = ",\n".join(json.dumps(vars(each)) for each in seen)
    FOLDER.mkdir(exist_ok=True)
    file(look).write_text(f'{{"provenance": {head},\n"groups": [\n{body}\n]}}\n', "utf-8")
    for name, value in (rows_of_sb3(seen, look) if worlds else rows(seen, look)).items():
        print(f"{name:95} {value}")


if __name__ == "__main__":
    main()
