"""Where a suspected bug usually sits: file, function, how to see it again, and what is right; as its cause has it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rlclinic.actions import Action, Argument
from rlclinic.diagnosis import causes
from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.diagnosis.lint.env import source_lines
from rlclinic.diagnosis.registry import BugLocation
from rlclinic.report.models import Place, Suspect

LEAST: Final = 0.15
"""A bug less likely than this is not worth reading code for."""
LARGEST_FILE: Final = 1 << 20
"""Bytes of an environment's file that is read."""
_FRAMEWORKS: Final = {
    "rlclinic": ("rlclinic",),
    "sb3": ("sb3", "own"),
    "cleanrl": ("cleanrl", "own"),
    "tensorboard": ("cleanrl", "own"),
}
"""Whose code a run of each source comes from."""
_QUICK: Final = 20_000


def find_suspects(diagnosis: Diagnosis, repeat: str | None, env_id: str | None = None, *, examined: bool = False) -> list[Suspect]:
    """Bugs among the likely causes, the likeliest first. `repeat` is the command that trains our own group again; env_id, where it is
    path/to/file.py:Class, the environment whose lines are looked at; one that was examined may lie anywhere."""
    known = causes.known()
    likely = [cause for cause in diagnosis.causes if cause.probability >= LEAST and cause.consequence_of is None]
    found = [(cause, find_in_environment(cause, env_id, examined=examined) if env_id else None) for cause in likely]
    return [
        in_file or _suspect(cause, known[cause.id].bug, diagnosis.facts.source, repeat)  # type: ignore[arg-type]
        for cause, in_file in found
        if in_file is not None or (cause.id in known and known[cause.id].bug is not None)
    ]


def find_in_environment(cause: Cause, env_id: str, *, examined: bool = False) -> Suspect | None:
    """The lines of the user's own environment file that a fault of the environment sits in. A file that only a log names must lie under
    the working folder; of one that was examined the code has been run."""
    file, _, name = env_id.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        return None
    try:
        path = Path(file).resolve()
        if not (examined or path.is_relative_to(Path.cwd())) or path.stat().st_size > LARGEST_FILE:
            return None
        lines = source_lines.find_lines(path.read_text("utf-8"), name, cause.id)
    except (OSError, UnicodeDecodeError):
        return None
    if not lines:
        return None
    places = [
        Place(code="your environment", file=f"{file}:{line.number}", function=f"{name}.{line.function}", look=f"{line.look}: {line.text}")
        for line in lines
    ]
    test = source_lines.write_test(Path(file).stem, name, cause.id)
    known = causes.known().get(cause.id)
    return Suspect(
        cause=cause.id,
        title=cause.title,
        probability=cause.probability,
        places=places,
        reproduce=test or str(Action("lint", env=env_id)),
        fix=known.advice if known is not None and known.advice else cause.title,
    )


def _suspect(cause: Cause, bug: BugLocation, source: str, repeat: str | None) -> Suspect:
    return Suspect(
        cause=cause.id,
        title=cause.title,
        probability=cause.probability,
        places=_places(bug, _FRAMEWORKS.get(source, ("own", "sb3", "cleanrl"))),
        reproduce=f"{repeat} {Argument('max_env_steps', _QUICK)}" if repeat else bug.check,
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
