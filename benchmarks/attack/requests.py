"""Requests that nobody meant: every route with values that fit, values that do not and bytes that are no JSON, with and without tokens.

Made from the OpenAPI description of the server, which runs in this process; what it would start is only written down. Counted: answers of
500 and more; and what changed in the store while nobody with a token to write had asked: runs, groups, notes, jobs and the audit log.
"""

import asyncio
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import quote, unquote, urlencode

from rlclinic.config import files
from rlclinic.ops.jobs import models
from rlclinic.runs.store import Store
from rlclinic.runs.writer import RunWriter
from rlclinic.serve.http.app import create_app
from rlclinic.serve.http.settings import Settings

REQUESTS: Final = {"quick": 1_000, "bar": 20_000, "stretch": 200_000}
ROUND: Final = 2_000
"""Requests to one store: those with a token remove and start things."""
LEFT_OUT: Final = re.compile(r"GET .*/events|POST .*/(evaluations|videos|examine)")
"""Streams do not end; the others start a process each. Without a token they are asked all the same."""
WORDS: Final = (
    *("", "@last", "@last", "@best", "@running", "@last~1", "CartPole-v1:ppo_zoo", "CartPole-v1", "ep_rew_mean", "finished", "steps"),
    *(
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "\x00",
        "%00",
        "%2e%2e%2f",
        "\u202e",
        "🙂",
        "A" * 3_000,
        "<script>",
        "'; DROP TABLE job",
    ),
    *(
        "0",
        "-1",
        "1e308",
        "nan",
        "Infinity",
        "9" * 400,
        "true",
        "null",
        "[]",
        "{}",
        "algo.gamma=0.9",
        "env.id=os:X",
        "a=&b=*x",
        "*a &a [*a]",
    ),
)
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    1e308,
    -0.5,
    [],
    {},
    ["@last"],
    ["algo.gamma=0.9"],
    {"a": {"a": {}}},
    [[[[]]]],
)
HEADERS: Final = (
    *(
        ("origin", "http://evil.example"),
        ("host", "evil.example"),
        ("cookie", "rlclinic_session=a.b"),
        ("cookie", "=;;é"),
        ("prefer", "wait=1"),
    ),
    *(
        ("content-type", "text/plain"),
        ("content-length", "-5"),
        ("if-none-match", '"' * 500),
        ("x-csrf-token", "x"),
        ("range", "bytes=9-1"),
    ),
    *(("idempotency-key", "once"), ("idempotency-key", "é" * 200), ("x-forwarded-for", "127.0.0.1"), ("authorization", "Basic Og==")),
)


def rows(size: str) -> Iterator[dict[str, Any]]:
    """Server errors, and effects without a token."""
    count, errors, effects = REQUESTS[size], [], []
    for number in range(0, count, ROUND):
        failed, changed = asyncio.run(_attack(number, min(ROUND, count - number)))
        errors += failed
        effects += changed
    for text in [*errors, *effects][:10]:
        print(f"  {text}")
    limits = {"better": "lower", "bar": 0, "stretch": 0 if size == "stretch" else None}
    yield {"what": f"{count:,} fuzzed requests: answers of 500 and more", "unit": "errors", "value": len(errors), **limits}
    yield {"what": f"{count:,} fuzzed requests: effects without a token", "unit": "effects", "value": len(effects), **limits}


async def _attack(seed: int, count: int) -> tuple[list[str], list[str]]:
    """A round: half of the requests without a token that may write, then half with one."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="rlclinic-fuzz-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        root = folder / "runs"
        for _ in range(3):
            _record(root)
        stack.enter_context(mock.patch("rlclinic.ops.jobs.start._spawn", models.save))
        for name in ("STRANGER_RATE", "TOKEN_RATE"):  # as from many addresses at once
            stack.enter_context(mock.patch(f"rlclinic.serve.http.security.guard.{name}", (1e9, 1e9)))
        stack.enter_context(mock.patch("rlclinic.serve.http.security.access.FREE_FAILURES", 10**9))
        app = create_app(Store(root), Settings(require_token=True, mcp=False, prepare=False))
        tokens = app.state.context.tokens
        read, write = tokens.add("reader", "read").token, tokens.add("writer", "write").token
        fuzzer = _Fuzzer(app, random.Random(seed))
        errors, effects = [], []
        async with app.router.lifespan_context(app):
            before = _fingerprint(root)
            for number in range(count // 2):
                who = ("", "Bearer rlc_wrong", f"Bearer {read}", f"Bearer {read}x")[number % 4]
                errors += await fuzzer.ask(who, skip=None)
            effects += [f"changed: {name}" for name in before.symmetric_difference(_fingerprint(root))]
            for _ in range(count - count // 2):
                errors += await fuzzer.ask(f"Bearer {write}", skip=LEFT_OUT)
    return errors, effects


def _record(root: Path) -> None:
    """A small group that has ended."""
    config = files.load("CartPole-v1:ppo_zoo", ["run.max_env_steps=2048"]).config
    for run in Store(root).create_group([config]).runs:
        with RunWriter(run.path, ["time", "total_timesteps", "train/roll/ep_rew_mean"]) as writer:
            for step in range(256, 2_049, 256):
                writer.row({"time": 1e9 + step, "total_timesteps": step, "train/roll/ep_rew_mean": float(step % 200)})
            writer.status("finished", 2_048)


def _fingerprint(root: Path) -> set[str]:
    """What a request with effects would change. The index, kept answers and the log of requests are none."""
    paths = (path for path in root.rglob("*") if path.is_file() and not {"@index", "@server"} & set(path.relative_to(root).parts))
    return {f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths if not path.name.startswith(".")}


class _Fuzzer:
    """Requests to an app, made from its own description."""

    def __init__(self, app: Any, chance: random.Random) -> None:
        self.app, self.chance = app, chance
        described = app.openapi()
        self.schemas = described["components"]["schemas"]
        self.routes = [
            (method.upper(), path, about)
            for path, methods in described["paths"].items()
            for method, about in methods.items()
            if not re.fullmatch(r".*/events", path)
        ]

    async def ask(self, authorization: str, skip: re.Pattern[str] | None) -> list[str]:
        """One request; what the server could not answer."""
        method, path, about = self.chance.choice(self.routes)
        if skip is not None and skip.fullmatch(f"{method} {path}"):
            return []
        url, query, body = self._fill(path), self._query(about), self._body(about)
        headers = [("host", "localhost"), ("content-type", "application/json"), ("authorization", authorization)]
        headers = [*headers, *([self.chance.choice(HEADERS)] if self.chance.random() < 0.3 else [])]
        try:
            status = await self._send(method, url, query, headers, body)
        except Exception as error:  # noqa: BLE001 — whatever comes out of the app is what is counted
            return [f"{type(error).__name__}: {error} at {method} {url}?{query} {body[:200]!r}"]
        return [f"{status} at {method} {url}?{query} {body[:200]!r}"] if status >= 500 else []

    def _fill(self, path: str) -> str:
        return re.sub(r"\{[^}]+\}", lambda _: quote(self._word(), safe=self.chance.choice(("", "/"))) or "x", path)

    def _word(self) -> str:
        return "@last" if self.chance.random() < 0.4 else self.chance.choice(WORDS)

    def _query(self, about: dict[str, Any]) -> str:
        named = [each["name"] for each in about.get("parameters", ()) if each["in"] == "query"]
        pairs = [(name, self._word()) for name in named if self.chance.random() < 0.5]
        return urlencode(pairs * self.chance.choice((1, 1, 1, 2)))

    def _body(self, about: dict[str, Any]) -> bytes:
        content = about.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None or self.chance.random() < 0.05:
            return self.chance.choice((b"", b"{", b"[" * 2_000, b"\xff\xfe", b"nul", b'{"a": 1e999}', b"x" * 5_000))
        return json.dumps(self._value(content["schema"], 4)).encode()

    def _value(self, schema: dict[str, Any], depth: int) -> Any:
        """A value that fits a schema in most places."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        if depth < 0 or self.chance.random() < 0.1:
            return self.chance.choice(VALUES)
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        if "anyOf" in schema:
            return self._value(self.chance.choice(schema["anyOf"]), depth - 1)
        match schema.get("type"):
            case "object":
                fields = schema.get("properties", {})
                needed = set(schema.get("required", ()))
                made = {name: self._value(each, depth - 1) for name, each in fields.items() if name in needed or self.chance.random() < 0.3}
                return made | ({self._word(): 1} if self.chance.random() < 0.05 else {})
            case "array":
                return [self._value(schema.get("items", {}), depth - 1) for _ in range(self.chance.choice((0, 1, 1, 2)))]
            case "integer":
                return self.chance.choice((0, 1, 2, 3, -1, 10**12))
            case "number":
                return self.chance.choice((0.0, 0.5, 1, -1.0, 1e308))
            case "boolean":
                return self.chance.random() < 0.5
            case _:
                return self._word()

    async def _send(self, method: str, url: str, query: str, headers: list[tuple[str, str]], body: bytes) -> int:
        sent: list[dict[str, Any]] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
        }
        scope |= {"path": unquote(url), "raw_path": url.encode(), "query_string": query.encode(), "root_path": "", "state": {}}
        scope |= {"headers": [(name.encode(), value.encode("utf-8")) for name, value in headers if value]}
        scope |= {"client": ("192.0.2.1", 1234), "server": ("127.0.0.1", 8642)}
        await asyncio.wait_for(self.app(scope, receive, send), 60)
        return next((int(message["status"]) for message in sent if message["type"] == "http.response.start"), 599)
