"""Where a suspected bug usually sits: file, function, how to see it again, and what is right; a table by cause in bug_locations.json."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.report.models import Place, Suspect

LEAST: Final = 0.15
"""A bug less likely than this is not worth reading code for."""
_NAMES: Final = {"rlclinic": "rlclinic", "sb3": "Stable-Baselines3", "cleanrl": "CleanRL", "own": "your own script"}
_FRAMEWORKS: Final = {
    "rlclinic": ("rlclinic",),
    "sb3": ("sb3", "own"),
    "cleanrl": ("cleanrl", "own"),
    "tensorboard": ("cleanrl", "own"),
}
_QUICK: Final = 20_000


@cache
def table() -> dict[str, dict[str, Any]]:
    """The rows of bug_locations.json."""
    found: dict[str, dict[str, Any]] = json.loads(
        files("rlclinic.ops.diagnose").joinpath("bug_locations.json").read_text(encoding="utf-8")
    )["suspects"]
    return found


def suspected(found: Diagnosis, repeat: str | None) -> list[Suspect]:
    """Bugs among the likely causes, the likeliest first. `repeat` is the command that trains our own group again."""
    likely = [cause for cause in found.causes if cause.probability >= LEAST and cause.id in table() and cause.consequence_of is None]
    return [_suspect(cause, found.facts.source, repeat) for cause in likely]


def _suspect(cause: Cause, source: str, repeat: str | None) -> Suspect:
    row = table()[cause.id]
    return Suspect(
        cause=cause.id,
        title=cause.title,
        probability=cause.probability,
        places=_places(row["places"], _FRAMEWORKS.get(source, ("own", "sb3", "cleanrl"))),
        reproduce=f"{repeat} --max-env-steps {_QUICK}" if repeat else row["check"],
        fix=row["fix"],
    )


def _places(rows: dict[str, Any], wanted: Sequence[str]) -> list[Place]:
    found = []
    for kind in wanted:
        file, function, look = ("your training script", "", rows[kind]) if kind == "own" else rows[kind]
        found.append(Place(code=_NAMES[kind], file=file, function=function, look=look))
    return found
