"""Who asked for what: a log of requests without secrets, and patience that ends with those who guess tokens or ask too often."""

import asyncio
import json
import os
import re
import time
from collections import OrderedDict, deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from rlclinic.report.document import escape_json
from rlclinic.serve.http.replicas.redis_link import FAIL, TAKE, RedisLink

FILE: Final = "access.jsonl"
MOST_BYTES: Final = 10_000_000
"""Of the file; the one before it is kept beside it."""
MOST_WAITING: Final = 10_000
"""Lines between two writes; under a flood the rest is counted, not written."""
FLUSH_SECONDS: Final = 1.0
MOST_PATH: Final = 200

FREE_FAILURES: Final = 10
"""Wrong tokens from one address before it has to wait, longer with each."""
LONGEST_LOCK_SECONDS: Final = 300.0
MOST_ADDRESSES: Final = 10_000
STRANGER_RATE: Final = (20.0, 100.0)
"""Requests a second, and at once, from an address without a token."""
TOKEN_RATE: Final = (100.0, 1_000.0)
"""The same of a token."""

_SECRET: Final = re.compile(r"rlc_[\w-]+")


class AccessLog:
    """Requests as lines of JSON, written once a second. A disk that cannot be written to ends no request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: deque[dict[str, Any]] = deque()
        self._left_out = 0

    def add(self, address: str, name: str, method: str, path: str, status: int, seconds: float, why: str = "") -> None:
        """One request. Never its query, headers or body: they may hold what nobody else should read."""
        if len(self._lines) >= MOST_WAITING:
            self._left_out += 1
            return
        line = {"time": round(time.time(), 3), "address": address, "name": name, "method": method[:10]}
        line |= {"path": _SECRET.sub("rlc_…", path)[:MOST_PATH], "status": status, "ms": round(1_000 * seconds, 1)}
        self._lines.append(line | ({"why": why} if why else {}))

    async def run(self) -> None:
        """Write what was added, until it is cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if self._lines:
                await run_in_threadpool(self.flush)

    def flush(self) -> None:
        """Write what was added."""
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if self._left_out:
            lines.append({"time": round(time.time(), 3), "left_out": self._left_out})
            self._left_out = 0
        text = "".join(escape_json(json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
                self.path.replace(self.path.with_suffix(".1.jsonl"))
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.write(text)


class Patience:
    """Failures and requests by address or token, in this process. Old ones are forgotten first."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def fail(self, address: str) -> None:
        """A wrong token."""
        count = self._failures.pop(address, (0, 0.0))[0] + 1
        late = count - FREE_FAILURES
        until = time.monotonic() + min(LONGEST_LOCK_SECONDS, 2.0 ** min(late, 20)) if late >= 0 else 0.0
        self._failures[address] = (count, until)
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def succeed(self, address: str) -> None:
        """The right one: it was somebody who mistyped."""
        self._failures.pop(address, None)

    def locked_seconds(self, address: str) -> float:
        """How long an address has to wait before its next login is looked at."""
        return max(0.0, self._failures.get(address, (0, 0.0))[1] - time.monotonic())

    def wait_seconds(self, who: str, rate: tuple[float, float]) -> float:
        """0 if a request may be answered now; else how long it should wait."""
        per_second, burst = rate
        now = time.monotonic()
        left, asked = self._buckets.pop(who, (burst, now))
        left = min(burst, left + (now - asked) * per_second)
        self._buckets[who] = (left - 1.0 if left >= 1.0 else left, now)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1.0 else (1.0 - left) / per_second


class SharedPatience:
    """The same, counted by all servers together where Redis is named; by this process alone while it does not answer."""

    def __init__(self, link: RedisLink | None = None) -> None:
        self._link, self.own = link, Patience()

    async def fail(self, address: str) -> None:
        """A wrong token."""
        self.own.fail(address)
        if self._link is not None:
            keys = self._link.key("wrong", address), self._link.key("locked", address)
            await self._link.ask(lambda redis: redis.eval(FAIL, 2, *keys, FREE_FAILURES, LONGEST_LOCK_SECONDS))

    async def succeed(self, address: str) -> None:
        """The right one: it was somebody who mistyped."""
        self.own.succeed(address)
        if self._link is not None:
            keys = self._link.key("wrong", address), self._link.key("locked", address)
            await self._link.ask(lambda redis: redis.delete(*keys))

    async def locked_seconds(self, address: str) -> float:
        """How long an address has to wait before its next login is looked at."""
        own = self.own.locked_seconds(address)
        if self._link is None:
            return own
        key = self._link.key("locked", address)
        left = await self._link.ask(lambda redis: redis.pttl(key))
        return own if left is None else max(0.0, int(left) / 1000)

    async def wait_seconds(self, who: str, rate: tuple[float, float]) -> float:
        """0 if a request may be answered now; else how long it should wait."""
        if self._link is not None:
            key = self._link.key("rate", who)
            wait = await self._link.ask(lambda redis: redis.eval(TAKE, 1, key, *rate))
            if wait is not None:
                return float(wait)
        return self.own.wait_seconds(who, rate)


def find_address(scope: Any, headers: Headers, *, behind_proxy: bool) -> str:
    """Where a request comes from: behind a proxy, what the proxy says of it."""
    named = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()[:60] if behind_proxy else ""
    client = scope.get("client")
    return named or (str(client[0]) if client else "?")
