"""What the routes share: the store, the index, kept answers, and finding what a request names without leaving the store."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from fastapi import Depends, Header, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, StringConstraints

from rlclinic.ops.jobs.audit import Caller, Face
from rlclinic.ops.jobs.models import Job
from rlclinic.ops.runs.table import TableSource
from rlclinic.runs import fingerprint, selector
from rlclinic.runs.database.index import Index
from rlclinic.runs.record import Checkpoint, Group, Run
from rlclinic.runs.store import Store
from rlclinic.serve.confined import inside
from rlclinic.serve.http import cache
from rlclinic.serve.http.feeds import Feeds
from rlclinic.serve.http.peers import PeerTable
from rlclinic.serve.http.replicas.redis_link import RedisLink
from rlclinic.serve.http.security.tokens import Principal, Tokens
from rlclinic.serve.http.settings import Settings
from rlclinic.serve.http.watch_store import StoreWatch

if TYPE_CHECKING:
    from rlclinic.serve.http.routes.health import Readiness

SELECTOR: Final = r"^[A-Za-z0-9@][A-Za-z0-9._@~-]{0,80}$"
"""An id, a unique beginning, or @last, @last~1, @best, @running. No path is one."""
BOXED: Final = {"content-security-policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"}
"""A report brings its own styles; it may run nothing and reach nothing."""


@dataclass
class Context:
    """One server's state."""

    store: Store
    settings: Settings
    index: Index
    tokens: Tokens
    answers: cache.Answers
    watch: StoreWatch
    peers: PeerTable
    feeds: Feeds
    tables: TableSource
    redis: RedisLink | None = None
    examining: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """One environment is looked at at a time: each keeps a core busy."""
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    probed: "tuple[float, Readiness] | None" = None
    """When a probe was last answered, and how."""

    @property
    def root(self) -> Path:
        return self.store.root


async def context_of(request: Request) -> Context:
    """The server's state, for a route. Async, or FastAPI would send every request through a thread for it."""
    return cast(Context, request.app.state.context)


async def caller_of(request: Request) -> Caller:
    """On whose behalf a route acts; the audit log names them."""
    principal: Principal = request.scope["state"]["principal"]
    face: Face = "page" if principal.by_cookie or request.headers.get("sec-fetch-site") else "http"
    return Caller(face=face, name=principal.name, own_only="own" in principal.scopes)


Here = Annotated[Context, Depends(context_of)]
By = Annotated[Caller, Depends(caller_of)]
Named = Annotated[str, PathParameter(pattern=SELECTOR, description="An id, a unique beginning, @last, @last~1, @best or @running.")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]
Once = Annotated[Key | None, Header(alias="Idempotency-Key", description="The same key is the same start: it is made once.")]
Id = Annotated[str, PathParameter(pattern=r"^(@last|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]


# ── finding ──


def find_run(here: Context, text: str) -> Run:
    """The run that a request names, if its folder and all in it lie in the store."""
    return inside(here.store, here.store.run(_checked(text)))


def find_group(here: Context, text: str) -> Group:
    """The group that a request names (or that the named run belongs to), with its runs, all of it in the store."""
    group = inside(here.store, here.store.group(_checked(text)))
    for run in group.runs:
        inside(here.store, run)
    return group


def find(here: Context, text: str) -> Run | Group:
    """The run or group that a request names."""
    selected = here.store.resolve(_checked(text))
    if isinstance(selected, Group):
        return find_group(here, selected.id)
    return inside(here.store, selected.run if isinstance(selected, Checkpoint) else selected)


def _checked(text: str) -> str:
    selector.parse(text)
    return text


# ── answering ──


def encode(result: BaseModel) -> bytes:
    """A result as JSON, without blanks."""
    return result.model_dump_json().encode()


async def answer_from_cache(
    request: Request,
    here: Context,
    owner: Run | Group,
    key: tuple[Any, ...],
    make: Callable[[], BaseModel],
    *,
    keep: bool = False,
    heavy: bool = False,
) -> Response:
    """The answer about a run or group, made anew only if a file of it has changed."""
    mark = fingerprint.of(owner)
    patience = patience_of(request) if heavy else None
    answer = await here.answers.get((*key, owner.id), mark, lambda: encode(make()), keep=keep, heavy=heavy, patience=patience)
    return cache.respond(request, answer)


def patience_of(request: Request) -> float | None:
    """How long whoever asks would wait for an answer that takes long (`Prefer: wait=1`, RFC 7240); None: as long as it takes."""
    asked = re.search(r"(?:^|[\s,;])wait=(\d{1,4})(?:$|[\s,;])", request.headers.get("prefer", ""))
    return None if asked is None else max(0.1, float(asked[1]))


def answer_with_etag(request: Request, result: BaseModel) -> Response:
    """A result that was just made, with its ETag."""
    body = encode(result)
    return cache.respond(request, cache.Answer(body, "", cache.etag(body)))


def announce(here: Context, response: Response, job: Job) -> Job:
    """A start: where it can be looked at, and 200 instead of 202 if it had been made before."""
    if job.repeated:
        response.status_code = 200
    response.headers["location"] = f"{here.settings.root_path}/api/v1/jobs/{job.id}"
    here.watch.look(now=True)
    return job
