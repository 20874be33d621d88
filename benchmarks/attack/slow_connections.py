"""Connections that never finish their request: how long do others wait meanwhile?

Three kinds, each as many as its size says, and all in this process: silent ones, ones that sent half a header, and ones that send a
byte of a header every second. While they are there, and after they have left, another client asks for /api/v1/health 50 times.
"""

import http.client
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from benchmarks import provenance
from benchmarks.serving import serving

CONNECTIONS: Final = {"quick": 300, "bar": 2_000, "stretch": 6_000}
KINDS: Final = ("silent", "half a header", "a byte of a header every second")
QUESTIONS: Final = 50


def rows(size: str) -> Iterator[dict[str, Any]]:
    """The longest wait beside each kind, and after all have left."""
    count = CONNECTIONS[size]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 500), hard))
    root = provenance.SCRATCH / "attack" / "runs"
    root.mkdir(parents=True, exist_ok=True)
    limits = {"unit": "s", "better": "lower", "bar": 1.0, "stretch": 0.2}
    with serving(root, workers=1) as (port, _):
        for kind in KINDS:
            with _connections(port, count, kind) as sockets:
                yield {"what": f"{count:,} connections, {kind}: the longest wait of others", "value": _ask(port, kind, sockets), **limits}
        yield {"what": f"after {count:,} connections of each kind have left: the longest wait", "value": _ask(port, "", []), **limits}
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def _connections(port: int, count: int, kind: str) -> Iterator[list[socket.socket]]:
    sockets = []
    for _ in range(count):
        made = socket.socket()
        made.setblocking(False)
        with suppress(BlockingIOError):
            made.connect(("127.0.0.1", port))
        sockets.append(made)
    time.sleep(0.5)
    if kind != "silent":
        _send(sockets, b"GET /api/v1/runs HTTP/1.1\r\nHost: local")
    try:
        yield sockets
    finally:
        for made in sockets:
            made.close()


def _send(sockets: list[socket.socket], data: bytes) -> None:
    for made in sockets:
        with suppress(OSError):  # the server may have closed it
            made.send(data)


def _ask(port: int, kind: str, sockets: list[socket.socket]) -> float:
    """The longest of several answers. One that does not come counts as its time limit."""
    longest = 0.0
    for number in range(QUESTIONS):
        if "every second" in kind and number % 5 == 0:
            _send(sockets, b"h")
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        began = time.monotonic()
        with suppress(OSError, http.client.HTTPException):
            client.request("GET", "/api/v1/health")
            client.getresponse().read()
        longest = max(longest, time.monotonic() - began)
        client.close()
        time.sleep(0.2)
    return longest
