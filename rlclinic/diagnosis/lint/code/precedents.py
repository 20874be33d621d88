"""How loud a law may speak: by what it was right and wrong about in code of others.

A check is made of laws, and each looks at one thing. What a law says is worth what it has shown: on planted faults of many authors it must
have been right, and over published code it must have kept silent. Both were counted (`python -m benchmarks.lint.precedents`), and the
counts lie beside this file. A law without precedent speaks as a note, however sure it is.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from rlclinic.diagnosis.findings import Severity

FAULTY: Final = 0.5
"""Share of scripts that have a fault when somebody asks."""
LOUD: Final = 0.8
"""Confidence from which a law may say that learning is prevented."""
CLEAR: Final = 0.5
"""Confidence from which it may say that learning is slowed down."""


class Precedent(NamedTuple):
    """What a law has shown."""

    alarms: int = 0
    """Published files that it spoke about."""
    true: int = 0
    """Of those, files in which it was right, as somebody found who read them."""
    found: int = 0
    """Planted faults that it named on their line."""


class Counted(NamedTuple):
    """What was counted, over how much."""

    files: int
    """Published files that train something."""
    faults: int
    laws: dict[str, Precedent]


@cache
def counted() -> Counted:
    """The counts of all laws."""
    held: dict[str, Any] = json.loads((files(__package__) / "precedents.json").read_text("utf-8"))
    return Counted(held["files"], held["faults"], {law: Precedent(**counts) for law, counts in held["laws"].items()})


def confidence(precedent: Precedent, files: int, faults: int) -> float:
    """Probability that a script which a law speaks about has the fault: Bayes, with half an alarm more than was heard."""
    right = FAULTY * (precedent.found + precedent.true) / faults
    wrong = (1 - FAULTY) * (precedent.alarms - precedent.true + 0.5) / files
    return right / (right + wrong)


def ceiling(law: str) -> Severity:
    """The most that findings of a law can weigh."""
    counts = counted()
    shown = confidence(counts.laws.get(law, Precedent()), counts.files, counts.faults)
    return Severity.HIGH if shown >= LOUD else Severity.MEDIUM if shown >= CLEAR else Severity.LOW
