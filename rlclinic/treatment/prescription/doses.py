"""Doses: how much of a setting, computed from the run's own numbers.

A dose is a function that looks at a Chart and gives the new values of one or two settings with the reason, or None where it has
nothing to say. Causes name their doses by the function's name, with dashes. Ours are in formulas/; a package adds its own with an
entry point of the group `rlclinic.doses` that names a module whose functions are registered with `@dose`. No dose looks at a
shipped variant.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from rlclinic import plugins
from rlclinic.diagnosis import causes
from rlclinic.errors import NotFound, nearest
from rlclinic.treatment.prescription.group_numbers import Chart

MODULES: Final = ("learning_rate", "data", "replay", "imitation", "offline", "settings", "terms")
"""Of formulas/."""
ENTRY_POINTS: Final = "rlclinic.doses"


@dataclass(frozen=True)
class Dose:
    """New values by dotted setting, and why these."""

    changes: Mapping[str, Any]
    text: str
    risk: str = ""


Formula = Callable[[Chart], Dose | None]
_FORMULAS: dict[str, Formula] = {}


def dose(formula: Formula) -> Formula:
    """Register a formula under its function's name, with dashes."""
    name = formula.__name__.replace("_", "-")
    if name in _FORMULAS:
        raise ValueError(f"dose {name}: the name is taken")
    _FORMULAS[name] = formula
    return formula


@cache
def _load() -> None:
    for module in MODULES:
        import_module(f"rlclinic.treatment.prescription.formulas.{module}")
    for entry in entry_points(group=ENTRY_POINTS):
        plugins.load(entry, "module of doses")


def names() -> list[str]:
    """Every dose."""
    _load()
    return sorted(_FORMULAS)


def compute(name: str, chart: Chart) -> Dose | None:
    """A dose for these numbers; "one+other" is both at once, or None if either has nothing to say."""
    _load()
    parts = [_find(part)(chart) for part in name.split("+")]
    given = [part for part in parts if part is not None]
    if len(given) < len(parts):
        return None
    changes = {setting: value for part in given for setting, value in part.changes.items()}
    return Dose(changes, "; and ".join(part.text for part in given), ", ".join(part.risk for part in given if part.risk))


def _find(name: str) -> Formula:
    if name not in _FORMULAS:
        offered = nearest(name, names())
        raise NotFound(f"no dose {name!r}" + (f"; nearest: {', '.join(offered)}" if offered else "") + ".")
    return _FORMULAS[name]


def compute_for(cause: str, chart: Chart) -> list[Dose]:
    """What the doses of a cause give for these numbers, the most promising first."""
    known = causes.known().get(cause)
    given = [compute(name, chart) for name in known.doses] if known is not None else []
    return [each for each in given if each is not None and each.changes]
