"""A third set, by another author who knew neither the checks nor the other sets: six more styles, faults in third.yaml.

Half of the styles were open while the checks were improved; of the sealed half, only totals by style were looked at (looks.json says when).
The author's faults have no list of checks that may report them: one is found if any check says something new on one of its lines.
"""

from functools import cache
from pathlib import Path
from typing import Final

import yaml

from benchmarks.lint.mutants import Mutant

FILE: Final = Path(__file__).parent / "third.yaml"
OPEN: Final = ("notebook", "framework", "sb3user")
SEALED: Final = ("functional", "homework", "vectorised")
STYLES: Final = (*OPEN, *SEALED)


@cache
def load() -> tuple[Mutant, ...]:
    """The planted faults."""
    entries = yaml.safe_load(FILE.read_text())
    return tuple(Mutant(each["script"], each["fault"], each["old"], each["new"], tuple(each["lines"])) for each in entries)
