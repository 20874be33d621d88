"""Two hundred pages that are open and wait: what do they cost the server while nothing happens?

A third follows the whole store, a third one run, a third one group; the store holds 40 runs that have ended. The processor time of the
server over 20 s, with the streams and without them, as a share of one core.
"""

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks import provenance
from benchmarks.serving import cpu_seconds, make_fresh, serving

CLIENTS: Final = {"quick": 20, "bar": 200, "stretch": 1_000}
SECONDS: Final = {"quick": 3.0, "bar": 20.0, "stretch": 20.0}
RUNS: Final = 40


def rows(size: str) -> Iterator[dict[str, Any]]:
    """The share of a core that idle streams take."""
    root = provenance.SCRATCH / "attack-sse" / "runs"
    ids = [f"b{number:05d}" for number in range(RUNS // 4)] if root.exists() else make_fresh(root, RUNS)
    subprocess.run([sys.executable, "-m", "rlclinic", "db", "reindex", "--runs-dir", str(root)], check=True, capture_output=True)
    with serving(root, workers=1) as (port, process):
        _settle(port, ids)
        before = _measure(process, SECONDS[size])
        streams = [_open(port, path) for path in _paths(ids, CLIENTS[size])]
        time.sleep(2.0)
        share = _measure(process, SECONDS[size])
        answered = _ask(port)
        for stream in streams:
            stream.close()
    count = CLIENTS[size]
    limits = {"unit": "%", "better": "lower", "bar": 5.0, "stretch": 1.0}
    note = f"{100 * before:.2f} % without them"
    yield {"what": f"{count} idle streams: share of a core", "value": 100 * max(0.0, share - before), "note": note, **limits}
    limits = {"unit": "s", "better": "lower", "bar": 1.0, "stretch": 0.2}
    yield {"what": f"{count} idle streams: how long others wait for an answer", "value": answered, **limits}


def _paths(ids: list[str], count: int) -> list[str]:
    kinds = ("/api/v1/events", "/api/v1/runs/{}-s0/events", "/api/v1/groups/{}/events")
    return [kinds[number % 3].format(ids[number % len(ids)]) for number in range(count)]


def _settle(port: int, ids: list[str]) -> None:
    """Diagnose everything, as the server would by and by: afterwards it has nothing else to do."""
    for id in ids:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        client.request("GET", f"/api/v1/groups/{id}/diagnosis")
        client.getresponse().read()
        client.close()
    time.sleep(5.0)


def _measure(process: int, seconds: float) -> float:
    began, used = time.monotonic(), cpu_seconds(process)
    time.sleep(seconds)
    return (cpu_seconds(process) - used) / (time.monotonic() - began)


def _open(port: int, path: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), timeout=30)
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert stream.recv(200).startswith(b"HTTP/1.1 200"), path
    return stream


def _ask(port: int) -> float:
    longest = 0.0
    for _ in range(20):
        began = time.monotonic()
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", "/api/v1/groups")
        client.getresponse().read()
        client.close()
        longest = max(longest, time.monotonic() - began)
    return longest
