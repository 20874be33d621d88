"""A fifth set: three scripts and some forty-five faults in each of the six styles, by an author who had not seen the checks.

The styles' order is that of the hash of their names; the first three were open while the checks were improved, of the others only totals
were looked at once (looks.json says when), and then read, too: all of it is development material now. As in the third set, a fault is
found if any check says something new on one of its lines.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "fifth.yaml"
STYLES: Final = tuple(
    f"fifth_{name}"
    for name in sorted(
        ("cleanrl", "spinningup", "tutorial", "agent", "sb3", "lightning"),
        key=lambda name: hashlib.sha256(f"fifth {name}".encode()).hexdigest(),
    )
)
OPEN: Final = STYLES[:3]
SEALED: Final = STYLES[3:]


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    scripts = yaml.safe_load(FILE.read_text())
    return tuple(
        Mutant(script, fault, right, wrong, beside=tuple(beside[0][0]) if beside else ())
        for script, entries in scripts.items()
        for fault, right, wrong, *beside in entries
    )
