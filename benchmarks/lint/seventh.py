"""A seventh set: three scripts and about 110 faults in each of the six styles, and twelve clean scripts that look odd and are right.

Their author had read neither the checks nor their pages nor the faults of earlier sets, nor anything they say of the scripts. Sealed
before anything was measured: the styles' order is that of the hash of their names, which makes cleanrl, lightning and agent the open half,
and sb3, spinningup and tutorial the sealed one. Of the sealed half only totals are looked at (looks.json says when). Every clean script was
run at a small size. As in the third set, a fault is found if any check says something new on one of its lines: all that was written in, and
the lines of the texts that stand beside it.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint import sixth
from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "seventh.yaml"
STYLES: Final = tuple(
    f"seventh_{name}"
    for name in sorted(
        ("cleanrl", "spinningup", "tutorial", "agent", "sb3", "lightning"),
        key=lambda name: hashlib.sha256(f"seventh {name}".encode()).hexdigest(),
    )
)
OPEN: Final = STYLES[:3]
SEALED: Final = STYLES[3:]
CLEAN: Final = ("seventh_clean",)
"""Scripts without faults, for false alarms alone."""


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    scripts = yaml.safe_load(FILE.read_text())
    return tuple(sixth.make_mutant(script, *entry) for script, entries in scripts.items() for entry in entries)
