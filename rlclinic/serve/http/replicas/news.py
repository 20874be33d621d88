"""What one server has noticed, told to the others at once.

Through Redis, where one is named: what has changed, kept for a while, so that a browser whose connection broke misses nothing,
whichever server it comes to next. Without Redis, where servers share an index in PostgreSQL, through NOTIFY: that something has changed.

The index is the truth, and every server looks at it again and again, if less often while it hears from the others. A message saves the
wait until the next look; one that gets lost costs that wait, and nothing else.
"""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rlclinic.errors import RlclinicError
from rlclinic.runs.database import connections
from rlclinic.runs.database.index import Changes, Index
from rlclinic.serve.http.replicas.redis_link import RedisLink

BLOCK_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
HEAR_SECONDS: Final = 5.0
"""How long the first notification of PostgreSQL is waited for, which this server has asked for itself."""
DEAF_SECONDS: Final = 60.0
"""How long PostgreSQL is not listened to where none has come."""
MOST_KEPT: Final = 10_000
"""Entries of the stream, about."""
MOST_NAMED: Final = 2_000
"""Runs and groups that one entry names; of more it says only that something has changed."""
_STREAM: Final = "news"
_CALL: Final = "?"
_log = logging.getLogger("rlclinic.http")


class Message(NamedTuple):
    """What a server has noticed."""

    version: str
    """Of the index."""
    changes: Changes | None = None
    """None: look for yourself."""
    id: str | None = None
    """Its place in what is kept; None: it is not kept."""
    previous: str | None = None
    """The version before it: a message that did not arrive is noticed by the next one."""


Hear = Callable[[Message], None]


class News:
    """What this server hears from the others over one store, and tells them."""

    def __init__(self, index: Index, link: RedisLink | None = None) -> None:
        self._index, self._link = index, link
        self._key = None if link is None else link.key(_STREAM)
        self.heard = False
        """Whether messages come now: then there is no need to look so often."""

    def tell(self, message: Message) -> None:
        """Tell the others what has changed. Through PostgreSQL the index itself has told them."""
        if self._link is None or self._key is None:
            return
        few = sum(map(len, (message.changes or {}).values())) <= MOST_NAMED
        fields = {"version": message.version, "previous": message.previous or "", "changes": json.dumps(message.changes) if few else ""}
        self._link.add(self._key, fields, MOST_KEPT)

    async def run(self, hear: Hear) -> None:
        """Pass messages on, until it is cancelled."""
        if self._link is not None:
            await self._hear_redis(self._link, hear)
        elif self._index.schema is not None:
            await self._hear_postgres(self._index.schema, hear)

    async def replay(self, since: str, version: str) -> list[Message] | None:
        """What was told after a message until the index had this version, oldest first; None where not all of it is known."""
        if self._link is None or self._key is None:
            return None
        key = self._key

        async def look(client: Any) -> list[Message] | None:
            kept = [_read(id, fields) for id, fields in await client.xrange(key, min=since, count=MOST_KEPT)]
            chained = all(after.previous == before.version for before, after in itertools.pairwise(kept))
            return kept[1:] if kept and kept[0].id == since and chained and kept[-1].version == version else None

        return await self._link.ask(look)

    # ── Redis ──

    async def _hear_redis(self, link: RedisLink, hear: Hear) -> None:
        from redis.exceptions import RedisError

        last: str | None = None
        while True:
            client: Any = link.open(seconds=BLOCK_SECONDS + 5.0)
            try:
                newest = await client.xrevrange(str(self._key), count=1)
                top = newest[0][0] if newest else "0-0"
                # Made anew since: nothing of it was heard.
                last = top if last is None else "0-0" if _order(top) < _order(last) else last
                while True:
                    entries = await client.xread({str(self._key): last}, block=round(1000 * BLOCK_SECONDS), count=100)
                    link.find_again()
                    self.heard = True
                    for _, found in entries or []:
                        for last, fields in found:
                            hear(_read(last, fields))
            except (RedisError, OSError) as error:
                self.heard = False
                link.lose(error)
            finally:
                await _close(client)
            await asyncio.sleep(RETRY_SECONDS)

    # ── PostgreSQL ──

    async def _hear_postgres(self, channel: str, hear: Hear) -> None:
        import psycopg

        said = False
        while True:
            rest = RETRY_SECONDS
            try:
                connection = await connections.connect_listening(connections.url() or "")
                async with connection:
                    await connection.execute(f"LISTEN {channel}".encode())
                    # A pooler of transactions takes the words above and passes nothing on: only what arrives proves that anything does.
                    await asyncio.to_thread(_call, channel)
                    async for notice in connection.notifies(timeout=HEAR_SECONDS, stop_after=1):
                        self._hear_notice(notice.payload, hear)
                    if not self.heard:
                        rest = DEAF_SECONDS
                        raise OSError("notifications do not arrive: is a pooler of transactions between?")
                    said = False
                    async for notice in connection.notifies():
                        self._hear_notice(notice.payload, hear)
            except (psycopg.Error, OSError, RlclinicError) as error:
                if not said:
                    why = str(error) if rest == DEAF_SECONDS else type(error).__name__
                    _log.warning("the database does not tell of changes (%s): they are looked for", why)
                said = True
            finally:
                self.heard = False
            await asyncio.sleep(rest)

    def _hear_notice(self, payload: str, hear: Hear) -> None:
        self.heard = True
        if payload != _CALL:
            hear(Message(payload))


def _call(channel: str) -> None:
    """Tell everybody, this server too, something that means nothing."""
    with contextlib.closing(connections.connect(connections.url() or "")) as connection:
        connection.execute("SELECT pg_notify(%s, %s)", (channel, _CALL))


def _read(id: str, fields: dict[str, str]) -> Message:
    try:
        changes = json.loads(fields.get("changes") or "null")
    except ValueError:
        changes = None
    fits = isinstance(changes, dict) and all(isinstance(part, dict) for part in changes.values())
    return Message(fields.get("version", ""), changes if fits else None, id, fields.get("previous"))


def _order(id: str) -> tuple[int, int]:
    """Where an entry of a stream stands: its milliseconds, and its number among those of the same one."""
    first, _, second = id.partition("-")
    return (int(first), int(second or 0)) if first.isdigit() and (second or "0").isdigit() else (0, 0)


async def _close(client: Any) -> None:
    try:
        await client.aclose()
    except Exception as error:  # noqa: BLE001 — it is broken, and given up
        _log.debug("a connection to Redis was not closed: %s", type(error).__name__)
