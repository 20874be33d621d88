"""Studies as they lie in the store: runs/@sensitivity/<id>/, @optimize, @race, @regress and @probe, each study with one JSON file.

Their runs are ordinary groups that carry the study's id in the place of a trial's.
"""

from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from rlclinic.actions import Action
from rlclinic.errors import NotFound, RunError, UsageError, nearest
from rlclinic.runs import coerce, disk, selector
from rlclinic.runs.record import Group
from rlclinic.runs.store import Store

Model = TypeVar("Model", bound=BaseModel)
Kind = Literal["sensitivity", "optimize", "race", "regress", "probe"]
FILES: Final[dict[Kind, str]] = {
    "sensitivity": "study.json",
    "optimize": "ledger.json",
    "race": "race.json",
    "regress": "gate.json",
    "probe": "probe.json",
}
_LETTER: Final[dict[Kind, str]] = {"sensitivity": "s", "optimize": "o", "race": "c", "regress": "v", "probe": "p"}


def folder(store: Store, kind: Kind, id: str) -> Path:
    """Where a study's files lie."""
    return store.root / f"@{kind}" / id


def reserve(store: Store, kind: Kind) -> str:
    """A new study id, with its folder."""
    return disk.reserve(store.root / f"@{kind}", _LETTER[kind])


def exists(store: Store, kind: Kind, id: str) -> bool:
    """Whether a study was written down. One that was killed before has a folder and no file."""
    return (folder(store, kind, id) / FILES[kind]).exists()


def ids(store: Store, kind: Kind) -> list[str]:
    """Every study of a kind, oldest first."""
    try:
        found = [entry for entry in (store.root / f"@{kind}").iterdir() if selector.ID.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    kept = [entry for entry in found if exists(store, kind, entry.name)]

    def created(entry: Path) -> float:
        # One that is damaged must not hide all others.
        return coerce.real((disk.read_json(entry / FILES[kind]) or {}).get("created")) or 0.0

    return [entry.name for entry in sorted(kept, key=lambda entry: (created(entry), entry.name))]


def find(store: Store, kind: Kind, text: str) -> str:
    """The id that a text is, or begins; @last is the newest. NotFound offers the nearest."""
    known = ids(store, kind)
    matches = known[-1:] if text == "@last" else [id for id in known if id == text] or [id for id in known if id.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{text!r} is the beginning of several: {', '.join(matches)}.\n  Type more of it.")
    offered = nearest(text, known) or known[-3:]
    there = f" There are: {', '.join(offered)}." if offered else ""
    raise NotFound(f"no {kind} study {text!r} in {store.root}.{there}\n  Start one: ", Action(kind))


def read(store: Store, kind: Kind, id: str) -> dict[str, Any]:
    """The study's file as it stands; RunError if it is damaged."""
    path = folder(store, kind, id) / FILES[kind]
    record = disk.read_json(path)
    if record is None:
        raise RunError(f"{path} is missing or damaged; nothing can be said about this study.\n  Start it anew: ", Action(kind))
    return record


def load(store: Store, kind: Kind, text: str, model: type[Model]) -> Model:
    """The study that a text is, or begins, as what wrote it; RunError if its file is not what was written."""
    id = find(store, kind, text)
    try:
        return model.model_validate(read(store, kind, id))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise RunError(
            f"{folder(store, kind, id) / FILES[kind]} is damaged, or from another version: {where or 'it'} is not as it should be.\n"
            "  Nothing can be said about this study.\n  Start it anew: ",
            Action(kind),
        ) from None


def write(store: Store, kind: Kind, id: str, record: dict[str, Any]) -> None:
    """Replace the study's file: whoever is killed meanwhile leaves the old one or the new one."""
    disk.write_json(folder(store, kind, id) / FILES[kind], record, sync=True)


def write_report(store: Store, kind: Kind, id: str, name: str, content: str) -> Path:
    """Replace a report beside the study's file."""
    path = folder(store, kind, id) / name
    disk.write(path, content)
    return path


def groups(store: Store, id: str) -> dict[str, Group]:
    """The groups that a study has made, by their labels."""
    return {str(group.label): group for group in store.groups() if group.record.get("trial") == id}
