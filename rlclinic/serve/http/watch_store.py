"""Keeping the index current while the server runs, and knowing when lists have changed."""

import asyncio
import fcntl
import logging
import threading
import time
from typing import IO, Final

from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from rlclinic.errors import RlclinicError
from rlclinic.runs.database.index import Index
from rlclinic.serve.http.replicas.news import Message, News

MOST_SHARE: Final = 0.05
"""Of one core that looking for changes may take: with very many runs it looks less often."""
TOLD_SECONDS: Final = 2.0
"""How often a server looks that is told of changes, and does not look for them itself."""
_LEADER: Final = "watch.lock"
_log = logging.getLogger("rlclinic.http")


class StoreWatch:
    """Looks for changed run folders. Of several workers one does; all see what it found, through the database."""

    def __init__(self, index: Index, seconds: float, news: News | None = None) -> None:
        self._index, self._seconds, self._news = index, seconds, news or News(index)
        self._lock: IO[str] | None = None
        self._one, self._leading = threading.Lock(), threading.Lock()
        self._closed = False
        self.version = self._read_version()

    async def run(self) -> None:
        """Until it is cancelled."""
        self._closed = False
        while True:
            start = time.monotonic()
            await run_in_threadpool(self.look)
            # Who does not lead, and is told, has nothing to look for.
            told = self._news.heard and self._lock is None
            await asyncio.sleep(max(self._seconds, TOLD_SECONDS if told else 0.0, (time.monotonic() - start) / MOST_SHARE))

    def look(self, *, now: bool = False) -> None:
        """One look: refresh if this process is the one that does (or `now`), then see whether the index has changed."""
        try:
            with self._one:  # a request that has just changed something looks, too
                done = self._index.refresh() if now or self.leads() else None
                self.version = self._read_version()
                if done is not None and done.changes:
                    self._news.tell(Message(done.versions[1], done.changes, previous=done.versions[0]))
        except (RlclinicError, OSError, SQLAlchemyError) as error:
            # The folder may come back (a disk that was full, a network share); lists are as old as the last look.
            _log.warning("the index could not be refreshed: %s", error)

    def close(self) -> None:
        """Let another process lead. A look that is still under way in its thread does not take it up again; the next `run` does."""
        with self._leading:
            self._closed = True
            if self._lock is not None:
                self._lock.close()
            self._lock = None

    def leads(self) -> bool:
        """Whether this process is the one of several that looks, and that works ahead."""
        with self._leading:
            if self._lock is not None or self._closed:
                return self._lock is not None
            file = (self._index.path.parent / _LEADER).open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
            self._lock = file
            return True

    def _read_version(self) -> str:
        """Another text after any change of runs or groups, whichever process wrote it."""
        with self._index.connection() as connection:
            return str(self._index.version(connection))
