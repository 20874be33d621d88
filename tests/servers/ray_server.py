"""A Ray cluster: a head that has no room for work, and a node whose raylet can be killed, on this machine or on another one."""

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
from tests.servers.namespaces import Host

START = "from ray.scripts.scripts import main; main()"
COMMON = ("--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=100000000", "--block")


def is_there() -> bool:
    """Whether Ray is installed."""
    return importlib.util.find_spec("ray") is not None


class Node:
    """The node that works."""

    def __init__(self, address: str, folder: Path, head: "subprocess.Popen[bytes]", host: Host | None = None, gpus: int = 0) -> None:
        self._address, self._folder, self._head, self._host, self._gpus = address, folder, head, host, gpus
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Join the cluster, if it has not, or has been thrown out."""
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None:
            where = () if self._host is None else (f"--node-ip-address={self._host.address}",)
            has = ("--num-cpus=4", f"--num-gpus={self._gpus}")
            self._process = _start(self._folder, f"--address={self._address}", *has, *where, *COMMON[1:], host=self._host)

    def kill_raylet(self) -> None:
        """kill -9, and nothing else: what worked for it finds out by itself."""
        if self._process is None:
            return
        for pid in self.find_raylets():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.stop()

    def kill_gcs(self) -> None:
        """kill -9 of what knows which nodes and actors there are; it is the end of the cluster."""
        for pid in _find_named(self._head, "gcs_server"):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def find_raylets(self) -> list[int]:
        """Its process, if it has one."""
        return [] if self._process is None else _find_named(self._process, "raylet")

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
def serve(host: Host | None = None, gpus: int = 0) -> Iterator[Node]:
    """A cluster that ends with the block, for this process and its children. Its node is on another machine, where one is given.

    gpus: how many its node says that it has; Ray takes its word for it.
    """
    here = "127.0.0.1" if host is None else host.here
    with tempfile.TemporaryDirectory(prefix="rlc-ray-", dir="/tmp", ignore_cleanup_errors=True) as name, socket.socket() as probe:
        folder = Path(name)
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        probe.bind((here, 0))
        address = f"{here}:{probe.getsockname()[1]}"
        probe.close()
        given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0", ray_cluster.ADDRESS: address}
        options = (f"--port={address.rpartition(':')[2]}", f"--node-ip-address={here}", "--num-cpus=0", f"--temp-dir={folder}")
        os.environ.update(given)
        head, node = _start(folder, "--head", *options, *COMMON), None
        try:
            _wait(address)
            node = Node(address, folder, head, host, gpus)
            yield node
        finally:
            if node is not None:
                node.stop()
            head.terminate()
            head.wait()
            for variable in given:
                del os.environ[variable]


def _start(folder: Path, *options: str, host: Host | None = None) -> "subprocess.Popen[bytes]":
    environment = {name: value for name, value in os.environ.items() if name != ray_cluster.ADDRESS}
    command = [sys.executable, "-c", START, "start", *options]
    with (folder / "started.log").open("ab") as log:
        return subprocess.Popen(command if host is None else host.command(command), env=environment, stdout=log, stderr=log)


def _find_named(process: "subprocess.Popen[bytes]", name: str) -> list[int]:
    found = []
    for pid in _find_children(process.pid):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def _wait(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 180
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
    with suppress(OSError):  # it has ended meanwhile
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                found += [child, *_find_children(child)]
    return found
