"""Who did what, in the database of the queue: lines are added and never changed.

While the database does not answer, lines go to `@jobs/audit.jsonl` of the store, and the next line, or the next look, takes them along;
so do those of stores from before there was a table. What was taken is counted in the transaction that takes it: no line is lost, and
none is there twice.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from rlclinic.errors import RunError
from rlclinic.runs import coerce, jobs
from rlclinic.runs.database import connections
from rlclinic.runs.database.connections import Transaction
from rlclinic.runs.store import Store

FIELDS: Final = ("time", "action", "face", "name", "target", "about")
Line = dict[str, Any]


def add(store: Store, line: Line) -> None:
    """Write a line down: in the database, or beside it until it answers again."""
    try:
        with connections.transaction(store, sync=True) as database:
            insert(database, [*_take_along(store, database), line])
    except RunError:
        jobs.append(store, jobs.AUDIT, line)


def read_last(store: Store, limit: int) -> tuple[list[Line], int]:
    """The last lines, newest first, and how many there are in all."""
    if not connections.exists(store) and not jobs.lines(store, jobs.AUDIT):
        return [], 0
    with connections.transaction(store) as database:
        if waiting := _take_along(store, database):
            insert(database, waiting)
        asked = f"SELECT {', '.join(FIELDS)} FROM rlclinic_audit WHERE store = ? ORDER BY number DESC LIMIT ?"
        rows = database.execute(asked, (database.store, limit)).fetchall()
        count = database.execute("SELECT count(*) FROM rlclinic_audit WHERE store = ?", (database.store,)).fetchone()[0]
    return [_read(row) for row in rows], int(count)


def move(source: Transaction, target: Transaction) -> int:
    """Take a store's lines from one database to another, before those that are there already; how many."""
    every = f"SELECT {', '.join(FIELDS)} FROM rlclinic_audit WHERE store = ? ORDER BY number"
    there = set(map(tuple, target.execute(every, (target.store,)).fetchall()))
    lines = [_read(row) for row in source.execute(every, (source.store,)).fetchall() if tuple(row) not in there]
    # A number may not be there twice, not even in the middle of a statement.
    target.execute("UPDATE rlclinic_audit SET number = -number - ? WHERE store = ?", (len(lines), target.store))
    target.execute("UPDATE rlclinic_audit SET number = -number WHERE store = ?", (target.store,))
    _, taken = _count(source, 0)
    _, known = _count(target, len(lines))
    target.execute("UPDATE rlclinic_store SET audit_bytes = ? WHERE id = ?", (max(taken, known), target.store))
    _write(target, lines, first=1)
    source.execute("DELETE FROM rlclinic_audit WHERE store = ?", (source.store,))
    return len(lines)


def insert(database: Transaction, lines: Sequence[Line]) -> None:
    """Add lines, each with the next number: whoever adds at the same moment waits for this one."""
    last, _ = _count(database, len(lines))
    _write(database, lines, first=last - len(lines) + 1)


def _write(database: Transaction, lines: Sequence[Line], first: int) -> None:
    for number, line in enumerate(lines, first):
        about = line.get("about")
        values = (
            coerce.real(line.get("time")) or 0.0,
            *(_clean(line.get(name)) for name in FIELDS[1:-1]),
            # In ASCII: a database's text holds neither NUL nor halves of characters.
            json.dumps(about if isinstance(about, dict) else {}),
        )
        marks = ", ".join("?" * (len(FIELDS) + 2))
        database.execute(
            f"INSERT INTO rlclinic_audit (store, number, {', '.join(FIELDS)}) VALUES ({marks})", (database.store, number, *values)
        )


def _count(database: Transaction, more: int) -> tuple[int, int]:
    """The number of the last line once `more` are added, and how far the file beside the database was taken along.

    Nobody else counts until the end of the transaction.
    """
    database.execute("INSERT INTO rlclinic_store (id) VALUES (?) ON CONFLICT (id) DO NOTHING", (database.store,))
    counted = "UPDATE rlclinic_store SET audit_lines = audit_lines + ? WHERE id = ? RETURNING audit_lines, audit_bytes"
    row = database.execute(counted, (more, database.store)).fetchone()
    return int(row[0]), int(row[1])


def _take_along(store: Store, database: Transaction) -> list[Line]:
    """Lines that were written while the database did not answer. They count as taken, if the transaction comes to its end."""
    file = jobs.folder(store) / jobs.AUDIT
    try:
        size = file.stat().st_size
    except OSError:
        return []
    _, taken = _count(database, 0)
    if size == taken:
        return []
    with file.open("rb") as opened:
        opened.seek(min(taken, size))
        text = opened.read()
    # Half a line is still being written.
    whole = text[: text.rfind(b"\n") + 1]
    database.execute("UPDATE rlclinic_store SET audit_bytes = ? WHERE id = ?", (min(taken, size) + len(whole), database.store))
    return [line for part in whole.split(b"\n") if (line := _parse(part)) is not None]


def _parse(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _read(row: Sequence[Any]) -> Line:
    return {**dict(zip(FIELDS, row, strict=True)), "about": json.loads(row[-1])}


def _clean(value: Any) -> str:
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
