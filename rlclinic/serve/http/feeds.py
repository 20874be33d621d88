"""Who waits for news, and the one task that looks for it: what happens costs as much with two hundred open pages as with one."""

import asyncio
import contextlib
import os
import weakref
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from rlclinic.runs import status_file
from rlclinic.runs.database.index import Changes, Index
from rlclinic.runs.database.schema import GROUP, RUN
from rlclinic.runs.record import METRICS, Run
from rlclinic.serve.http.replicas.news import Message, News
from rlclinic.serve.http.watch_store import StoreWatch

STATE_SECONDS: Final = 2.0
"""How often the states of live runs are read: a process that is killed changes no file."""
MOST_UNREAD: Final = 100
"""Changes that a client may be behind; who reads slower than that connects again."""

States = dict[str, dict[str, tuple[int, str, int]]]


class Follower:
    """One client that follows runs: `news` is set when it should look."""

    def __init__(self, runs: list[Run]) -> None:
        self.paths = [os.fspath(run.path) for run in runs]
        self.news = asyncio.Event()


class Listener:
    """One client that follows the whole store."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[Message] = asyncio.Queue(MOST_UNREAD)


class _Seen(NamedTuple):
    """What a run's folder looked like."""

    rows: tuple[int, int]
    status: int
    state: str


class Feeds:
    """Everybody who waits. Those that are gone are forgotten with the objects that they held."""

    def __init__(self, index: Index, watch: StoreWatch, seconds: float, news: News | None = None) -> None:
        self._index, self._watch, self._seconds, self._news = index, watch, seconds, news or News(index)
        self._told = asyncio.Event()
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._seen: dict[str, _Seen] = {}
        self._version = ""
        self._states: States = {}

    def follow(self, runs: list[Run]) -> Follower:
        """Be told when a file of these runs changes."""
        follower = Follower(runs)
        self._followers.add(follower)
        return follower

    async def listen(self) -> Listener:
        """Be told which runs and groups change from now on."""
        if not self._listeners:
            await self._read()
        listener = Listener()
        self._listeners.add(listener)
        return listener

    async def catch_up(self, since: str) -> list[Message] | None:
        """What a client has missed that knows all up to `since`; None: nobody knows, and it should ask for what it shows."""
        if since == self._mark(self._watch.version):
            return []
        return await self._news.replay(since, self._watch.version) if since[:1].isdigit() else None

    def hear(self, message: Message) -> None:
        """Another server, or this one, has noticed something."""
        self._watch.version = message.version
        if message.changes is not None:
            self._tell(message)
            if message.previous == self._version:
                self._version = message.version
            # Else one did not arrive: the next look tells of all that has changed.
        self._told.set()

    async def run(self) -> None:
        """Look, until it is cancelled."""
        looks = 0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), self._seconds)
            self._told.clear()
            looks += 1
            paths = {path for follower in self._followers for path in follower.paths}
            if paths:
                due = looks * self._seconds % STATE_SECONDS < self._seconds
                self._wake(await run_in_threadpool(self._look, paths, due))
            if self._listeners and self._watch.version != self._version:
                changes = await self._read()
                self._tell(Message(self._version, changes, self._mark(self._version)))

    def _wake(self, changed: set[str]) -> None:
        # Here, and not in `run`, whose variables would keep the last of them alive for good.
        for follower in self._followers if changed else ():
            if not changed.isdisjoint(follower.paths):
                follower.news.set()

    def _look(self, paths: set[str], due: bool) -> set[str]:
        """The runs whose files differ from the last look; of live ones also those whose process is gone."""
        changed = set()
        for path in paths:
            before = self._seen.get(path)
            rows, status = _stamp(os.path.join(path, METRICS)), _stamp(os.path.join(path, status_file.NAME))[0]  # noqa: PTH118 — at each look
            state = before.state if before is not None else ""
            if before is None or status != before.status or (due and state not in status_file.FINAL):
                state = status_file.read(Path(path)).state
            now = _Seen(rows, status, state)
            if now != before:
                changed.add(path)
            self._seen[path] = now
        for path in self._seen.keys() - paths:
            del self._seen[path]
        return changed

    async def _read(self) -> Changes:
        """Read the states of all runs and groups; what differs from the last time."""
        version = self._watch.version
        before, self._states = self._states, await run_in_threadpool(read_states, self._index)
        self._version = version
        return {kind: _compare(before.get(kind, {}), rows) for kind, rows in self._states.items()}

    @staticmethod
    def _mark(version: str) -> str:
        """The id of an event that is not kept anywhere: it says how the index stood."""
        return f"v{version}"

    def _tell(self, message: Message) -> None:
        if not any((message.changes or {}).values()):
            return
        for listener in list(self._listeners):
            if listener.changes.full():
                self._listeners.discard(listener)
            else:
                listener.changes.put_nowait(message)


def read_states(index: Index) -> States:
    """By id, what a list shows of it that changes: when its folder changed, its state, its env steps."""
    with index.connection() as connection:
        return {
            kind: {row[0]: (row[1], row[2], row[3]) for row in connection.execute(select(t.c.id, t.c.stamp, t.c.state, t.c.env_steps))}
            for kind, t in (("runs", RUN), ("groups", GROUP))
        }


def _compare(before: dict[str, tuple[int, str, int]], now: dict[str, tuple[int, str, int]]) -> dict[str, str]:
    """By id: its state now, or `gone`."""
    new = {id: row[1] for id, row in now.items() if before.get(id) != row}
    return new | {id: "gone" for id in before if id not in now}


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)  # noqa: PTH116 — hundreds of times a second
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
