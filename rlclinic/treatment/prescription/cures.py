"""What is tried for which cause: the table cures.json, and the doses that its formulas compute."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rlclinic.treatment.prescription.formulas import data, learning_rate, replay, settings, terms
from rlclinic.treatment.prescription.formulas.learning_rate import Dose
from rlclinic.treatment.prescription.group_numbers import Chart

SOURCES = (learning_rate, data, replay, settings, terms)
"""Modules that register formulas; importing them is what fills the registry."""


@dataclass(frozen=True)
class Cure:
    """One row of the table."""

    cause: str
    do: tuple[str, ...]
    """Names of formulas, the most promising first; "one+other" is both at once."""
    advice: str = ""
    """What to do where no setting helps."""


@cache
def table() -> dict[str, Cure]:
    """The shipped cures, by cause."""
    raw = json.loads((files("rlclinic.treatment.prescription") / "cures.json").read_text("utf-8"))
    return {cause: Cure(cause, tuple(row["do"]), row.get("advice", "")) for cause, row in raw["causes"].items()}


def doses(cause: str, chart: Chart) -> Sequence[Dose]:
    """What the formulas of a cause give for these numbers, in the table's order."""
    row = table().get(cause)
    found = [_dose(name, chart) for name in row.do] if row is not None else []
    return [dose for dose in found if dose is not None and dose.changes]


def _dose(name: str, chart: Chart) -> Dose | None:
    """One formula's dose, or those of several at once: None if any of them has nothing to say."""
    parts = [learning_rate.FORMULAS[part](chart) for part in name.split("+")]
    given = [part for part in parts if part is not None]
    if len(given) < len(parts):
        return None
    changes = {setting: value for part in given for setting, value in part.changes.items()}
    return Dose(changes, "; and ".join(part.text for part in given), ", ".join(part.risk for part in given if part.risk))
