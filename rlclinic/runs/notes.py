"""Tags and notes that people keep about a run or a group: notes.json in its folder. Training never reads it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rlclinic.errors import UsageError
from rlclinic.runs import disk

NAME: Final = "notes.json"
TAG: Final = re.compile(r"[\w.:+-]{1,40}")
MOST_TAGS: Final = 32
LONGEST_NOTE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Notes:
    """What people keep about a run or a group."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read(folder: Path) -> Notes:
    """The notes in a folder; none where there is no file, or where it is not what we wrote."""
    record = disk.read_json(folder / NAME) or {}
    tags, note = record.get("tags"), record.get("note")
    kept = [tag for tag in tags if isinstance(tag, str) and TAG.fullmatch(tag)] if isinstance(tags, list) else []
    return Notes(tuple(kept[:MOST_TAGS]), note[:LONGEST_NOTE] if isinstance(note, str) else "")


def write(folder: Path, notes: Notes) -> None:
    """Replace the notes of a folder; UsageError if a tag or the note is not one."""
    bad = next((tag for tag in notes.tags if not TAG.fullmatch(tag)), None)
    if bad is not None:
        raise UsageError(
            f"{bad!r} cannot be a tag: letters, digits and . : + - _, at most 40, no blanks.\n"
            "  No search could name it.\n  Try for example: baseline"
        )
    if len(notes.tags) > MOST_TAGS or len(notes.note) > LONGEST_NOTE:
        raise UsageError(
            f"{len(notes.tags)} tags and a note of {len(notes.note)} characters are too many.\n"
            f"  Lists would not stay readable.\n  Keep at most {MOST_TAGS} tags and {LONGEST_NOTE:,} characters."
        )
    disk.write_json(folder / NAME, {"tags": sorted(set(notes.tags)), "note": notes.note})
