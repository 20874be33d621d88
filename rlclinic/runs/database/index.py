"""An index over the run folders in SQLite: runs/@index/index.sqlite. The folders are the truth; the index can be deleted at any time.

    index = Index(store)
    index.refresh()                    reads the folders that changed since the last time
    index.connection()                 to ask `index_schema.RUN` and `index_schema.GROUP`

Several processes may use one index: SQLite's write-ahead log lets readers go on while one of them refreshes. Several servers on several
machines share one in PostgreSQL: RLCLINIC_INDEX=shared puts it into the database that RLCLINIC_DB names, in a schema of the store's own.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, String, create_engine, delete, event, inspect, select, text, union
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DatabaseError, DataError, OperationalError

from rlclinic.errors import DiskFailed, UsageError
from rlclinic.runs import disk
from rlclinic.runs.database import connections, index_rows
from rlclinic.runs.database.schema import ANSWER, CONFIG, GROUP, META, RUN, VERSION_TABLE
from rlclinic.runs.record import GROUPS
from rlclinic.runs.store import Store

VARIABLE: Final = "RLCLINIC_INDEX"
FOLDER: Final = "@index"
FILE: Final = "index.sqlite"
_LOCK: Final = "refresh.lock"
BUSY_MS: Final = 5_000
_CHUNK: Final = 200
"""Rows per statement: SQLite bounds the number of values in one."""
MOST_ANSWERS: Final = 20_000
MOST_ANSWER_BYTES: Final = 64 << 20
"""Of one answer, unpacked."""


Changes = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did."""

    runs: int
    """Read or read again."""
    groups: int
    removed: int
    seconds: float
    changed: tuple[str, ...] = ()
    """Ids of the runs that were read or that are gone."""
    changes: Changes = field(default_factory=dict)
    """Of runs and groups, by id: the state now, or `gone`."""
    versions: tuple[str, str] = ("", "")
    """Of the index before and after; empty if nothing changed."""


class Index:
    """The index of one store, opened or made."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.schema = _choose_schema(store)
        """Where it lies in PostgreSQL; None: it is a file."""
        self.path = _find_folder(store.root) / FILE
        if self.schema is not None:
            self.engine = _open_shared(store, self.schema)
            return
        with self._alone():
            self.engine = _opened(self.path)

    def describe(self) -> str:
        """Where it is, without anything that is secret."""
        return str(self.path) if self.schema is None else f"{connections.describe(self.store)} {self.schema}"

    def count_bytes(self) -> int:
        """What it takes on disk."""
        if self.schema is None:
            return self.path.stat().st_size
        sizes = "SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0) FROM pg_tables"
        with self.connection() as connection:
            return int(connection.execute(text(f"{sizes} WHERE schemaname = :schema"), {"schema": self.schema}).scalar_one())

    def close(self) -> None:
        """Give the file back."""
        # What is still lent (to a thread that nobody can end, say) comes back to a pool that nobody holds any more.
        event.listen(self.engine, "checkin", _close_returned)
        self.engine.dispose()

    def connection(self) -> Connection:
        """For reading: `with index.connection() as connection: …`."""
        return self.engine.connect()

    # ── keeping it current ──

    def refresh(self, *, full: bool = False) -> Refreshed:
        """Read the folders that changed since they were last read (full: all of them), and forget those that are gone."""
        start = time.monotonic()
        with self._alone():
            return self._refresh(full, start)

    def _refresh(self, full: bool, start: float) -> Refreshed:
        there, folders = index_rows.stamps(self.store.root), index_rows.stamps(self.store.root / GROUPS)
        with self.connection() as connection:
            known = {row.id: row for row in connection.execute(select(RUN.c.id, RUN.c.stamp, RUN.c.state, RUN.c.group_id))}
            groups = {row.id: row.stamp for row in connection.execute(select(GROUP.c.id, GROUP.c.stamp))}
        # A live run is always looked at: its process may be gone without having written a word.
        due = [
            id for id, stamp in there.items() if full or id not in known or known[id].stamp != stamp or known[id].state in index_rows.LIVE
        ]
        rows = [row for id in due if (row := index_rows.run_row(self.store, id, there[id])) is not None]
        rows = [row for row in rows if full or row["id"] not in known or _differs(known[row["id"]], row)]
        gone = [id for id in known if id not in there]
        touched = {row["group_id"] for row in rows} | {known[id].group_id for id in gone}
        stale = [id for id, stamp in folders.items() if full or groups.get(id) != stamp or id in touched]
        lost = [id for id in groups if id not in folders]
        changes: Changes = {}
        versions = ("", "")
        if rows or gone or stale or lost:
            groups_now, versions = self._write(rows, gone, {id: folders[id] for id in stale}, lost)
            changes = {
                "runs": {row["id"]: row["state"] for row in rows} | dict.fromkeys(gone, "gone"),
                "groups": groups_now | dict.fromkeys(lost, "gone"),
            }
        changed = (*(row["id"] for row in rows), *gone)
        return Refreshed(len(rows), len(stale), len(gone) + len(lost), time.monotonic() - start, changed, changes, versions)

    def _write(
        self, rows: list[index_rows.Row], gone: list[str], stale: dict[str, int], lost: list[str]
    ) -> tuple[dict[str, str], tuple[str, str]]:
        """Put down what has changed; by id the states of the groups that were read, and the versions before and after."""
        if self.schema is not None:
            rows = [_clean(row) for row in rows]
        with self.engine.begin() as connection:
            for chunk in _chunks([*gone, *(row["id"] for row in rows)]):
                connection.execute(delete(RUN).where(RUN.c.id.in_(chunk)))
            if rows:
                self._keep_settings(connection, rows)
                connection.execute(RUN.insert(), rows)
            found = [row for chunk in _chunks(list(stale)) for row in self._group_rows(connection, chunk, stale)]
            for chunk in _chunks([*lost, *stale]):
                connection.execute(delete(GROUP).where(GROUP.c.id.in_(chunk)))
            if found:
                found = found if self.schema is None else [_clean(row) for row in found]
                self._keep_settings(connection, found)
                connection.execute(GROUP.insert(), found)
            if gone or lost:
                used = union(select(RUN.c.config), select(GROUP.c.config)).subquery()
                connection.execute(delete(CONFIG).where(CONFIG.c.hash.not_in(select(used.c.config).where(used.c.config.is_not(None)))))
            before, version = self.version(connection), secrets.randbits(31)
            changed = f"PRAGMA user_version = {version}" if self.schema is None else f"UPDATE {self.schema}.state SET version = {version}"
            connection.exec_driver_sql(changed)
            if self.schema is not None:
                # To all who listen, when this is committed, and not at all if it never is.
                connection.execute(text("SELECT pg_notify(:channel, :version)"), {"channel": self.schema, "version": str(version)})
        return {row["id"]: row["state"] for row in found}, (str(before), str(version))

    def _keep_settings(self, connection: Connection, rows: list[index_rows.Row]) -> None:
        shared = index_rows.share_settings(rows)
        rows = [{"hash": key, "settings": settings} for key, settings in shared.items()]
        connection.execute(_insert(connection)(CONFIG).on_conflict_do_nothing(), rows)

    def version(self, connection: Connection) -> int:
        """Another number after every change of runs or groups; answers that are kept do not count."""
        asked = "PRAGMA user_version" if self.schema is None else f"SELECT version FROM {self.schema}.state"
        return int(connection.exec_driver_sql(asked).scalar_one())

    def _group_rows(self, connection: Connection, ids: Sequence[str], stamps: dict[str, int]) -> list[index_rows.Row]:
        members: dict[str, list[Any]] = {id: [] for id in ids}
        for member in connection.execute(select(RUN).where(RUN.c.group_id.in_(ids))).mappings():
            members[member["group_id"]].append(member)
        return [row for id in ids if (row := index_rows.group_row(self.store, id, stamps[id], members[id])) is not None]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self.schema is not None:
            with self.engine.begin() as connection:
                _wait_for_turn(connection, self.schema)
                yield
            return
        path = self.path.parent / _LOCK
        with disk.guarded(path), path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # ── answers that took long ──

    def answer(self, key: str, fingerprint: str) -> bytes | None:
        """A kept answer, if the files are still those that it was computed from."""
        with self.connection() as connection:
            row = connection.execute(select(ANSWER.c.fingerprint, ANSWER.c.body).where(ANSWER.c.key == key)).first()
        if row is None or row.fingerprint != fingerprint:
            return None
        try:
            unpacking = zlib.decompressobj()
            body = unpacking.decompress(row.body, MOST_ANSWER_BYTES)
            # An index comes with its store: a stranger's may hold what would fill the memory.
            return body if unpacking.eof else None
        except (zlib.error, TypeError):  # damaged, or written by another version: it can be made again
            return None

    def keep(self, key: str, fingerprint: str, body: bytes) -> None:
        """Keep an answer; the oldest make room."""
        with self.engine.begin() as connection:
            made = {"fingerprint": fingerprint, "body": zlib.compress(body, 1), "made": time.time()}
            keeping = _insert(connection)(ANSWER).values(key=key, **made)
            connection.execute(keeping.on_conflict_do_update(index_elements=[ANSWER.c.key], set_=made))
            oldest = select(ANSWER.c.key).order_by(ANSWER.c.made.desc()).offset(MOST_ANSWERS).scalar_subquery()
            connection.execute(delete(ANSWER).where(ANSWER.c.key.in_(oldest)))


def _find_folder(root: Path) -> Path:
    """Where the index lies: in the store; of a store that cannot be written to, in a folder of our own among temporary files."""
    wanted = root / FOLDER
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        if os.access(wanted, os.W_OK):
            return wanted
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            with disk.guarded(wanted):
                raise
    name = hashlib.blake2b(os.fsencode(root.resolve()), digest_size=8).hexdigest()
    ours = Path(tempfile.gettempdir()) / f"rlclinic-{os.getuid()}"
    with disk.guarded(ours):
        ours.mkdir(mode=0o700, exist_ok=True)
        if ours.stat().st_uid != os.getuid() or ours.is_symlink():
            raise PermissionError(errno.EPERM, "it belongs to somebody else", str(ours))
        (ours / name).mkdir(mode=0o700, exist_ok=True)
    return ours / name


def _close_returned(_: Any, record: Any) -> None:
    record.close()


def _differs(known: Any, row: index_rows.Row) -> bool:
    return bool(known.stamp != row["stamp"] or known.state != row["state"])


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]


def _insert(connection: Connection) -> Any:
    """Both databases have an insertion that gives way, each its own."""
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


# ── in PostgreSQL ──


def _choose_schema(store: Store) -> str | None:
    asked = os.environ.get(VARIABLE, "").strip()
    if asked in ("", "file"):
        return None
    if asked != "shared" or connections.url() is None:
        raise UsageError(
            f"{VARIABLE}={asked[:40]}, and {connections.VARIABLE} names {'no' if connections.url() is None else 'a'} PostgreSQL database.\n"
            f"  It is not known where the index is.\n  Say {VARIABLE}=shared with {connections.VARIABLE}=postgresql://…, or neither"
        )
    return f"rlclinic_index_{connections.identify(store)}"


def _open_shared(store: Store, schema: str) -> Engine:
    """The tables of a store in the shared database; those of another version are made anew: it is only an index."""
    given = connections.url() or ""

    def connect() -> Any:
        connection = connections.connect(given)
        connection.autocommit = False
        return connection

    options: dict[str, Any] = {"schema_translate_map": {None: schema}}
    engine = create_engine(
        "postgresql+psycopg://", creator=connect, pool_size=8, max_overflow=24, pool_pre_ping=True, execution_options=options
    )

    @event.listens_for(engine, "handle_error")
    def explain(context: Any) -> None:
        if isinstance(context.sqlalchemy_exception, DataError):
            raise UsageError("what is looked for cannot stand in a database: it has a NUL, which no text has.\n  Leave it out") from None
        if isinstance(context.sqlalchemy_exception, OperationalError) or context.is_disconnect:
            raise connections.DatabaseDown(
                f"the index in {connections.describe(store)} does not answer.\n  Lists of runs cannot be made.\n"
                "  See that the database runs, then try again"
            ) from None

    columns = [(table.name, column.name, str(column.type)) for table in META.sorted_tables for column in table.columns]
    digest = hashlib.sha256(repr(columns).encode()).hexdigest()
    try:
        with engine.begin() as connection:
            _wait_for_turn(connection, schema)
            if _read_digest(connection, schema) != digest:
                connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
                connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
                META.create_all(connection)
                for table in META.sorted_tables:
                    # The order of bytes, as in SQLite, whatever language the database speaks.
                    for column in (column for column in table.columns if isinstance(column.type, String)):
                        change = f'ALTER COLUMN "{column.name}" TYPE {column.type.compile(connection.dialect)} COLLATE "C"'
                        connection.exec_driver_sql(f"ALTER TABLE {schema}.{table.name} {change}")
                connection.exec_driver_sql(f"CREATE TABLE {schema}.state (version BIGINT NOT NULL, digest TEXT NOT NULL)")
                connection.exec_driver_sql(f"INSERT INTO {schema}.state VALUES (0, '{digest}')")
    except BaseException:
        engine.dispose()
        raise
    return engine


def _wait_for_turn(connection: Connection, schema: str) -> None:
    """One refresh at a time, on all machines. Held until the end of the transaction: a pooler may hand out another connection after it."""
    key = int.from_bytes(hashlib.blake2b(schema.encode(), digest_size=8).digest(), signed=True)
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _read_digest(connection: Connection, schema: str) -> str | None:
    there = connection.execute(text("SELECT to_regclass(:name)"), {"name": f"{schema}.state"}).scalar_one()
    return None if there is None else str(connection.exec_driver_sql(f"SELECT digest FROM {schema}.state").scalar_one())


def _clean(row: index_rows.Row) -> index_rows.Row:
    """The row without what PostgreSQL's texts cannot hold: NUL, and halves of characters."""
    return {
        name: value.replace("\0", "\ufffd").encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


# ── the file ──


def _opened(path: Path) -> Engine:
    """The database with today's tables. One that is damaged, or newer than this program, is made anew: it is only an index."""
    try:
        return _migrated(path)
    except (DatabaseError, CommandError, OSError):
        for file in path.parent.glob(FILE + "*"):
            file.unlink(missing_ok=True)
    try:
        return _migrated(path)
    except OperationalError as error:
        raise DiskFailed(
            f"the index {path} cannot be written: {error.orig}.\n  Lists of runs would have to read every folder.\n"
            "  Choose a folder on a local disk that you can write to: --runs-dir DIR"
        ) from error


def _migrated(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_MS / 1000, "check_same_thread": False})
    event.listen(engine, "connect", _configure)
    try:
        with engine.begin() as connection:
            command.upgrade(alembic_config(connection), "head")
    except (DatabaseError, CommandError, OSError):
        engine.dispose()
        raise
    return engine


def _configure(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    # Where the file system has no shared memory (NFS), SQLite answers with the mode that it keeps.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def alembic_config(connection: Connection) -> Config:
    """What Alembic needs to migrate this connection."""
    config = Config()
    config.set_main_option("script_location", "rlclinic.runs.database:migrations")
    config.attributes["connection"] = connection
    return config


def tables_differ(engine: Engine) -> list[str]:
    """Tables or columns that migrations and `index_schema` do not agree on: none, or a migration is missing."""
    found = inspect(engine)
    names = {name: {column["name"] for column in found.get_columns(name)} for name in found.get_table_names() if name != VERSION_TABLE}
    wanted = {table.name: set(table.columns.keys()) for table in META.tables.values()}
    return sorted(name for name in names.keys() | wanted.keys() if names.get(name) != wanted.get(name))
