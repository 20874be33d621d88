"""Server-sent events: new rows of a run while it trains, and which runs and groups have changed.

An event's id says where the stream stands; a browser that lost the connection sends the last one back and misses nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.runs.series import MAIN_METRICS, choose_metrics, latest_rows
from rlclinic.runs.metrics_file.rows import Follower
from rlclinic.runs.metrics_file.table import STEPS
from rlclinic.runs.record import METRICS, Run
from rlclinic.serve.http import feeds
from rlclinic.serve.http.context import Here, Named, find_group, find_run
from rlclinic.serve.http.replicas.news import Message
from rlclinic.serve.http.routes.runs import Names

router = APIRouter(prefix="/api/v1", tags=["events"])

BEAT_SECONDS: Final = 15.0
"""A comment is sent when nothing happens for so long: proxies drop silent connections."""
MOST_ROWS: Final = 500
"""Rows in one event."""

_STREAM: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}


@router.get("/runs/{run}/events", response_class=StreamingResponse, responses=_STREAM)
async def follow_run(
    request: Request, here: Here, run: Named, names: Names = None, offset: Annotated[int | None, Query(ge=0)] = None
) -> StreamingResponse:
    """Rows of a run as they are written (`rows`), and its state when it changes (`state`).

    `offset` 0 begins with the first row; without it only what comes from now on. Last-Event-ID goes on where a stream broke off.
    """
    owner = find_run(here, run)
    offsets = {owner.id: _find_offset(request, offset)}
    return _stream(_follow_runs(here.feeds.follow([owner]), [owner], names or [], offsets, here.settings.follow_seconds))


@router.get("/groups/{group}/events", response_class=StreamingResponse, responses=_STREAM)
async def follow_group(request: Request, here: Here, group: Named, names: Names = None) -> StreamingResponse:
    """Rows of all runs of a group as they are written (`rows`), and their states when they change (`state`)."""
    owner = find_group(here, group)
    return _stream(_follow_runs(here.feeds.follow(owner.runs), owner.runs, names or [], {}, here.settings.follow_seconds))


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)
async def follow_store(request: Request, here: Here) -> StreamingResponse:
    """Which runs and groups are new, have changed or are gone (`changed`): ids and states only; ask for what you show.

    Last-Event-ID goes on where a stream broke off, at whichever server; where what came since is not known any more, `reload` says to
    ask for everything.
    """
    # Before the answer begins: what changes after it is told.
    listener, since = await here.feeds.listen(), request.headers.get("last-event-id", "")
    missed = await here.feeds.catch_up(since[:40]) if since else []
    return _stream(_follow_index(listener, missed))


def _stream(events: AsyncIterator[str]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def _event(kind: str, data: Any, id: str | None = None) -> str:
    # JSON has no line breaks of its own: one data line, whatever a name or a log holds.
    head = f"id: {id}\n" if id is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _find_offset(request: Request, offset: int | None) -> int | None:
    last = request.headers.get("last-event-id", "").rpartition(":")[2]
    return int(last) if last.isdigit() and len(last) < 16 else offset


async def _follow_runs(
    follower: feeds.Follower, runs: list[Run], names: list[str], offsets: dict[str, int | None], follow_seconds: float
) -> AsyncIterator[str]:
    """Rows and states of runs until the client goes, which ends this."""
    followers = {run.id: Follower(run.path / METRICS, offset=offsets.get(run.id)) for run in runs}
    states: dict[str, str] = {}
    yield "retry: 1000\n\n"
    while True:
        follower.news.clear()
        events = await run_in_threadpool(_collect_events, runs, followers, names, states)
        for event in events:
            yield event
        if events:
            await asyncio.sleep(follow_seconds)  # a long file comes in pieces, and rows that are written at once come together
            continue
        try:
            await asyncio.wait_for(follower.news.wait(), BEAT_SECONDS)
        except TimeoutError:
            yield ": still here\n\n"


def _collect_events(runs: list[Run], followers: dict[str, Follower], names: list[str], states: dict[str, str]) -> list[str]:
    events = []
    for run in runs:
        follower = followers[run.id]
        rows = follower.rows()
        wanted = [STEPS, *_choose_columns(follower.header, names, run.id)] if rows else []
        for start in range(0, len(rows), MOST_ROWS):
            part = latest_rows(wanted, follower.header, rows[start : start + MOST_ROWS])
            events.append(_event("rows", {"run": run.id, "names": wanted, "rows": part}, f"{run.id}:{follower.offset}"))
        status = run.status
        if states.get(run.id) != status.state:
            states[run.id] = status.state
            events.append(_event("state", {"run": run.id, "state": status.state, "reason": status.reason, "env_steps": status.env_steps}))
    return events


def _choose_columns(header: Sequence[str], names: list[str], run: str) -> list[str]:
    available = [name for name in header if name not in (STEPS, "time", "epoch")]
    return choose_metrics(names, available, run) if names else [name for name in MAIN_METRICS if name in available]


async def _follow_index(listener: feeds.Listener, missed: list[Message] | None) -> AsyncIterator[str]:
    """Changes of the index until the client goes, which ends this, or reads so slowly that it must connect again."""
    yield "retry: 1000\n\n"
    if missed is None or any(message.changes is None for message in missed):
        yield _event("reload", {})
    for message in missed or []:
        if message.changes is not None:
            yield _event("changed", message.changes, message.id)
    while not listener.changes.full():
        try:
            message = await asyncio.wait_for(listener.changes.get(), BEAT_SECONDS)
            yield _event("changed", message.changes, message.id)
        except TimeoutError:
            yield ": still here\n\n"
