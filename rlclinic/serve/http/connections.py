"""Connections: how many there may be, and how long a client may take to say what it wants.

A client that sends half a header, or reads its answer a byte at a time, costs it nothing and a server a file descriptor. So every
part of a request has a deadline; and when all places are taken, the connection that has been silent for longest makes room for a
new one. An honest client says what it wants at once, and is never that one.
"""

import asyncio
import logging
import os
import resource
import threading
import time
from typing import ClassVar, Final, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS: Final = 10.0
"""From the first byte of a request (or from connecting) to the end of its headers."""
BODY_SECONDS: Final = 30.0
"""From the end of the headers to the end of the body."""
WRITE_SECONDS: Final = 60.0
"""How long a client may leave its answer unread."""
WANTED_FILES: Final = 8_192
"""Open files that the server asks the system for; it stays within what it gets."""
GRACE_SECONDS: Final = 5.0
"""How long a process may outlive its event loop."""

_TIMED_OUT: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n"
_log = logging.getLogger("rlclinic.http")


class Limits(NamedTuple):
    """What the open files that a process may have leave for connections; the rest is for run folders, the index and new processes."""

    connections: int
    backlog: int
    """Connections that are taken in at once, before any of them can be closed again."""


def raise_file_limit() -> Limits:
    """Ask the system for as many open files as a busy server needs, and share out what it gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return Limits(connections=most // 2, backlog=most // 4)


def end_with_loop() -> None:
    """End the process if the running event loop dies: a server that no longer answers must not hold its port."""
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while loop.is_running():
            time.sleep(1.0)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-loop").start()


class Connection(H11Protocol):
    """One client. uvicorn's own protocol times out only what stays silent after an answer."""

    most: ClassVar[int] = WANTED_FILES // 2
    """Connections of this process."""
    waiting: ClassVar[dict["Connection", None]] = {}
    """Those of this process that have asked for nothing yet, the longest silent first."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A new client: it gets a place, if need be that of the one which has been silent for longest."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting))
            oldest.leave(_FULL if oldest is self else b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        self._cancel_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request. The deadline of the part counts from its beginning: a byte now and then does not move it."""
        before = self.conn.their_state
        super().data_received(data)
        after = self.conn.their_state
        if self.transport.is_closing():
            return
        if after is h11.SEND_BODY:
            if before is not h11.SEND_BODY:
                self._stop_waiting()
                self._deadline = self.loop.call_later(BODY_SECONDS, self.leave, _TIMED_OUT)
        elif after is h11.IDLE:
            if self._deadline is None:
                self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Answered: until it asks again, its place may be given to somebody else."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            # How long it may stay silent now is uvicorn's own business.
            self.waiting[self] = None

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        super().pause_writing()
        self._cancel_unread()
        self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads on."""
        self._cancel_unread()
        super().resume_writing()

    def leave(self, last_words: bytes = b"") -> None:
        """Close the connection; a client in the middle of an answer gets no other words."""
        self._stop_waiting()
        if last_words and self.conn.our_state is h11.IDLE:
            self.transport.write(last_words)
        self.transport.close()

    def _wait(self) -> None:
        self.waiting[self] = None
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.leave, _TIMED_OUT)

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        self._unread = None
