"""For probes and load balancers, open to all: whether the server answers, and whether it can work."""

import os
import time
from typing import Final, Literal

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.jobs import database
from rlclinic.report.models import Result
from rlclinic.runs.store import Store
from rlclinic.serve.http.context import Here

router = APIRouter(prefix="/api/v1", tags=["session"])

KEEP_SECONDS: Final = 1.0
"""How long an answer stands: whoever may ask without a token must not keep the database busy."""


class Health(Result):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(Result):
    """Whether the server can work. Not why not: anybody may ask; `rlclinic db check` and the log say more."""

    status: Literal["ok", "not ready"]
    runs: bool
    """The folder of runs is there, and can be written to unless the server only reads."""
    queue: bool
    """The database of the queue answers. Without it runs can still be looked at, so the server stays ready."""
    redis: bool | None = None
    """Redis answers; None: none is named. Without it every server counts its own limits and looks for changes itself."""


@router.get("/health", response_model=Health)
async def get_health(request: Request) -> Health:
    """Whether the server answers: for probes, and open to all."""
    return Health(version=request.app.version)


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def get_ready(response: Response, here: Here) -> Readiness:
    """Whether the server can work, 503 if not: for probes, and open to all."""
    async with here.probing:
        if here.probed is None or time.monotonic() - here.probed[0] > KEEP_SECONDS:
            found = await run_in_threadpool(look, here.store, write=not here.settings.read_only)
            found = found.model_copy(update={"redis": None if here.redis is None else here.redis.answers})
            here.probed = (time.monotonic(), found)
        found = here.probed[1]
    response.status_code = 200 if found.status == "ok" else 503
    return found


def look(store: Store, *, write: bool) -> Readiness:
    """See whether the folder of runs and the queue can be used."""
    runs = store.root.is_dir() and os.access(store.root, os.R_OK | os.X_OK | (os.W_OK if write else 0))
    return Readiness(status="ok" if runs else "not ready", runs=runs, queue=database.answers(store))
