"""What a pooler of transactions does (PgBouncer with `pool_mode=transaction`): few connections of a PostgreSQL server are lent to many
clients, to each for one transaction. What belongs to a connection for longer (LISTEN, locks, prepared statements) gets lost.
"""

import os
import queue
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from tests.servers.postgres import PASSWORD, Server

_NO_ENCRYPTION: Final = (80_877_103, 80_877_104)
_CANCEL: Final = 80_877_102
_SAID_AT_START: Final = ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings")


class _Lent:
    """A connection of the server, after its user was let in: from then on only bytes are passed on."""

    def __init__(self, url: str) -> None:
        self.opened = psycopg.connect(url, autocommit=True)
        self.socket = socket.socket(fileno=os.dup(self.opened.pgconn.socket))
        self.socket.setblocking(True)

    def close(self) -> None:
        self.socket.close()
        self.opened.close()


def _read(source: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = source.recv(count - len(parts))
        if not part:
            raise ConnectionError
        parts += part
    return parts


def _read_message(source: socket.socket) -> tuple[bytes, bytes]:
    """Its kind, and all of it."""
    head = _read(source, 5)
    return head[:1], head + _read(source, struct.unpack("!i", head[1:])[0] - 4)


class Pooler(socketserver.ThreadingTCPServer):
    """One that has so many connections."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self, server: Server, connections: int) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.free: queue.Queue[_Lent] = queue.Queue()
        self.all = [_Lent(server.url) for _ in range(connections)]
        for each in self.all:
            self.free.put(each)

    @property
    def url(self) -> str:
        return f"postgresql://clinic:{PASSWORD}@127.0.0.1:{self.server_address[1]}/postgres?sslmode=disable"

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is no news."""


class _Client(socketserver.BaseRequestHandler):
    server: Pooler

    def handle(self) -> None:
        client: socket.socket = self.request
        self._let_in(client)
        lent: _Lent | None = None
        try:
            while True:
                kind, message = _read_message(client)
                if kind == b"X":
                    return
                if lent is None:
                    lent = self.server.free.get(timeout=30)
                lent.socket.sendall(message)
                if kind in b"QS" and self._answer(client, lent) == b"I":
                    self.server.free.put(lent)
                    lent = None
        except ConnectionError:
            pass
        finally:
            if lent is not None:
                lent.socket.sendall(b"Q" + struct.pack("!i", 13) + b"ROLLBACK\0")
                while _read_message(lent.socket)[0] != b"Z":
                    pass
                self.server.free.put(lent)

    def _let_in(self, client: socket.socket) -> None:
        while (code := struct.unpack("!i", _read(client, struct.unpack("!i", _read(client, 4))[0] - 4)[:4])[0]) in _NO_ENCRYPTION:
            client.sendall(b"N")
        if code == _CANCEL:
            raise ConnectionError
        known = self.server.free.get(timeout=30)
        said = {name: known.opened.pgconn.parameter_status(name.encode()) or b"" for name in _SAID_AT_START}
        self.server.free.put(known)
        client.sendall(b"R" + struct.pack("!ii", 8, 0))
        for name, value in said.items():
            body = name.encode() + b"\0" + value + b"\0"
            client.sendall(b"S" + struct.pack("!i", len(body) + 4) + body)
        client.sendall(b"K" + struct.pack("!iii", 12, threading.get_ident() % 2**31, 0))
        client.sendall(b"Z" + struct.pack("!i", 5) + b"I")

    def _answer(self, client: socket.socket, lent: _Lent) -> bytes:
        """Pass on what the server says, until it waits for the next word; whether a transaction is open then."""
        while True:
            kind, message = _read_message(lent.socket)
            client.sendall(message)
            if kind == b"Z":
                return message[-1:]


@contextmanager
def serve(server: Server, connections: int = 2) -> Iterator[Pooler]:
    """A pooler in front of a server, for as long as the block lasts."""
    with Pooler(server, connections) as pooler:
        thread = threading.Thread(target=pooler.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield pooler
        finally:
            pooler.shutdown()
            thread.join()
            for each in pooler.all:  # also those that a client still has
                each.close()
