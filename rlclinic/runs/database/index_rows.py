"""Rows of the index, read from run folders: damaged files give a row that says so, never an error."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rlclinic.runs import coerce, disk, history, notes, selector
from rlclinic.runs.database.schema import RUN
from rlclinic.runs.listed import ListedRun, decide_verdict, describe_run
from rlclinic.runs.record import CONFIG, GROUP, GROUPS, Group, Run, settings
from rlclinic.runs.store import Store

LIVE: Final = ("queued", "running")
_ORDER: Final = ("running", "queued", "failed", "crashed", "stopped", "finished")
_LARGEST: Final = 2**63 - 1

SETTINGS: Final = "settings"
"""In a row that was just read: its settings as JSON, which the index keeps in a table of their own."""

Row = dict[str, Any]


def stamps(folder: Path) -> dict[str, int]:
    """By id: when each folder last changed, in ns. A file replaced inside a folder changes it; links are not followed."""
    found: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if selector.ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_mtime_ns
    except FileNotFoundError:
        pass
    return found


def run_row(store: Store, id: str, stamp: int) -> Row | None:
    """A run as lists show it; None if the folder is not a run."""
    run = Run(store.root / id)
    record = disk.read_json(run.path / CONFIG)
    if record is None and not (run.path / CONFIG).exists():
        return None
    # What a damaged config.json does not say is unknown, not a reason to leave the run out.
    vars(run)["record"] = record or {}
    listed, kept = describe_run(run), notes.read(run.path)
    row = {name: _storable(value) for name, value in listed.pick(RUN.c.keys()).items()} | {
        "group_id": _text(listed.group),
        "reason": _text(listed.reason),
        "seed": _count(listed.seed) or 0,
        "state": listed.state if listed.state in _ORDER else "failed",
        "heartbeat": listed.heartbeat or 0.0,
        "env_steps": _count(listed.env_steps) or 0,
        "lost": _is_lost(run, listed),
        SETTINGS: _settings(run.record),
        "tags": _tags(kept.tags),
        "note": _clean(kept.note),
        "stamp": stamp,
    }
    return {**row, "text": _searched(row)}


def _is_lost(run: Run, listed: ListedRun) -> bool | None:
    """As the run's status says; where that is silent (an older run, a kill), as its metrics say."""
    if listed.lost is not None or listed.threshold_reached_at is None or listed.state in LIVE:
        return listed.lost
    from rlclinic.runs import outcome

    source = outcome.choose_source([run.metrics])
    return outcome.measure_log(run.metrics, run.goal, source).lost


def group_row(store: Store, id: str, stamp: int, members: Sequence[Mapping[str, Any]]) -> Row | None:
    """A group as lists show it, from its own file and its runs' rows; None if the folder is not a group."""
    group = Group(store.root / GROUPS / id)
    record = disk.read_json(group.path / GROUP)
    if record is None:
        return None
    vars(group)["record"] = record
    kept, source = notes.read(group.path), record.get("source")
    framework = _text(source.get("framework")) if isinstance(source, dict) else None
    states = {member["state"] for member in members}
    row = {
        "id": id,
        "name": _clean(group.name),
        "env": _clean(group.env_id),
        "algo": _clean(group.algo),
        "label": _text(group.label),
        "created": group.created,
        "heartbeat": max((member["heartbeat"] for member in members), default=0.0),
        "parent": _text(group.parent),
        "prescription": _text(record.get("prescription")),
        "trial": _text(record.get("trial")),
        "source": framework,
        "state": next((state for state in _ORDER if state in states), "queued"),
        "verdict": decide_verdict(members, group.threshold, imported=framework is not None),
        "wall_seconds": max((member["wall_seconds"] for member in members if member["wall_seconds"] is not None), default=None),
        SETTINGS: _settings(record),
        "runs": len(members),
        "reached": sum(member["threshold_reached_at"] is not None for member in members),
        "lost": sum(bool(member["lost"]) for member in members),
        "success_rate": _mean(member["success_rate"] for member in members),
        "env_steps": min(_LARGEST, sum(member["env_steps"] for member in members)),
        "max_env_steps": next((member["max_env_steps"] for member in members if member["max_env_steps"]), None),
        "return_mean": _mean(member["return_mean"] for member in members),
        "eval_mean": _mean(member["eval_mean"] for member in members),
        "best_eval": max((member["best_eval"] for member in members if member["best_eval"] is not None), default=None),
        "threshold": group.threshold,
        "tags": _tags(kept.tags),
        "note": _clean(kept.note),
        "stamp": stamp,
    }
    return {**row, "text": _searched(row)}


def share_settings(rows: Sequence[Row]) -> dict[str, str]:
    """Give every row the hash of its settings in place of them; the settings by hash."""
    shared: dict[str, str] = {}
    for row in rows:
        text = row.pop(SETTINGS)
        row["config"] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        shared[row["config"]] = text
    return shared


def _settings(record: dict[str, Any]) -> str:
    """A record's settings by dotted name, without what names the run."""
    found = {_clean(key): value for key, value in history.dotted(settings(record)).items() if key not in ("name", "seed")}
    return _clean(json.dumps(found, sort_keys=True, default=str))


def _storable(value: Any) -> Any:
    """A value as a database column holds it: texts without what none stores, counts that fit."""
    return _clean(value) if isinstance(value, str) else _count(value) if isinstance(value, int) else value


def _searched(row: Mapping[str, Any]) -> str:
    """What a search looks through."""
    names = ("id", "name", "env", "algo", "label", "trial", "parent", "tags", "note", "reason", "prescription")
    return " ".join(str(row[name]) for name in names if row.get(name)).lower()


def _tags(tags: Sequence[str]) -> str:
    return f" {' '.join(tags)} " if tags else ""


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _count(value: Any) -> int | None:
    """A count that a database column holds."""
    found = coerce.whole(value)
    return None if found is None or abs(found) > _LARGEST else found


def _text(value: Any) -> str | None:
    found = coerce.text(value)
    return None if found is None else _clean(found)


def _clean(text: str) -> str:
    """Without what no database stores: halves of surrogate pairs, zero characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")
