"""Where the queue of jobs is kept: SQLite in the store, or PostgreSQL where RLCLINIC_DB says so. One set of statements for both.

RLCLINIC_DB is not set        @jobs/jobs.sqlite of the store; whoever starts a job on this machine also makes its process
RLCLINIC_DB=sqlite            the same file; `rlclinic worker` makes the processes, and takes a job up again when one was killed
RLCLINIC_DB=postgresql://…    a database that workers on many machines share; the run folders lie where all of them can reach them

A password belongs into the variable, PGPASSWORD or ~/.pgpass: it never gets into a command line, a row, a file or a message.
"""

import fcntl
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

from rlclinic.actions import Action
from rlclinic.errors import RunError, UsageError
from rlclinic.runs import disk, jobs
from rlclinic.runs.object_store import artifacts
from rlclinic.runs.store import Store

if TYPE_CHECKING:
    import psycopg

VARIABLE: Final = "RLCLINIC_DB"
FILE: Final = "jobs.sqlite"
IDENTITY: Final = "store.json"
"""In @jobs: the name of a store in a database that many stores share. Its path may differ from machine to machine.

`worker`: a folder of a worker that shares no disk with who starts jobs. `home` tells other folders of the same store apart, whose jobs
are planned where they were started."""
CONNECT_SECONDS: Final = 5
# A client that is paused in the middle must not hold others up: the server ends its transaction.
_BEGIN: Final = (
    "BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'"
)
_MIGRATION_LOCK: Final = 7_285_246
_NEWER: Final = "the tables of the database were made by a newer rlclinic.\n  It cannot be told what they mean.\n  Upgrade this one"
_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay", "bcachefs"})
"""File systems whose files one machine alone has open."""
_NAME: Final = re.compile(r"[0-9a-f]{16}")

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE rlclinic_job (
            store TEXT NOT NULL, id TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, host TEXT NOT NULL, state TEXT NOT NULL,
            attempt INTEGER NOT NULL DEFAULT 0, lease_ends DOUBLE PRECISION, stop INTEGER NOT NULL DEFAULT 0,
            key TEXT, digest TEXT NOT NULL DEFAULT '', tags TEXT NOT NULL DEFAULT '', cores INTEGER NOT NULL DEFAULT 1,
            due DOUBLE PRECISION NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
            env_steps BIGINT NOT NULL DEFAULT 0, charged INTEGER NOT NULL DEFAULT 0, worker TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (store, id)
        )""",
        "CREATE UNIQUE INDEX rlclinic_job_key ON rlclinic_job (store, key)",
        "CREATE INDEX rlclinic_job_state ON rlclinic_job (store, state, created)",
        "CREATE TABLE rlclinic_store (id TEXT PRIMARY KEY, budget_checks BIGINT NOT NULL DEFAULT 0)",
    ),
    (
        "ALTER TABLE rlclinic_job ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX rlclinic_job_owner ON rlclinic_job (store, state, host, owner, created)",
    ),
    (
        "ALTER TABLE rlclinic_job ADD COLUMN losses INTEGER NOT NULL DEFAULT 0",
        """CREATE TABLE rlclinic_worker (
            store TEXT NOT NULL, name TEXT NOT NULL, cores INTEGER NOT NULL, tags TEXT NOT NULL, seen DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (store, name)
        )""",
    ),
    (
        """CREATE TABLE rlclinic_audit (
            store TEXT NOT NULL, number BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL, action TEXT NOT NULL, face TEXT NOT NULL,
            name TEXT NOT NULL, target TEXT NOT NULL, about TEXT NOT NULL, PRIMARY KEY (store, number)
        )""",
        "ALTER TABLE rlclinic_store ADD COLUMN audit_lines BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE rlclinic_store ADD COLUMN audit_bytes BIGINT NOT NULL DEFAULT 0",
    ),
    (
        """CREATE TABLE rlclinic_request (
            store TEXT NOT NULL, job TEXT NOT NULL, number BIGINT NOT NULL, run TEXT NOT NULL, request TEXT NOT NULL,
            PRIMARY KEY (store, job, number)
        )""",
    ),
)
"""The steps to today's tables: a step that was published never changes, the next one is added."""
COLUMNS: Final = (
    *("store", "id", "created", "host", "state", "attempt", "lease_ends", "stop", "key", "digest", "tags", "cores", "due"),
    *("failures", "reason", "env_steps", "charged", "worker", "owner", "losses"),
)


class DatabaseDown(RunError):
    """The database does not answer, or not as it should: nothing was changed, and it may be asked again."""


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Transaction(NamedTuple):
    """Statements that hold together. They are written once, with `?` for every value: no value ever becomes a part of one."""

    connection: Any
    postgres: bool
    store: str
    """The name of the store in this database."""

    @property
    def now(self) -> str:
        """The database's clock in Unix seconds: workers on machines whose clocks differ must agree on who is late."""
        return "extract(epoch FROM clock_timestamp())::float8" if self.postgres else "((julianday('now') - 2440587.5) * 86400.0)"

    @property
    def skip_locked(self) -> str:
        """Rows that somebody else changes at this moment are passed over. In SQLite there is nobody else meanwhile."""
        return "FOR UPDATE SKIP LOCKED" if self.postgres else ""

    @property
    def locked(self) -> str:
        """Nobody else changes these rows until the end of the transaction."""
        return "FOR UPDATE" if self.postgres else ""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        rows: Rows = self.connection.execute(statement.replace("?", "%s") if self.postgres else statement, tuple(values))
        return rows


def url() -> str | None:
    """The URL of the PostgreSQL database; None: the store's own file."""
    return read_url(os.environ.get(VARIABLE, "").strip())


def read_url(given: str) -> str | None:
    """A URL that can be used; None for the store's own file."""
    if not given or given == "sqlite":
        return None
    if not given.startswith(("postgresql://", "postgres://")) or not _readable(given):
        raise UsageError(
            "the database is named neither sqlite nor by the URL of a PostgreSQL database.\n  Nobody knows where the queue is.\n"
            f"  Type: export {VARIABLE}=postgresql://USER@HOST/DATABASE"
        )
    return given


def _readable(given: str) -> bool:
    try:
        parts = urlsplit(given)
        return parts.port is None or bool(parts.path)
    except ValueError:
        return False


def shared() -> bool:
    """Whether jobs are for any worker of the database, and not for the machine that starts them."""
    return bool(os.environ.get(VARIABLE, "").strip())


def choose(given: str | None) -> None:
    """Take the database that an option names, for this process and its children."""
    if given is None:
        return
    check_secret(given)
    os.environ[VARIABLE] = given
    url()


def check_secret(given: str) -> None:
    """UsageError if an option names a database with its password."""
    if ":" in given.partition("://")[2].rpartition("@")[0] or "password" in given:
        raise UsageError(
            "the option has a password in it.\n  Everybody on this machine can read the command lines of all processes.\n"
            f"  Put the whole URL into the variable {VARIABLE}, or the password into PGPASSWORD or ~/.pgpass"
        )


def describe(store: Store) -> str:
    """Where the queue is, without anything that is secret."""
    given = url()
    if given is None:
        return str(path(store))
    parts = urlsplit(given)
    user = f"{parts.username}@" if parts.username else ""
    port = re.search(r":(\d+)$", parts.netloc)
    return f"postgresql://{user}{parts.hostname or ''}{port[0] if port else ''}{parts.path}"


def path(store: Store) -> Path:
    """The SQLite file of a store."""
    return jobs.folder(store) / FILE


def exists(store: Store) -> bool:
    """Whether there is something to ask: a store without jobs has no file, and gets none by being asked."""
    return url() is not None or path(store).exists()


@contextmanager
def transaction(store: Store, database: str | None = None, *, sync: bool = False) -> Iterator[Transaction]:
    """All of the block, or nothing of it; in another database than the one that is chosen, where one is named.

    `sync` waits for the disk, which only a power cut makes necessary; PostgreSQL always does.
    """
    given = url() if database is None else read_url(database)
    with _sqlite(store, sync=sync) if given is None else _postgres(store, given) as opened:
        yield opened


def forget() -> None:
    """Close this thread's connections, where it has any."""
    _local.kept = {}


def migrate(store: Store) -> tuple[int, int]:
    """Bring the tables up to date; the version that they had, and the one that they have."""
    given = url()
    if given is None:
        with _sqlite(store):
            return len(MIGRATIONS), len(MIGRATIONS)
    with _explain_errors(store, given), closing(connect(given)) as connection:
        opened = Transaction(connection, True, "")
        opened.execute(_BEGIN)
        opened.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))
        before = _version(opened)
        if before > len(MIGRATIONS):
            raise RunError(_NEWER)
        _upgrade(opened, before)
        opened.execute("COMMIT")
    return before, len(MIGRATIONS)


def identify(store: Store) -> str:
    """The name of a store in a shared database; made when it is first needed.

    Where an object store is named, too, its jobs are this store's: a folder that asks for the first time has the name that is there.
    """
    if is_named(store):
        return read_identity(store).name
    made = os.urandom(8).hex()
    return give_name(store, artifacts.name_store(made) if url() is not None and artifacts.url() is not None else made).name


class Identity(NamedTuple):
    """Which store a folder is of."""

    name: str
    home: str
    """Which folder of that store, where it has several."""
    worker: bool
    """Whether it is one that a worker keeps for itself."""


def is_named(store: Store) -> bool:
    """Whether a folder is known to be of a store in a shared database."""
    return (jobs.folder(store) / IDENTITY).exists()


def read_identity(store: Store) -> Identity:
    """Which store a folder is of, where it was said."""
    file = jobs.folder(store) / IDENTITY
    record = disk.read_json(file) or {}
    name, home = str(record.get("id")), str(record.get("home", record.get("id")))
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(home):
        raise RunError(f"{file} is damaged.\n  The store has no name in the database.\n  Put back the one from a backup")
    return Identity(name, home, bool(record.get("worker")))


def give_name(store: Store, given: str, *, worker: bool = False) -> Identity:
    """Give a folder the name of a store, unless it has one; which it is then."""
    file = jobs.folder(store) / IDENTITY
    record = {"id": given, "home": os.urandom(8).hex(), **({"worker": True} if worker else {})}
    with disk.guarded(file), tempfile.TemporaryDirectory(dir=_make_folder(store)) as folder:
        made = Path(folder) / IDENTITY
        disk.write_json(made, record, sync=True)
        # A link is made by one alone, also where the file system has no locks: the others take what is there.
        with suppress(FileExistsError):
            file.hardlink_to(made)
    return read_identity(store)


def _make_folder(store: Store) -> Path:
    folder = jobs.folder(store)
    with disk.guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


# ── connections ──


class _Kept:
    """A connection that is closed when its thread ends, or when nobody needs it any more."""

    def __init__(self, connection: Any, inode: int | None = None) -> None:
        self.connection, self.process, self.inode = connection, os.getpid(), inode

    def __del__(self) -> None:
        if self.process == os.getpid():
            self.connection.close()


_local = threading.local()
"""Connections of every thread, by URL or file: opening one costs more than all that is asked through it. A forked process opens its own."""


def _kept() -> dict[str, _Kept]:
    if not hasattr(_local, "kept"):
        _local.kept = {}
    kept: dict[str, _Kept] = _local.kept
    return kept


# ── SQLite ──


@contextmanager
def _sqlite(store: Store, *, sync: bool = False) -> Iterator[Transaction]:
    """One at a time, on all processes: what is read in it is still so when it is written."""
    _make_folder(store)
    try:
        connection = _open_file(path(store))
        try:
            if sync:
                connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            opened = Transaction(connection, False, "")
            if (version := _version(opened)) != len(MIGRATIONS):
                _upgrade(opened, version)
            yield opened
            connection.execute("COMMIT")
            if sync and _is_local(path(store).parent):
                connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            _kept().pop(str(path(store)), None)
            connection.close()
            raise
    except sqlite3.Error as error:
        raise DatabaseDown(
            f"the queue {path(store)} cannot be used: {error}.\n  Nothing was started.\n"
            f"  If it is damaged, move it away (and {FILE}-wal): what waits is known by job.json and queued again, the audit begins anew"
        ) from error


def _open_file(file: Path) -> sqlite3.Connection:
    """The connection of this thread, as long as the file is the same. Opened anew each time, every change would wait for the disk."""
    kept = _kept().get(str(file))
    if kept is not None and kept.process == os.getpid() and kept.inode == _find_inode(file):
        return kept.connection
    if _find_inode(file) is not None:
        return _connect_file(file)
    # One of those who ask first makes it: the others would take its log away from it, or not get to set how it is written.
    with file.with_name(f"{file.name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _find_inode(file) is None:
            # Somebody removed the queue: what was to be added to the old one does not belong to the new one.
            _kept().pop(str(file), None)
            for ending in ("-wal", "-shm"):
                file.with_name(file.name + ending).unlink(missing_ok=True)
        return _connect_file(file)


def _connect_file(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
    try:
        # A write-ahead log needs memory that all processes share: several machines on one file have none. Of what waits for the disk
        # then, a power cut may cost the last changes, which job.json has; a kill costs nothing.
        local = _is_local(file.parent)
        connection.execute(f"PRAGMA journal_mode={'WAL' if local else 'DELETE'}").fetchone()
        connection.execute(f"PRAGMA synchronous={'NORMAL' if local else 'FULL'}")
    except sqlite3.Error:
        connection.close()
        raise
    _kept()[str(file)] = _Kept(connection, _find_inode(file))
    return connection


@cache
def _is_local(folder: Path) -> bool:
    """Whether a folder is on a disk of this machine, as far as is known: not where the system does not say."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        place = folder.resolve()
        # The longest that it lies below; blanks are written as \\040 there. Of two at one place the later one covers the other.
        fitting = [(len(where), kind) for _, where, kind, *_ in mounts if place.is_relative_to(where.replace("\\040", " "))]
        return max(enumerate(fitting), key=lambda entry: (entry[1][0], entry[0]))[1][1] in _LOCAL
    except (OSError, ValueError):
        return False


def _find_inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return None


# ── PostgreSQL ──


@contextmanager
def _postgres(store: Store, given: str) -> Iterator[Transaction]:
    name = identify(store)
    with _explain_errors(store, given):
        opened = Transaction(_begin(given), True, name)
        try:
            yield opened
            opened.connection.execute("COMMIT")
        except BaseException:
            # A kill of the server in the middle ends the transaction by itself.
            _kept().pop(given, None)
            opened.connection.close()
            raise


def _begin(given: str) -> "psycopg.Connection[Any]":
    """A connection in a new transaction. One that broke since it was last used is opened anew: nothing was asked of it yet."""
    import psycopg

    kept = _kept().get(given)
    if kept is not None and kept.process == os.getpid():
        try:
            kept.connection.execute(_BEGIN)
        except psycopg.Error:
            del _kept()[given]
        else:
            return kept.connection
    connection = connect(given)
    try:
        connection.execute(_BEGIN)
        if (version := _version(Transaction(connection, True, ""))) > len(MIGRATIONS):
            raise RunError(_NEWER)
        if version < len(MIGRATIONS):
            raise RunError("the database has no tables of this rlclinic yet.\n  There is no queue.\n  Make them: ", Action("db migrate"))
    except BaseException:
        connection.close()
        raise
    _kept()[given] = _Kept(connection)
    return connection


def connect(given: str) -> "psycopg.Connection[Any]":
    """A new connection to the database of this URL."""
    settings = _read_settings(given)

    # Prepared statements belong to a connection of the server, and a pooler may hand out another one each time.
    return _closing_connection().connect("", autocommit=True, prepare_threshold=None, **settings)


@cache
def _closing_connection() -> "type[psycopg.Connection[Any]]":
    """A connection that is closed when nobody holds it any more: one that is lent while its pool is disposed of comes back to nobody."""
    import psycopg

    class ClosingConnection(psycopg.Connection[Any]):
        process = 0

        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.process = os.getpid()

        def __del__(self, *_: Any) -> None:
            # A forked process has the same socket: to close it there would end the session of the process that uses it.
            if self.process == os.getpid():
                self.close()

    return ClosingConnection


async def connect_listening(given: str) -> "psycopg.AsyncConnection[Any]":
    """A new connection that waits for what others tell, in the event loop."""
    settings = _read_settings(given)
    import psycopg

    return await psycopg.AsyncConnection.connect("", autocommit=True, prepare_threshold=None, **settings)


def _read_settings(given: str) -> dict[str, Any]:
    try:
        from psycopg import conninfo
    except ImportError:
        raise UsageError(
            f"{VARIABLE} names a PostgreSQL database, and psycopg is not installed.\n  The queue cannot be reached.\n"
            "  Type: pip install 'rlclinic[postgres]'"
        ) from None
    kept = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
    settings = conninfo.conninfo_to_dict(given)
    # A database that was made without a language says that its text has no encoding: then psycopg gives bytes.
    always = {"client_encoding": "utf8", "tcp_user_timeout": 10_000}
    return {"connect_timeout": CONNECT_SECONDS, "application_name": "rlclinic", **kept, **always, **settings}


@contextmanager
def _explain_errors(store: Store, given: str) -> Iterator[None]:
    """Say what is wrong with the database without saying its password: messages of the driver may quote the URL."""
    try:
        import psycopg
    except ImportError:
        connect(given)
        raise
    try:
        yield
    except psycopg.Error as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DatabaseDown(
            f"the database {describe(store)} cannot be used: {_hide(said, given)}.\n  Nothing was changed, as far as is known.\n"
            "  See that it runs and can be reached, then try again"
        ) from None


def _hide(text: str, given: str) -> str:
    password = urlsplit(given).password
    for secret in (given, password, quote(password) if password else None, os.environ.get("PGPASSWORD")):
        if secret:
            text = text.replace(secret, "***")
    # A URL that is cut or changed in a message.
    return re.sub(r"//[^\s@\"]*@", "//***@", text)


# ── tables ──


def _version(opened: Transaction) -> int:
    known = (
        "SELECT to_regclass('rlclinic_version')" if opened.postgres else "SELECT name FROM sqlite_master WHERE name = 'rlclinic_version'"
    )
    row = opened.execute(known).fetchone()
    return int(opened.execute("SELECT version FROM rlclinic_version").fetchone()[0]) if row is not None and row[0] is not None else 0


def _upgrade(opened: Transaction, version: int) -> None:
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            opened.execute(statement)
    if version == 0:
        opened.execute("CREATE TABLE rlclinic_version (version INTEGER NOT NULL)")
        opened.execute("INSERT INTO rlclinic_version (version) VALUES (0)")
        if not opened.postgres and opened.execute("SELECT name FROM sqlite_master WHERE name = 'job'").fetchone() is not None:
            # The table of the first versions, of one machine.
            first = "id, created, host, state, attempt, lease_ends, stop"
            opened.execute(f"INSERT INTO rlclinic_job (store, {first}) SELECT '', {first} FROM job")
            opened.execute("DROP TABLE job")
    opened.execute("UPDATE rlclinic_version SET version = ?", (len(MIGRATIONS),))
