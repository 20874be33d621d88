"""Answers that are made once: kept as bytes with the fingerprint of the folders they were made from, and an ETag.

A diagnosis takes a hundred times as long as sending it. The newest answers stay in memory; those that took long are also kept in
the index, for other workers and for the next start of the server. Of several workers one makes an answer, and the others wait for it; a
worker with nothing to do makes what is waited for elsewhere.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
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
LOOK_SECONDS: Final = 0.05
"""Between two looks at whether another worker has made an answer: a look is one system call."""
_CLAIMS: Final = "making.lock"
_WANTED: Final = "wanted"
"""A folder with an empty file for each group whose diagnosis somebody waits for behind others."""

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
        self._claims = Claims(index.path.parent / _CLAIMS)
        self._wanted = index.path.parent / _WANTED
        self._own_wanted: set[str] = set()
        # One at a time: Python computes no faster in two threads, and the others would wait for both.
        self._heavy = CapacityLimiter(1)
        # What takes some milliseconds passes those who wait for more, and not forty of them at once for the same reason.
        self._light = CapacityLimiter(4)
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
        self,
        key: Hashable,
        fingerprint: str,
        make: Make,
        *,
        keep: bool = False,
        heavy: bool = False,
        patience: float | None = None,
        group: str | None = None,
    ) -> Answer:
        """The answer, made if nobody has. Whoever asks while it is being made waits for that one, which goes on when they leave.

        keep: in the index too, for other processes and the next start. heavy: one at a time. patience: seconds that whoever asks would
        wait; NotYet, with the time after which to ask again, if it takes longer. group: the answer is its diagnosis, which another worker
        may make as well while this one is busy.
        """
        known = self.known(key, fingerprint)
        if known is not None:
            return known
        task = self._making.get((key, fingerprint))
        if task is None:
            if heavy and patience is not None and len(self._making) >= MOST_PENDING:
                raise NotYet(self._estimate(len(self._making)))
            task = asyncio.create_task(self._make_once(key, fingerprint, make, keep, heavy, group))
            task.add_done_callback(_take_note)
            self._making[(key, fingerprint)] = task
        try:
            return await asyncio.wait_for(asyncio.shield(task), patience)
        except TimeoutError:
            if task.done():
                return task.result()
            ahead = next((place for place, made in enumerate(self._making.values()) if made is task), 0)
            raise NotYet(self._estimate(ahead)) from None

    async def _make_once(self, key: Hashable, fingerprint: str, make: Make, keep: bool, heavy: bool, group: str | None) -> Answer:
        answer, limiter = None, self._heavy if heavy else self._light
        if group is not None and self.busy:
            self._ask_others(group)
        try:
            while answer is None:
                # What is kept is found at once, also while others wait for what must be made.
                answer = await to_thread.run_sync(self._found, key, fingerprint) if keep else None
                if answer is None:
                    answer = await to_thread.run_sync(self._made, key, fingerprint, make, keep, limiter=limiter)
                while answer is None and not self._claims.free(repr(key)):
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            del self._making[(key, fingerprint)]
            if group in self._own_wanted:
                self.forget_wanted(group)
        self._remember(key, answer)
        return answer

    # ── what others wait for ──

    def _ask_others(self, group: str) -> None:
        with contextlib.suppress(OSError):  # nobody helps, then
            self._wanted.mkdir(exist_ok=True)
            (self._wanted / group).touch()
            self._own_wanted.add(group)

    def list_wanted(self) -> list[str]:
        """Groups whose diagnosis other workers have people waiting for, the longest waited for first."""
        try:
            with os.scandir(self._wanted) as entries:
                asked = [(entry.stat().st_mtime_ns, entry.name) for entry in entries if entry.name not in self._own_wanted]
        except OSError:
            return []
        return [name for _, name in sorted(asked)]

    def forget_wanted(self, group: str) -> None:
        """It was made, or cannot be: nobody need look at it any more."""
        self._own_wanted.discard(group)
        with contextlib.suppress(OSError):
            (self._wanted / group).unlink()

    def is_made_elsewhere(self, key: Hashable) -> bool:
        """Whether another process makes an answer at this moment."""
        return not self._claims.free(repr(key))

    # ── making ──

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

    def _made(self, key: Hashable, fingerprint: str, make: Make, keep: bool) -> Answer | None:
        """None if another process is making it."""
        if not keep:
            return self._make(key, fingerprint, make, keep)
        if not self._claims.take(repr(key)):
            return None
        try:
            # Another process may have made it between the last look and the claim.
            return self._found(key, fingerprint) or self._make(key, fingerprint, make, keep)
        finally:
            self._claims.give_back(repr(key))

    def _make(self, key: Hashable, fingerprint: str, make: Make, keep: bool) -> Answer:
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


class Claims:
    """Which process makes which answer: a lock on one byte of a file for each, which the system gives back when a process dies.

    Such locks hold between processes, not within one, where `Answers` makes each answer once by itself. Two keys may share a byte: the
    second then waits for the first, and is made.
    """

    def __init__(self, path: Path) -> None:
        # One handle for as long as answers are made: closing any other one of the file would give up every lock.
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:  # a full disk, say: answers are made all the same, here and there twice
            _log.warning("answers cannot be claimed: %s", error)
            self._file = -1
        else:
            weakref.finalize(self, os.close, self._file)

    def take(self, key: str) -> bool:
        """Claim it; False if another process has. Where there are no locks, everybody may make everything."""
        if self._file < 0:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:
            _log.debug("answers cannot be claimed: %s", error)
        return True

    def give_back(self, key: str) -> None:
        """For others to make, or to find."""
        with contextlib.suppress(OSError, ValueError):
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(key))

    def free(self, key: str) -> bool:
        """Whether no other process holds it now."""
        if not self.take(key):
            return False
        self.give_back(key)
        return True


def _place(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest())


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
