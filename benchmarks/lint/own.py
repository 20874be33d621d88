"""Scripts and faults of the checks' own authors: everything here is open, and checks are developed on it.

Six styles of the field (single file, Spinning Up, tutorial, agent class, Stable-Baselines3, Lightning) in voices other than those of the
other sets, with the faults that people write most. As in the third set, a fault is found if any check says something new on one of its
lines.
"""

from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "own.yaml"
STYLES: Final = ("own_single", "own_spinning", "own_tutorial", "own_agent", "own_sb3", "own_lightning")


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    scripts = yaml.safe_load(FILE.read_text())
    return tuple(
        Mutant(script, fault, right, wrong, tuple(at[0]) if at else ())
        for script, entries in scripts.items()
        for fault, right, wrong, *at in entries
    )
