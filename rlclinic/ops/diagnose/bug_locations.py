"""Where a suspected bug usually sits: file, function, how to see it again, and what is right; as its cause has it."""

from collections.abc import Sequence
from typing import Final

from rlclinic.diagnosis import causes
from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.diagnosis.registry import BugLocation
from rlclinic.report.models import Place, Suspect

LEAST: Final = 0.15
"""A bug less likely than this is not worth reading code for."""
_FRAMEWORKS: Final = {
    "rlclinic": ("rlclinic",),
    "sb3": ("sb3", "own"),
    "cleanrl": ("cleanrl", "own"),
    "tensorboard": ("cleanrl", "own"),
}
"""Whose code a run of each source comes from."""
_QUICK: Final = 20_000


def find_suspects(diagnosis: Diagnosis, repeat: str | None) -> list[Suspect]:
    """Bugs among the likely causes, the likeliest first. `repeat` is the command that trains our own group again."""
    known = causes.known()
    likely = [cause for cause in diagnosis.causes if cause.probability >= LEAST and cause.consequence_of is None]
    return [
        _suspect(cause, bug, diagnosis.facts.source, repeat)
        for cause in likely
        if cause.id in known and (bug := known[cause.id].bug) is not None
    ]


def _suspect(cause: Cause, bug: BugLocation, source: str, repeat: str | None) -> Suspect:
    return Suspect(
        cause=cause.id,
        title=cause.title,
        probability=cause.probability,
        places=_places(bug, _FRAMEWORKS.get(source, ("own", "sb3", "cleanrl"))),
        reproduce=f"{repeat} --max-env-steps {_QUICK}" if repeat else bug.check,
        fix=bug.fix,
    )


def _places(bug: BugLocation, frameworks: Sequence[str]) -> list[Place]:
    rows = {
        "rlclinic": ("rlclinic", *bug.rlclinic),
        "sb3": ("Stable-Baselines3", *bug.sb3),
        "cleanrl": ("CleanRL", *bug.cleanrl),
        "own": ("your own script", "your training script", "", bug.own),
    }
    chosen = [rows[framework] for framework in frameworks]
    return [Place(code=code, file=file, function=function, look=look) for code, file, function, look in chosen]
