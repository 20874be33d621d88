"""A sixth set: three scripts and some sixty faults in each of the six styles, and twelve clean scripts more.

Their author had read neither the checks nor their pages. Sealed before anything was measured: the styles' order is that of the hash of
their names, which makes agent, cleanrl and sb3 the open half, and tutorial, spinningup and lightning the sealed one. Of the sealed half
only totals are looked at (looks.json says when). Every clean script was run at a small size. As in the third set, a fault is found if any
check says something new on one of its lines: all that was written in, and the lines of the texts that stand beside it.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "sixth.yaml"
STYLES: Final = tuple(
    f"sixth_{name}"
    for name in sorted(
        ("cleanrl", "spinningup", "tutorial", "agent", "sb3", "lightning"),
        key=lambda name: hashlib.sha256(f"sixth {name}".encode()).hexdigest(),
    )
)
OPEN: Final = STYLES[:3]
SEALED: Final = STYLES[3:]
CLEAN: Final = ("sixth_clean",)
"""Scripts without faults, for false alarms alone."""


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    scripts = yaml.safe_load(FILE.read_text())
    return tuple(make_mutant(script, *entry) for script, entries in scripts.items() for entry in entries)


def make_mutant(script: str, fault: str, right: str, wrong: str, marks: tuple[str, ...] = ()) -> Mutant:
    """A fault that may be reported on all that was written in, and on the lines of the texts that stand beside it."""
    mutant = Mutant(script, fault, right, wrong)
    lines = mutant.text.splitlines()
    return mutant._replace(beside=tuple(number for number, line in enumerate(lines, 1) if any(mark in line for mark in marks)))
