"""A Ray cluster for benchmarks: a head that has no room for work, and a node whose raylet can be killed."""

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlclinic import ray_cluster

START = "from ray.scripts.scripts import main; main()"
COMMON = ("--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=100000000", "--block")


def is_there() -> bool:
    """Whether Ray is installed."""
    return importlib.util.find_spec("ray") is not None


class Node:
    """The node that works."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Join the cluster, if it has not."""
        if self._process is None:
            self._process = _start(self._folder, f"--address={self._address}", "--num-cpus=4", *COMMON[1:])

    def kill_raylet(self) -> None:
        """kill -9, and nothing else: what worked for it finds out by itself."""
        if self._process is None:
            return
        for pid in _find_children(self._process.pid):
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "raylet":
                    os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.stop()

    def stop(self) -> None:
        """End what is left of it."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def serve() -> Iterator[Node]:
    """A cluster that ends with the block, for this process and its children."""
    with tempfile.TemporaryDirectory(prefix="rlc-ray-", dir="/tmp", ignore_cleanup_errors=True) as name, socket.socket() as probe:
        folder = Path(name)
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0", ray_cluster.ADDRESS: address}
        options = (f"--port={address.rpartition(':')[2]}", "--node-ip-address=127.0.0.1", "--num-cpus=0", f"--temp-dir={folder}")
        os.environ.update(given)
        head, node = _start(folder, "--head", *options, *COMMON), None
        try:
            _wait(address)
            node = Node(address, folder)
            yield node
        finally:
            if node is not None:
                node.stop()
            head.terminate()
            head.wait()
            for variable in given:
                del os.environ[variable]


def _start(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    environment = {name: value for name, value in os.environ.items() if name != ray_cluster.ADDRESS}
    with (folder / "started.log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-c", START, "start", *options], env=environment, stdout=log, stderr=log)


def _wait(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _find_children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_find_children(child)]
    return found
