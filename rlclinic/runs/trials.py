"""Trials as they lie in the store: runs/@trials/<tid>/ with trial.json and its reports, and the seeds that are spent.

trial.json is written after every look and read by whoever resumes, adopts or learns from a trial. A `TrialRecord` is that
file with the few things that others ask of it; what a trial means is for rlclinic.treatment.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rlclinic.actions import Action
from rlclinic.errors import NotFound, UsageError, nearest
from rlclinic.runs import disk, selector
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store

TRIALS: Final = "@trials"
TRIAL: Final = "trial.json"
SCHEMA_VERSION: Final = 1
FIRST_SEED: Final = 1_000
"""People train seeds from 0 on; those of trials begin here."""
_SEEDS: Final = "seeds.json"
_LOCK: Final = "seeds.lock"


@dataclass(frozen=True)
class TrialRecord:
    """One trial.json."""

    id: str
    path: Path
    record: dict[str, Any]

    @property
    def verdict(self) -> str | None:
        """adopt, reject, equivalent or undecided; None while it runs."""
        found = self.record.get("verdict")
        return str(found) if found else None

    @property
    def env_id(self) -> str | None:
        return self.record.get("env_id")

    @property
    def algo(self) -> str | None:
        return self.record.get("algo")

    @property
    def created(self) -> float:
        """Unix seconds."""
        return float(self.record.get("created", 0.0))

    @property
    def context(self) -> dict[str, Any]:
        """What is known about why it was made: group, cause, prescription, derived numbers."""
        return dict(self.record.get("context") or {})

    @property
    def effects(self) -> list[dict[str, Any]]:
        """One for each treatment arm: arm, changes, verdict, ratio, gain, reached, improvement, each with its interval."""
        return list(self.record.get("effects") or [])


def trials(store: Store) -> list[TrialRecord]:
    """Every trial, oldest first; one whose file cannot be read is left out."""
    found = []
    for folder in _folders(store):
        record = disk.read_json(folder / TRIAL)
        if record is not None and record.get("schema_version", 0) <= SCHEMA_VERSION:
            found.append(TrialRecord(folder.name, folder, record))
    return sorted(found, key=lambda trial: (trial.created, trial.id))


def find(store: Store, text: str = "@last") -> TrialRecord:
    """The trial with this id or unique beginning; @last is the newest. NotFound offers the nearest."""
    known = trials(store)
    if text == "@last":
        matches = known[-1:]
    else:
        matches = [trial for trial in known if trial.id == text] or [trial for trial in known if trial.id.startswith(text)]
    if len(matches) > 1:
        raise UsageError(f"{text!r} is the beginning of several: {', '.join(trial.id for trial in matches)}.\n  Type more of it.")
    if not matches:
        offered = nearest(text, [trial.id for trial in known]) or [trial.id for trial in known[-3:]]
        there = f" There are: {', '.join(offered)}." if offered else ""
        raise NotFound(f"no trial {text!r} in {store.root}.{there}\n  Start one: ", Action("trial", set=["KEY=VALUE"]))
    return matches[0]


def write(store: Store, tid: str, record: dict[str, Any]) -> None:
    """Replace trial.json: whoever is killed meanwhile leaves the old one or the new one."""
    disk.write_json(folder(store, tid) / TRIAL, record, sync=True)


def write_report(store: Store, tid: str, name: str, content: str) -> Path:
    """Replace report.md or report.html of a trial."""
    disk.write(folder(store, tid) / name, content)
    return folder(store, tid) / name


def folder(store: Store, tid: str) -> Path:
    """Where a trial's files lie."""
    return store.root / TRIALS / tid


def reserve(store: Store) -> str:
    """A new trial id, with its folder."""
    return disk.reserve(store.root / TRIALS, "t")


def exists(store: Store, tid: str) -> bool:
    """Whether a trial was written down. One that was killed before has a folder and no file."""
    return (folder(store, tid) / TRIAL).exists()


def fresh_seeds(store: Store, count: int, above: int = -1) -> int:
    """The first of `count` seeds that no trial of this store has used, nor will; larger than `above`."""
    root = store.root / TRIALS
    with disk.guarded(root):
        root.mkdir(parents=True, exist_ok=True)
    with _alone(root):
        known = (disk.read_json(root / _SEEDS) or {}).get("next", FIRST_SEED)
        first = max(int(known), above + 1, FIRST_SEED)
        disk.write_json(root / _SEEDS, {"next": first + count}, sync=True)
    return first


def groups(store: Store, tid: str) -> list[Group]:
    """The groups that a trial has trained, oldest first."""
    return [group for group in store.groups() if trial_of(group) == tid]


def trial_of(item: Run | Group) -> str | None:
    """The trial that a run or group of a listing was trained for; None for all others, and where its record is damaged."""
    return (vars(item).get("record") or {}).get("trial")


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with disk.guarded(root / _LOCK), (root / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _folders(store: Store) -> list[Path]:
    try:
        return [entry for entry in (store.root / TRIALS).iterdir() if selector.ID.fullmatch(entry.name) and (entry / TRIAL).exists()]
    except FileNotFoundError:
        return []
