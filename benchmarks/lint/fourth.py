"""A fourth set: thirteen more styles, by what people do with their data (records, dictionaries, closures, generators), not by framework.

All scripts and faults were written before any check was changed. Half of the styles, chosen by the hash of their name, were open while the
checks were improved; of the others only totals by style were looked at (looks.json says when). As in the third set, a fault is found if any
check says something new on one of its lines.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "fourth.yaml"
STYLES: Final = tuple(
    sorted(
        ("pure", "numeric", "lanes", "cells", "records", "tuples", "dictionaries", "streams", "systems", "oldgym", "quantiles", "jaxed",
         "shortcuts"),
        key=lambda name: hashlib.sha256(f"fourth {name}".encode()).hexdigest(),
    )
)  # fmt: skip
OPEN: Final = STYLES[:6]
HELD_OUT: Final = STYLES[6:]


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    scripts = yaml.safe_load(FILE.read_text())
    return tuple(
        Mutant(script, fault, right, wrong, tuple(at[0]) if at else ())
        for script, entries in scripts.items()
        for fault, right, wrong, *at in entries
    )
