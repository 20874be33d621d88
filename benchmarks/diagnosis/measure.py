"""`python -m benchmarks.diagnosis.measure`: how often the diagnosis is right, on groups that were not used to fit it.

Prints a table and writes results/diagnosis.json. Shares come with Wilson's 95 % interval.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks import provenance
from benchmarks.diagnosis import baselines, corpus, first_look, sb3_corpus
from benchmarks.diagnosis.corpus import Group
from benchmarks.diagnosis.tasks import TASKS
from benchmarks.diagnosis.worlds import look
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.causes import UNKNOWN, table
from rlclinic.diagnosis.findings import Severity
from rlclinic.runs.history import History

FRESH: Final = frozenset(task.id for task in TASKS if task.fresh)
CALIBRATION: Final = "calibration error of the top-1 probability"


@dataclass(frozen=True)
class Answer:
    """What the diagnosis said about a group, as far as it is judged."""

    group: Group
    ranked: tuple[tuple[str, float], ...]
    alarmed: bool
    """A finding or cause is HIGH."""

    @property
    def right(self) -> bool:
        return self.ranked[0][0] in self.group.accepted

    def among(self, count: int) -> bool:
        """Whether a right answer is among the first few causes."""
        named = [cause for cause, _ in self.ranked if cause != UNKNOWN][:count]
        return bool(self.group.accepted & set(named))

    @property
    def both(self) -> bool:
        """Whether two planted faults are both among the first three."""
        return set(self.group.causes) <= {cause for cause, _ in [each for each in self.ranked if each[0] != UNKNOWN][:3]}


def asked(group: Group) -> Answer:
    """Diagnose a group."""
    found = engine.diagnose(list(group.runs))
    severities = [finding.severity for finding in found.findings] + [cause.severity for cause in found.causes]
    alarmed = Severity.HIGH in severities
    return Answer(group, tuple((cause.id, cause.probability) for cause in found.causes), alarmed)


def wilson(hits: int, count: int) -> dict[str, float | int]:
    """A share with its 95 % interval."""
    if not count:
        return {"share": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    z, share = 1.959964, hits / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return {"share": round(share, 4), "low": round(centre - half, 4), "high": round(centre + half, 4), "n": count}


def share(answers: Sequence[Answer], holds: Callable[[Answer], bool]) -> dict[str, float | int]:
    return wilson(sum(holds(answer) for answer in answers), len(answers))


def calibration_error(answers: Sequence[Answer], bins: int = 10) -> float:
    """Expected gap between the first answer's probability and how often it is right, over equally filled bins."""
    pairs = sorted((min(answer.ranked[0][1], 1.0), _fair(answer)) for answer in answers)
    parts = np.array_split(np.array(pairs, dtype=float), bins)
    return float(sum(len(part) * abs(part[:, 0].mean() - part[:, 1].mean()) for part in parts if len(part)) / len(pairs))


def _fair(answer: Answer) -> bool:
    if answer.group.role == "outside":
        return answer.ranked[0][0] == UNKNOWN
    if answer.group.role == "healthy":
        return answer.ranked[0][0] in ("healthy", UNKNOWN)
    return answer.right


def rows(groups: Sequence[Group]) -> dict[str, Any]:
    """Every measured row."""
    everything = [asked(group) for group in groups if group.role != "unclear" and (group.split == "test" or group.role == "healthy")]
    answers = [answer for answer in everything if answer.group.about["task"] not in FRESH]
    fresh = [answer for answer in everything if answer.group.about["task"] in FRESH]
    faults = [answer for answer in answers if answer.group.role == "fault"]
    user = [answer for answer in faults if answer.group.about["kind"] == "user"]
    known, own = ([answer for answer in user if bool(answer.group.about["own"]) is which] for which in (False, True))
    bugs = [answer for answer in faults if answer.group.about["kind"] == "bug"]
    healthy = [answer for answer in answers if answer.group.role == "healthy"]
    two = [answer for answer in answers if answer.group.role == "two"]
    outside = [answer for answer in answers if answer.group.role == "outside"]
    judged = [answer for answer in answers if answer.group.split == "test" and answer.group.role in ("fault", "outside", "healthy")]
    return {
        "user faults: detected at HIGH": share(known, lambda answer: answer.alarmed),
        "user faults: top-1": share(known, lambda answer: answer.right),
        "user faults: top-3": share(known, lambda answer: answer.among(3)),
        "user faults, unknown environment: top-1": share(own, lambda answer: answer.right),
        "user faults, unknown environment: top-3": share(own, lambda answer: answer.among(3)),
        "planted bugs: top-1": share(bugs, lambda answer: answer.right),
        "healthy and odd-but-healthy: false alarm at HIGH": share(healthy, lambda answer: answer.alarmed),
        "two faults: both in top-3": share(two, lambda answer: answer.both),
        "outside the catalogue: says unknown": share(outside, lambda answer: answer.ranked[0][0] == UNKNOWN),
        CALIBRATION: round(calibration_error(judged), 4),
        **_fresh_rows(fresh),
    }


def _fresh_rows(answers: Sequence[Answer]) -> dict[str, Any]:
    """The same on an environment that was recorded when rules and weights were final."""

    def of(role: str, kind: str | None = None) -> list[Answer]:
        return [each for each in answers if each.group.role == role and kind in (None, each.group.about["kind"])]

    return {
        "fresh environment: user faults at HIGH": share(of("fault", "user"), lambda answer: answer.alarmed),
        "fresh environment: user faults, top-1": share(of("fault", "user"), lambda answer: answer.right),
        "fresh environment: user faults, top-3": share(of("fault", "user"), lambda answer: answer.among(3)),
        "fresh environment: planted bugs, top-1": share(of("fault", "bug"), lambda answer: answer.right),
        "fresh environment: false alarm at HIGH": share(of("healthy"), lambda answer: answer.alarmed),
    }


def replayed(groups: Sequence[Group]) -> dict[str, Any]:
    """Learners with a replay: severities, seeds and an environment that were not used to fit."""
    answers = [asked(group) for group in groups if group.role != "unclear" and (group.split == "test" or group.role == "healthy")]
    user = [answer for answer in answers if answer.group.role == "fault" and answer.group.about["kind"] == "user"]
    healthy = [answer for answer in answers if answer.group.role == "healthy"]
    return {
        "off-policy user faults: detected at HIGH": share(user, lambda answer: answer.alarmed),
        "off-policy user faults: top-1": share(user, lambda answer: answer.right),
        "off-policy user faults: top-3": share(user, lambda answer: answer.among(3)),
        "off-policy healthy and odd-but-healthy: false alarm at HIGH": share(healthy, lambda answer: answer.alarmed),
    }


def fresh(look: str, rows: Sequence[first_look.Seen]) -> dict[str, Any]:
    """How often off-policy tasks of a look were answered rightly."""
    faults, well = ([each for each in rows if each.role == role] for role in ("fault", "healthy"))
    what = f"fresh off-policy tasks, {look}"
    return {
        f"{what}: user faults at HIGH": wilson(sum(each.alarmed for each in faults), len(faults)),
        f"{what}: user faults, top-1": wilson(sum(each.right for each in faults), len(faults)),
        f"{what}: user faults, top-3": wilson(sum(each.among_three for each in faults), len(faults)),
        f"{what}: false alarm at HIGH": wilson(sum(each.alarmed for each in well), len(well)),
    }


def seen(look: str, groups: Sequence[Group]) -> list[first_look.Seen]:
    """What today's rules answer to the tasks of a look."""
    rows = []
    for answer in map(asked, counted([group for group in groups if group.about["task"] in first_look.LOOKS[look]])):
        named = tuple(cause for cause, _ in answer.ranked[:3])
        rows.append(
            first_look.Seen(answer.group.id, answer.group.role, named, answer.ranked[0][1], answer.alarmed, answer.right, answer.among(3))
        )
    return rows


def counted(groups: Sequence[Group]) -> list[Group]:
    """Groups with a fault of a user's that hurts, and healthy ones."""
    return [group for group in groups if group.role in ("fault", "healthy") and group.about["kind"] != "bug"]


def look_first(look: str) -> None:
    """Score off-policy tasks with rules that have never met them, and keep the answers."""
    rows = seen(look, (*corpus.load(corpus.OFF_POLICY), *corpus.load(corpus.OFF_POLICY_FRESH)))
    first_look.write(look, rows, provenance.provenance(f"python -m benchmarks.diagnosis.measure --first-look {look}"))


def elsewhere() -> dict[str, Any]:
    """Runs of Stable-Baselines3, as users have them (with --threshold) and with our callback.

    Where a log cannot tell causes apart, the family that covers them counts as right: the merged classes are those that
    the causes themselves declare.
    """
    families = {cause: row.covers for cause, row in table().items()}
    cells = sb3_corpus.load()
    faults = [cell for cell in cells if cell.role == "fault"]
    well = [cell for cell in cells if cell.role in ("healthy", "must-not-alarm")]

    def right(fault: str, runs: Sequence[History]) -> bool:
        first = engine.diagnose(list(runs)).causes[0].id
        return first == fault or fault in families.get(first, frozenset())

    def alarmed(runs: Sequence[History]) -> bool:
        found = engine.diagnose(list(runs))
        return Severity.HIGH in [each.severity for each in found.findings] + [each.severity for each in found.causes]

    return {
        "SB3 logs: top-1 (merged classes)": wilson(sum(right(cell.fault, cell.plain()) for cell in faults), len(faults)),
        "SB3 with our callback: top-1": wilson(sum(right(cell.fault, cell.histories_sentinels) for cell in faults), len(faults)),
        "SB3, both views: false alarm at HIGH": wilson(
            sum(alarmed(runs) for cell in well for runs in (cell.plain(), cell.histories_sentinels)), 2 * len(well)
        ),
    }


def compared(groups: Sequence[Group]) -> dict[str, Any]:
    """The baselines on the same test groups."""
    fit = [group for group in groups if group.split == "fit" and group.role in ("fault", "healthy")]
    ways: dict[str, Callable[[Sequence[History]], str]] = {
        "always lower the learning rate": baselines.always_lower_the_learning_rate,
        "the briefs' fixed thresholds": baselines.fixed_thresholds,
        "compare with the shipped YAML": baselines.shipped_settings,
        "nearest neighbour on metrics": baselines.nearest_neighbour(fit),
        "rldoctor's detectors": baselines.rldoctor,
    }
    user = [group for group in groups if group.split == "test" and group.role == "fault" and group.about["kind"] == "user"]
    well = [group for group in groups if group.split == "test" and group.role == "healthy"]
    return {
        name: {
            "user faults: top-1": wilson(sum(way(group.runs) in group.accepted for group in user), len(user)),
            "healthy: names a fault": wilson(sum(way(group.runs) != baselines.HEALTHY for group in well), len(well)),
        }
        for name, way in ways.items()
    }


BARS: Final = {
    "user faults: detected at HIGH": (93, 98),
    "user faults: top-1": (80, 92),
    "user faults: top-3": (93, 98),
    "user faults, unknown environment: top-1": (65, 80),
    "planted bugs: top-1": (95, 99),
    "healthy and odd-but-healthy: false alarm at HIGH": (2, 0.5),
    "two faults: both in top-3": (60, 80),
    CALIBRATION: (7, 3),
    "SB3 logs: top-1 (merged classes)": (60, 75),
    "SB3 with our callback: top-1": (80, 90),
    "off-policy user faults: top-1": (75, 90),
}
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
WORLD_BARS: Final = {
    "our logs: user faults, top-1": (88, 95),
    "our logs: environment faults, top-1": (85, 93),
    "SB3 with callback: user faults, top-1": (85, 93),
    "SB3 with callback: environment faults, top-1": (82, 90),
    "SB3 logs alone: top-1 where the log can tell": (80, 90),
    "SB3 logs alone: says that it cannot tell where it cannot": (80, 95),
    "confidently wrong (HIGH, p >= 0.75, another cause) over all faults": (4, 1.5),
    "right at HIGH over all faults": (60, 75),
    "healthy and odd-but-healthy, false alarm at HIGH": (1, 0.5),
    "two faults, both in top-3": (80, 90),
    "calibration error of the top-1 probability": (4, 2),
}
"""By what a row says after the name of its look."""


def recorded(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the results file: percent, with the bar and the stretch where there is one."""
    made = []
    for what, value in found.items():
        of_world = what.removeprefix("worlds, ")
        for each in ORDINALS:
            of_world = of_world.removeprefix(f"{each} look").lstrip(",: ")
        of_world = of_world.removeprefix(look.ADDED).lstrip(",: ")
        bar, stretch = WORLD_BARS.get(of_world, (None, None)) if what.startswith("worlds, ") else BARS.get(what, (None, None))
        lower = "alarm" in what or "calibration error" in what or "names a fault" in what or "confidently wrong" in what
        row: dict[str, Any] = {"what": what, "unit": "%", "better": "lower" if lower else "higher", "bar": bar, "stretch": stretch}
        if isinstance(value, dict):
            row |= {"value": 100 * value["share"], "interval": [100 * value["low"], 100 * value["high"]], "n": value["n"]}
        else:
            row |= {"value": 100 * value}
        made.append(row)
    return made


def looks_at_worlds() -> dict[str, Any]:
    """The rows of every look that was taken."""
    found: dict[str, Any] = {}
    for part, name in zip(look.LOOKS, ORDINALS, strict=True):
        if look.file(part).exists():
            found |= look.rows(look.load(part), f"{name} look")
    for later, (part, _) in look.LATER.items():
        if look.file(later).exists():
            seen = [*look.load(part), *look.load(later)]
            found |= look.rows_of_sb3(seen, f"{ORDINALS[list(look.LOOKS).index(part)]} look, {look.ADDED}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument(
        "--first-look", choices=tuple(first_look.LOOKS), help="score fresh off-policy tasks, once, before a rule has met them"
    )
    parser.add_argument("--looks", action="store_true", help="only the rows of looks at worlds that were taken: nothing is diagnosed")
    wanted = parser.parse_args()
    if wanted.first_look:
        look_first(wanted.first_look)
        return
    if wanted.looks:
        provenance.write(
            "diagnosis", recorded(looks_at_worlds()), provenance.provenance("python -m benchmarks.diagnosis.measure --looks"), quick=False
        )
        return
    groups = corpus.load()
    found = rows(groups) | elsewhere() | replayed(corpus.load(corpus.OFF_POLICY))
    found |= fresh("first look", first_look.load("first"))
    found |= fresh("first look, mended since", seen("first", corpus.load(corpus.OFF_POLICY_FRESH)))
    found |= fresh("second look", first_look.load("second")) | fresh("third look", first_look.load("third"))
    found |= looks_at_worlds()
    if not wanted.no_baselines:
        found |= {f"{name}, {what}": value for name, values in compared(groups).items() for what, value in values.items()}
    for name, value in found.items():
        print(f"{name:80} {_text(value)}")
    provenance.write("diagnosis", recorded(found), provenance.provenance("python -m benchmarks.diagnosis.measure"), quick=False)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{100 * value['share']:.1f} % [{100 * value['low']:.1f}, {100 * value['high']:.1f}], n = {value['n']}"
    return f"{value:.3f}"


if __name__ == "__main__":
    main()
