"""The command that finds out which of the possible causes lies behind a symptom."""

from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.diagnosis.findings import Cause, Diagnosis, PossibleCause
from rlclinic.report.group import runs_dir_of
from rlclinic.runs.record import Group, Run

MORE_SECONDS: Final = 120
AN_ENV: Final = "my_env.py:MyEnv"
"""What stands for the user's environment where a log does not name it."""


def name_commands(diagnosis: Diagnosis, owner: Run | Group | None, target: str, *, ours: bool) -> Diagnosis:
    """The diagnosis with a command for every possible cause. `ours`: trained here, so that it can be trained again."""

    mine = owner if ours else None

    def complete(cause: Cause) -> Cause:
        possible = tuple(each.model_copy(update={"find": _find(each, cause, diagnosis, mine, target)}) for each in cause.possible)
        return cause.model_copy(update={"possible": possible}) if possible else cause

    update: dict[str, object] = {"causes": tuple(complete(cause) for cause in diagnosis.causes)}
    if diagnosis.cannot_tell is not None:
        update["cannot_tell"] = diagnosis.cannot_tell.model_copy(update={"find": _look_at_env(diagnosis, target)})
    return diagnosis.model_copy(update=update)


def _find(possible: PossibleCause, cause: Cause, diagnosis: Diagnosis, owner: Run | Group | None, target: str) -> Action | None:
    name, where = (owner.id, runs_dir_of(owner)) if owner is not None else (target, None)
    readable = target != "-"
    if possible.find_in == "settings" and readable:
        return Action("lint", name, runs_dir=where)
    if possible.find_in == "environment":
        return _look_at_env(diagnosis, name, where)
    if owner is None and readable and possible.find_in == "evaluation":
        env = diagnosis.facts.env or AN_ENV
        return Action("diagnose", name, env=env, eval_env="my_env.py:EvalEnv" if env == AN_ENV else env)
    if owner is not None and possible.find_in == "evaluation":
        return Action("evaluate", name, runs_dir=where)
    if owner is not None and possible.find_in == "more seeds":
        return Action("train", name, seeds=8, runs_dir=where)
    if isinstance(owner, Group):
        return Action("diagnose", name, probe=True, runs_dir=where)
    return Action("rules", cause.rules[0]) if cause.rules else None


def _look_at_env(diagnosis: Diagnosis, name: str, where: Path | None = None) -> Action | None:
    if diagnosis.witness is not None:
        # It was looked at already, and what was seen stands beside it; where it did not come back, more time may help.
        return Action("lint", env=diagnosis.witness.env, seconds=MORE_SECONDS) if "contract" in diagnosis.witness.skipped else None
    env = diagnosis.facts.env or AN_ENV
    return Action("lint", env=env) if name == "-" else Action("diagnose", name, env=env, runs_dir=where)
