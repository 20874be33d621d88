"""What is tried for which cause: the table cures.json, and the doses that its formulas compute."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rlclinic.treatment import formulas, formulas_setting, formulas_terms
from rlclinic.treatment.chart import Chart
from rlclinic.treatment.formulas import Dose

SOURCES = (formulas, formulas_setting, formulas_terms)
"""Modules that register formulas; importing them is what fills the registry."""


@dataclass(frozen=True)
class Cure:
    """One row of the table."""

    cause: str
    do: tuple[str, ...]
    """Names of formulas, the most promising first."""
    advice: str = ""
    """What to do where no setting helps."""


@cache
def table() -> dict[str, Cure]:
    """The shipped cures, by cause."""
    raw = json.loads((files("rlclinic.treatment") / "cures.json").read_text("utf-8"))
    return {cause: Cure(cause, tuple(row["do"]), row.get("advice", "")) for cause, row in raw["causes"].items()}


def doses(cause: str, chart: Chart) -> Sequence[Dose]:
    """What the formulas of a cause give for these numbers, in the table's order."""
    row = table().get(cause)
    found = [formulas.FORMULAS[name](chart) for name in row.do] if row is not None else []
    return [dose for dose in found if dose is not None and dose.changes]
