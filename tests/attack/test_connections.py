"""Clients that take places and ask for nothing: the server goes on, and whoever asks is answered."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from rlclinic.serve.http import connections
from rlclinic.serve.http.connections import Connection
from tests.serve.http.processes import Server

Connect = Callable[..., list[socket.socket]]
HALF = b"GET /api/v1/runs HTTP/1.1\r\nHost: local"


# ── the whole server ──


def test_eleven_hundred_halves_of_a_header_with_a_thousand_open_files_do_not_stop_the_server(tmp_path: Path, connect: Connect) -> None:
    (tmp_path / "runs").mkdir()
    with Server(tmp_path / "runs", mcp=True, most_files=1_024) as server:
        clients = connect(server.port, 1_100, HALF)
        time.sleep(0.5)
        for _ in range(5):
            began = time.monotonic()
            assert server.ask("GET", "/api/v1/health")[0] == 200
            assert time.monotonic() - began < 1.0
        for client in clients:
            client.close()
        assert server.ask("GET", "/api/v1/health")[0] == 200
        assert server.process.poll() is None


def test_a_process_ends_when_its_event_loop_has_died(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(
        "import asyncio, threading, time\n"
        "from rlclinic.serve.http import connections\n"
        "connections.GRACE_SECONDS = 0.1\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "async def serve():\n"
        "    connections.end_with_loop()\n"
        "    raise OSError(24, 'Too many open files')\n"
        "asyncio.run(serve())\n"
    )
    began = time.monotonic()
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 1
    assert "Too many open files" in ended.stderr
    assert time.monotonic() - began < 30


# ── one connection ──


async def _echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the size of the body; /large with more than any buffer holds."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = b"x" * 30_000_000 if scope["path"] == "/large" else str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server of few places and short patience."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.5)
    monkeypatch.setattr(Connection, "most", 8)
    monkeypatch.setattr(Connection, "waiting", {})
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(_echo, http=Connection, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make connections and send the same on each; those that are still open end with the test."""
    everybody: list[socket.socket] = []

    def make(port: int, count: int, data: bytes = b"") -> list[socket.socket]:
        clients = [socket.socket() for _ in range(count)]
        everybody.extend(clients)
        for client in clients:
            # Not all may be taken in: what counts is that they are there.
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
        time.sleep(0.2)
        for client in clients:
            with suppress(OSError):
                client.send(data)
            client.settimeout(5)
        return clients

    yield make
    for client in everybody:
        client.close()


def _ask(client: socket.socket, body: bytes = b"") -> bytes:
    client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    said = b""
    while b"\r\n\r\n" not in said or said.endswith(b"\r\n\r\n"):
        part = client.recv(1_000)
        assert part, said
        said += part
    return said


def _wait_for_end(client: socket.socket) -> tuple[bytes, float]:
    """What the server says before it closes the connection, and how long that took."""
    began, said = time.monotonic(), b""
    with suppress(ConnectionResetError):
        while part := client.recv(1_000_000):
            said += part
    return said, time.monotonic() - began


def test_half_a_header_is_waited_for_only_so_long(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1, HALF)
    said, seconds = _wait_for_end(client)
    assert said.startswith(b"HTTP/1.1 408")
    assert seconds < 2


def test_a_byte_now_and_then_does_not_move_the_deadline_of_a_header(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1, HALF)
    client.settimeout(0.1)
    began = time.monotonic()
    with suppress(ConnectionError):
        while time.monotonic() - began < 4:
            client.send(b"h")
            with suppress(TimeoutError):
                if b"408" in client.recv(100):
                    break
    assert time.monotonic() - began < 2


def test_half_a_header_after_an_answer_is_waited_for_only_so_long_too(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1)
    assert b"200" in _ask(client)
    client.send(HALF)
    assert _wait_for_end(client)[1] < 2


def test_half_a_body_is_waited_for_only_so_long(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
    assert _wait_for_end(client)[1] < 2


def test_an_answer_that_nobody_reads_is_given_up(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    time.sleep(1.5)
    assert len(_wait_for_end(client)[0]) < 30_000_000


def test_the_longest_silent_connection_makes_room_for_a_new_one(port: int, connect: Connect) -> None:
    silent = connect(port, 8)
    (newcomer,) = connect(port, 1)
    assert b"200" in _ask(newcomer)
    assert silent[0].recv(100) == b""
    assert b"200" in _ask(silent[7])


def test_a_connection_that_asks_again_and_again_keeps_its_place(port: int, connect: Connect) -> None:
    (client,) = connect(port, 1)
    for size in (0, 10, 70_000):
        assert _ask(client, b"x" * size).endswith(str(size).encode())
        time.sleep(0.3)
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
    said = b""
    while said.count(b"200 OK") < 3:
        said += client.recv(1_000)
