"""Answers that are made once: kept as bytes with the fingerprint of the folders they were made from, and an ETag.

A diagnosis takes a hundred times as long as sending it. The newest answers stay in memory; those that took long are also kept in
the index, for other workers and for the next start of the server.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from sqlalchemy.exc import SQLAlchemyError

from rlclinic.runs.database.index import Index

MOST_BYTES: Final = 64_000_000
LONG_SECONDS: Final = 0.005
"""From here on an answer that may be kept is kept: finding it again takes a fraction of that."""

MOST_PENDING: Final = 200
"""Answers that are made or wait to be made; who can be told to wait is told so without joining them."""
LONGEST_WAIT_SECONDS: Final = 10.0

Make = Callable[[], bytes]
_log = logging.getLogger("rlclinic.http")


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON body, what it was made from, and its ETag."""

    body: bytes
    fingerprint: str
    etag: str


class Answers:
    """The newest answers of this process, and the long ones of all."""

    def __init__(self, index: Index, version: str = "") -> None:
        """`version` of the program: another one may answer otherwise."""
        self._index, self._version = index, version
        self._kept: OrderedDict[Hashable, Answer] = OrderedDict()
        self._bytes = 0
        # One at a time: Python computes no faster in two threads, and the others would wait for both.
        self._heavy = CapacityLimiter(1)
        self._making: dict[Hashable, asyncio.Task[Answer]] = {}
        self._usual_seconds = 0.2

    def known(self, key: Hashable, fingerprint: str) -> Answer | None:
        """An answer from memory, if the folders are still what they were."""
        answer = self._kept.get(key)
        if answer is None or answer.fingerprint != fingerprint:
            return None
        self._kept.move_to_end(key)
        return answer

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer that takes long."""
        return self._heavy.statistics().borrowed_tokens > 0

    async def get(
        self, key: Hashable, fingerprint: str, make: Make, *, keep: bool = False, heavy: bool = False, patience: float | None = None
    ) -> Answer:
        """The answer, made if nobody has. Whoever asks while it is being made waits for that one, which goes on when they leave.

        keep: in the index too, for other processes and the next start. heavy: one at a time. patience: seconds that whoever asks would
        wait; NotYet, with the time after which to ask again, if it takes longer.
        """
        known = self.known(key, fingerprint)
        if known is not None:
            return known
        task = self._making.get((key, fingerprint))
        if task is None:
            if heavy and patience is not None and len(self._making) >= MOST_PENDING:
                raise NotYet(self._estimate(len(self._making)))
            task = asyncio.create_task(self._make_once(key, fingerprint, make, keep, heavy))
            task.add_done_callback(_take_note)
            self._making[(key, fingerprint)] = task
        try:
            return await asyncio.wait_for(asyncio.shield(task), patience)
        except TimeoutError:
            if task.done():
                return task.result()
            ahead = next((place for place, made in enumerate(self._making.values()) if made is task), 0)
            raise NotYet(self._estimate(ahead)) from None

    async def _make_once(self, key: Hashable, fingerprint: str, make: Make, keep: bool, heavy: bool) -> Answer:
        try:
            # What is kept is found at once, also while others wait for what must be made.
            answer = await to_thread.run_sync(self._found, key, fingerprint) if keep else None
            if answer is None:
                limiter = self._heavy if heavy else None
                answer = await to_thread.run_sync(self._made, key, fingerprint, make, keep, limiter=limiter)
        finally:
            del self._making[(key, fingerprint)]
        self._remember(key, answer)
        return answer

    def _estimate(self, ahead: int) -> float:
        """After how many seconds it is worth asking again: when all that was asked for before has been made, or sooner."""
        return min(LONGEST_WAIT_SECONDS, max(1.0, (ahead + 1) * self._usual_seconds))

    def _found(self, key: Hashable, fingerprint: str) -> Answer | None:
        try:
            body = self._index.answer(repr(key), self._mark(fingerprint))
        except SQLAlchemyError as error:
            _log.warning("kept answers cannot be read: %s", error)
            return None
        return None if body is None else Answer(body, fingerprint, etag(body))

    def _made(self, key: Hashable, fingerprint: str, make: Make, keep: bool) -> Answer:
        start = time.monotonic()
        body = make()
        took = time.monotonic() - start
        if keep:
            self._usual_seconds += 0.1 * (took - self._usual_seconds)
        if keep and took > LONG_SECONDS:
            try:
                self._index.keep(repr(key), self._mark(fingerprint), body)
            except SQLAlchemyError as error:  # a full disk, say: the answer is as good
                _log.warning("an answer was not kept: %s", error)
        return Answer(body, fingerprint, etag(body))

    def _mark(self, fingerprint: str) -> str:
        return hashlib.blake2b(f"{self._version} {fingerprint}".encode(), digest_size=16).hexdigest()

    def _remember(self, key: Hashable, answer: Answer) -> None:
        old = self._kept.pop(key, None)
        self._bytes += len(answer.body) - (len(old.body) if old else 0)
        self._kept[key] = answer
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[1].body)


class NotYet(Exception):
    """It is being made; whoever asked does not want to wait for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"ask again in {seconds:.0f} s")
        self.seconds = seconds


def _take_note(task: asyncio.Task[Answer]) -> None:
    if not task.cancelled():
        task.exception()  # nobody may be waiting any more, and that is no mistake


def etag(body: bytes) -> str:
    """A name for these bytes."""
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def respond(request: Request, answer: Answer) -> Response:
    """The answer, or 304 if the client has it."""
    wanted = request.headers.get("if-none-match", "")
    headers = {"etag": answer.etag}
    if answer.etag in (part.strip().removeprefix("W/") for part in wanted.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(answer.body, media_type="application/json", headers=headers)
