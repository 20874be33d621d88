"""Server-sent events: new rows of a run while it trains, and which runs and groups have changed.

An event's id says where the stream stands; a browser that lost the connection sends the last one back and misses nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from rlclinic.ops.runs.series import MAIN_METRICS, choose_metrics, latest_rows
from rlclinic.runs.database.index import Index
from rlclinic.runs.database.schema import GROUP, RUN
from rlclinic.runs.metrics_file.rows import Follower
from rlclinic.runs.metrics_file.table import STEPS
from rlclinic.runs.record import METRICS, Run
from rlclinic.serve.http.context import Context, Here, Named, find_group, find_run
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
    return _stream(_follow_runs(request, here, [owner], names or [], {owner.id: _find_offset(request, offset)}))


@router.get("/groups/{group}/events", response_class=StreamingResponse, responses=_STREAM)
async def follow_group(request: Request, here: Here, group: Named, names: Names = None) -> StreamingResponse:
    """Rows of all runs of a group as they are written (`rows`), and their states when they change (`state`)."""
    owner = find_group(here, group)
    return _stream(_follow_runs(request, here, owner.runs, names or [], {}))


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)
async def follow_store(request: Request, here: Here) -> StreamingResponse:
    """Which runs and groups are new, have changed or are gone (`changed`): ids and states only; ask for what you show."""
    return _stream(_follow_index(request, here))


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
    request: Request, here: Context, runs: list[Run], names: list[str], offsets: dict[str, int | None]
) -> AsyncIterator[str]:
    """Rows and states of runs until the client goes."""
    followers = {run.id: Follower(run.path / METRICS, offset=offsets.get(run.id)) for run in runs}
    states: dict[str, str] = {}
    quiet = 0.0
    yield "retry: 1000\n\n"
    while not await request.is_disconnected():
        events = await run_in_threadpool(_collect_events, runs, followers, names, states)
        for event in events:
            yield event
        quiet = 0.0 if events else quiet + here.settings.follow_seconds
        if quiet >= BEAT_SECONDS:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(here.settings.follow_seconds)


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


async def _follow_index(request: Request, here: Context) -> AsyncIterator[str]:
    """Changes of the index until the client goes."""
    version, known = here.watch.version, await run_in_threadpool(_read_states, here.index)
    quiet = 0.0
    yield "retry: 1000\n\n"
    while not await request.is_disconnected():
        quiet += here.settings.follow_seconds
        if here.watch.version != version:
            version = here.watch.version
            now = await run_in_threadpool(_read_states, here.index)
            changed = {name: _differences(known[name], now[name]) for name in now}
            known = now
            if any(changed.values()):
                quiet = 0.0
                yield _event("changed", changed)
        if quiet >= BEAT_SECONDS:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(here.settings.follow_seconds)


def _read_states(index: Index) -> dict[str, dict[str, tuple[int, str, int]]]:
    """By id, what a list shows of it that changes: when its folder changed, its state, its env steps."""
    with index.connection() as connection:
        return {
            kind: {row[0]: (row[1], row[2], row[3]) for row in connection.execute(select(t.c.id, t.c.stamp, t.c.state, t.c.env_steps))}
            for kind, t in (("runs", RUN), ("groups", GROUP))
        }


def _differences(before: dict[str, tuple[int, str, int]], now: dict[str, tuple[int, str, int]]) -> dict[str, str]:
    """By id: its state now, or `gone`."""
    new = {id: row[1] for id, row in now.items() if before.get(id) != row}
    return new | {id: "gone" for id in before if id not in now}
