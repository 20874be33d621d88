"""The own environment of a run: whether its code is still there, and still what the run was trained on."""

from pathlib import Path
from typing import Any

from rlclinic import own_code
from rlclinic.actions import Action
from rlclinic.errors import NotFound
from rlclinic.runs.record import Group, Run


def hash_of(owner: Run | Group) -> str | None:
    """The hash of the environment's own code when the run began; None for registered environments and older runs."""
    codes = own_code.read_record(owner.record)
    return codes[0].sha256 if codes else None


def find_object(owner: Run | Group) -> own_code.OwnCode | None:
    """The code of the object that it was trained on, where no name leads to it: a lambda, or a class of a script."""
    return next((code for code in own_code.read_record(owner.record) if code.is_object), None)


def check_found(owner: Run | Group) -> None:
    """NotFound if the file of its own environment is neither where it was nor anywhere that it may have been moved to."""
    for code in own_code.read_record(owner.record):
        if not code.is_object and own_code.find(code, owner.record, _store(owner)) is None:
            raise _lost(owner, code)


def list_changes(owner: Run | Group) -> list[str]:
    """What has changed in its own environment's files since it began; empty where nothing has, or nothing is known."""
    changes = []
    for code in own_code.read_record(owner.record):
        path = None if code.is_object else own_code.find(code, owner.record, _store(owner))
        if path is not None:
            changes += own_code.list_changes(code, path)
    return list(dict.fromkeys(changes))


def describe_changes(owner: Run | Group, consequence: str) -> str | None:
    """What has changed since it was trained, and what that means; None where nothing has."""
    changes = list_changes(owner)
    if not changes:
        return None
    shown = ", ".join(changes[:4]) + (f" and {len(changes) - 4} more" if len(changes) > 4 else "")
    return f"{shown} since {owner.id} was trained: {consequence}"


def _store(owner: Run | Group) -> Path:
    return owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent


def _lost(owner: Run | Group, code: own_code.OwnCode) -> NotFound:
    renamed = own_code.find_renamed(code)
    name = f"{renamed or f'path/to/{code.path.name}'}:{code.inside}"
    same: tuple[Any, ...] = (f"  {renamed} has the same content.\n",) if renamed else ()
    return NotFound(
        f"{owner.id} was trained on {code.inside} in {code.path}, and there is no such file any more.\n"
        "  Its policy can act, and its training go on, only in that environment.\n",
        *same,
        "  Score it: ",
        Action("evaluate", owner.id, env=name),
        "\n  Train on: ",
        Action("train", f"{owner.id}@last", set=[f"env.id={name}"]),
    )
