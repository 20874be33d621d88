"""What was started in the background, as it lies in the store: runs/@jobs/.

@jobs/<jid>/job.json     what was asked, by whom, which process does it, how it ended; replaced atomically
@jobs/<jid>/job.log      what the process printed
@jobs/<jid>/outcome.json its last line of the ledger, where a machine wrote it that does not have the ledger
@jobs/jobs.sqlite        the queue: what waits, which attempt of what is under way, and until when it is believed; and the audit:
                         every start, stop, adjustment and adoption, by whom and when
@jobs/store.json         the store's name in a database that several stores share
@jobs/budget.json        env steps and seconds that agents may use in this store; only a person writes it
@jobs/ledger.jsonl       what was tried: a line when something is started, a line when its outcome is known
@jobs/audit.jsonl        lines of the audit that wait until the database answers again
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rlclinic.runs import disk, selector
from rlclinic.runs.store import Store

JOBS: Final = "@jobs"
JOB, LOG, BUDGET, LEDGER, AUDIT = "job.json", "job.log", "budget.json", "ledger.jsonl", "audit.jsonl"
OUTCOME: Final = "outcome.json"
_LOCK: Final = ".lock"


def folder(store: Store, jid: str = "") -> Path:
    """Where a job's files lie; without an id, where all of them do."""
    return store.root / JOBS / jid


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """One start at a time: two that look at the budget together could both take its rest. A kill releases it."""
    root = folder(store)
    with disk.guarded(root):
        root.mkdir(parents=True, exist_ok=True)
    with disk.guarded(root / _LOCK), (root / _LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def reserve(store: Store) -> str:
    """A new job id, with its folder."""
    return disk.reserve(folder(store), "j")


def records(store: Store) -> list[dict[str, Any]]:
    """Every job.json that can be read, oldest first."""
    try:
        folders = [entry for entry in folder(store).iterdir() if selector.ID.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    found = [record for entry in folders if (record := disk.read_json(entry / JOB)) is not None]
    return sorted(found, key=lambda record: (record.get("created", 0.0), record.get("id", "")))


def read(store: Store, jid: str) -> dict[str, Any] | None:
    """One job.json; None where there is none."""
    return disk.read_json(folder(store, jid) / JOB) if selector.ID.fullmatch(jid) else None


def write(store: Store, record: dict[str, Any]) -> None:
    """Replace a job.json: whoever is killed meanwhile leaves the old one or the new one."""
    disk.write_json(folder(store, record["id"]) / JOB, record, sync=True)


def budget(store: Store) -> dict[str, Any] | None:
    """What a person allowed; None where nobody did."""
    return disk.read_json(folder(store) / BUDGET)


def write_budget(store: Store, record: dict[str, Any]) -> None:
    """Put down what a person allows."""
    with disk.guarded(folder(store)):
        folder(store).mkdir(parents=True, exist_ok=True)
    disk.write_json(folder(store) / BUDGET, record, sync=True)


def append(store: Store, name: str, entry: dict[str, Any]) -> None:
    """Add a line to the ledger or the audit log."""
    with disk.guarded(folder(store)):
        folder(store).mkdir(parents=True, exist_ok=True)
    disk.append_line(folder(store) / name, json.dumps(entry, ensure_ascii=False), sync=True)


def lines(store: Store, name: str) -> list[dict[str, Any]]:
    """The ledger or the audit log, oldest first; a damaged line is left out."""
    return disk.read_json_lines(folder(store) / name)
