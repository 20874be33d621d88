"""Redis, where one is named: what several servers tell each other at once, and limits that they count together.

RLCLINIC_REDIS=redis://:PASSWORD@HOST:6379/0 (or rediss://, unix://) names it. A password belongs into the variable: `--redis` refuses one.

Nothing is kept in it that is not known elsewhere. While it does not answer, every server counts its own limits and looks for changes
itself; it is said in the log when that begins and when it ends.
"""

import asyncio
import hashlib
import importlib.util
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from rlclinic.errors import UsageError

if TYPE_CHECKING:
    import redis
    from redis import asyncio as redis_asyncio

VARIABLE: Final = "RLCLINIC_REDIS"
ANSWER_SECONDS: Final = 0.25
"""How long a request may wait for Redis before it is answered without."""
REST_SECONDS: Final = 1.0
"""How long it is left alone after it did not answer."""
_log = logging.getLogger("rlclinic.http")
Answer = TypeVar("Answer")

TAKE: Final = """
local rate, burst, time = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('TIME')
local now = time[1] + time[2] / 1e6
local kept = redis.call('HMGET', KEYS[1], 'left', 'asked')
local left = math.min(burst, (tonumber(kept[1]) or burst) + math.max(0, now - (tonumber(kept[2]) or now)) * rate)
local wait = 0
if left >= 1 then left = left - 1 else wait = (1 - left) / rate end
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'asked', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(1000 * burst / rate) + 1000)
return string.format('%.6f', wait)
"""
"""A bucket that fills again by itself, by the clock of Redis: 0 if a request may be answered now, else how long it should wait."""
FAIL: Final = """
local count = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], 3600)
local late = count - tonumber(ARGV[1])
if late >= 0 then redis.call('SET', KEYS[2], 1, 'PX', math.floor(1000 * math.min(tonumber(ARGV[2]), 2 ^ math.min(late, 20)))) end
return count
"""
"""A wrong token: from so many on its address is locked, twice as long with each."""


def choose(given: str | None) -> None:
    """Take the server that an option names, for this process and its children."""
    if given is not None:
        if urlsplit(given).password or "password" in given:
            raise UsageError(
                "the option has a password in it.\n  Everybody on this machine can read the command lines of all processes.\n"
                f"  Put the whole URL into the variable {VARIABLE}"
            )
        os.environ[VARIABLE] = given
    check(os.environ.get(VARIABLE, "").strip())


def check(url: str) -> None:
    """UsageError if Redis is named, and cannot be meant or used."""
    if not url:
        return
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise UsageError(
            f"{VARIABLE} is no URL of a Redis server.\n  Servers could not tell each other anything.\n"
            f"  Type: export {VARIABLE}=redis://HOST:6379/0"
        )
    if importlib.util.find_spec("redis") is None:
        raise UsageError(
            f"{VARIABLE} names a Redis server, and the package redis is not installed.\n  It cannot be reached.\n"
            "  Type: pip install 'rlclinic[redis]'"
        )


class RedisLink:
    """The way to Redis of one process, and whether it answers."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self.prefix = url, f"rlclinic:{name}:"
        self.answers = True
        self._rests_until = 0.0
        self._direct: redis.Redis | None = None
        self._asking: redis_asyncio.Redis | None = None

    def describe(self) -> str:
        """Where it is, without anything that is secret."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def key(self, kind: str, who: str = "") -> str:
        """The name of something in Redis. Who asks is not written there, whether by a token or by an address."""
        return self.prefix + kind + (":" + hashlib.blake2b(who.encode("utf-8", "replace"), digest_size=12).hexdigest() if who else "")

    def open(self, *, seconds: float) -> "redis_asyncio.Redis":
        """A connection of its own for this event loop."""
        from redis import asyncio as redis_asyncio
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        timeouts: dict[str, Any] = {"socket_connect_timeout": 2.0, "socket_timeout": seconds}
        opened: redis_asyncio.Redis = redis_asyncio.Redis.from_url(
            self._url, decode_responses=True, retry=Retry(NoBackoff(), 0), **timeouts
        )
        return opened

    async def ask(self, question: "Callable[[redis_asyncio.Redis], Awaitable[Answer]]") -> Answer | None:
        """What Redis answers; None while it does not."""
        from redis.exceptions import RedisError

        if time.monotonic() < self._rests_until:
            return None
        if self._asking is None:
            self._asking = self.open(seconds=ANSWER_SECONDS)
        try:
            answer = await asyncio.wait_for(question(self._asking), ANSWER_SECONDS)
        except (RedisError, OSError, TimeoutError) as error:
            self.lose(error)
            return None
        self.find_again()
        return answer

    def add(self, key: str, fields: dict[str, str], most: int) -> None:
        """Put an entry at the end of a stream, from any thread; nothing while Redis does not answer."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        if time.monotonic() < self._rests_until:
            return
        if self._direct is None:
            timeouts: dict[str, Any] = {"socket_connect_timeout": ANSWER_SECONDS, "socket_timeout": ANSWER_SECONDS}
            self._direct = redis.Redis.from_url(self._url, retry=Retry(NoBackoff(), 0), **timeouts)
        try:
            self._direct.xadd(key, fields, maxlen=most, approximate=True)  # type: ignore[arg-type]
        except (redis.RedisError, OSError) as error:
            self.lose(error)
        else:
            self.find_again()

    def lose(self, error: Exception) -> None:
        """It does not answer: say so once, and leave it alone for a moment."""
        self._rests_until = time.monotonic() + REST_SECONDS
        if self.answers:
            # Not what it says itself, which may quote what it was sent.
            _log.warning("Redis at %s does not answer (%s): servers go on without it", self.describe(), type(error).__name__)
        self.answers = False

    def find_again(self) -> None:
        """It answers."""
        if not self.answers:
            _log.warning("Redis at %s answers again", self.describe())
        self.answers = True

    async def close(self) -> None:
        """Give the connections back."""
        if self._asking is not None:
            await self._asking.aclose()
        if self._direct is not None:
            self._direct.close()
        self._asking = self._direct = None


def read_url() -> str | None:
    """The server that is named; None if there is none."""
    url = os.environ.get(VARIABLE, "").strip()
    check(url)
    return url or None
