"""The server: the API, the dashboard and MCP in one app, behind one guard."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware

from rlclinic.errors import RlclinicError
from rlclinic.ops.jobs import start
from rlclinic.ops.runs.table import TableSource
from rlclinic.runs.database import connections
from rlclinic.runs.database.index import Index
from rlclinic.runs.store import Store
from rlclinic.serve.confined import LimitCode
from rlclinic.serve.http import mcp_mount, prefetch, problems, schema
from rlclinic.serve.http.cache import Answers
from rlclinic.serve.http.context import Context
from rlclinic.serve.http.feeds import Feeds
from rlclinic.serve.http.peers import PeerTable
from rlclinic.serve.http.replicas import redis_link
from rlclinic.serve.http.replicas.news import News
from rlclinic.serve.http.replicas.redis_link import RedisLink
from rlclinic.serve.http.root_path import RootPath
from rlclinic.serve.http.routes import compare, data, diagnose, health, jobs, outside, runs, sse, status, train, treat
from rlclinic.serve.http.security import session
from rlclinic.serve.http.security.access import FILE, AccessLog, SharedPatience
from rlclinic.serve.http.security.guard import Guard
from rlclinic.serve.http.security.projects import Projects
from rlclinic.serve.http.security.tokens import Tokens
from rlclinic.serve.http.settings import FOLDER, Settings
from rlclinic.serve.http.watch_store import StoreWatch
from rlclinic.serve.web import routes

DISPATCH_SECONDS: Final = 2.0
CANCEL_SECONDS: Final = 0.1
"""How long a task may take to end before it is cancelled once more."""
CONFIGS: Final = Path("config/environments")
"""In the folder of a project."""
ROUTERS = tuple(part.router for part in (health, session, sse, runs, train, status, diagnose, treat, compare, data, jobs))


def create_app(store: Store, settings: Settings | None = None, *, started: Callable[[], None] | None = None) -> FastAPI:
    """An app over one store and its projects. It must be run with its lifespan, which keeps the indexes current.

    `started` is called in its event loop.
    """
    chosen = settings or Settings()
    tokens = Tokens(chosen.tokens_path(store.root), chosen.link)
    link = _link(store)
    access = AccessLog(store.root / FOLDER / FILE)
    parts = {}
    for name, folder in chosen.projects.items():
        own, limits = Store(folder / "runs"), [Middleware(LimitCode, limits=chosen.limits, configs=folder / CONFIGS)]
        parts[name] = _app_over(own, chosen, tokens, limits, _link(own), folder)
    guards = [
        Middleware(RootPath, root=chosen.root_path),
        Middleware(Guard, settings=chosen, tokens=tokens, access=access, patience=SharedPatience(link)),
        Middleware(Projects, apps=parts),
        Middleware(LimitCode, limits=chosen.limits),
    ]
    app = _app_over(store, chosen, tokens, guards, link)
    own_lifespan = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if started is not None:
            started()
        writing = asyncio.create_task(access.run())
        try:
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(own_lifespan(app))
                for part in parts.values():
                    await stack.enter_async_context(part.router.lifespan_context(part))
                yield
        finally:
            await end_tasks([writing])
            access.flush()

    app.router.lifespan_context = lifespan
    return app


def _app_over(
    store: Store,
    chosen: Settings,
    tokens: Tokens,
    middleware: list[Middleware],
    link: RedisLink | None,
    folder: Path | None = None,
) -> FastAPI:
    """An app over one store; `folder` is that of its project."""
    index = Index(store)
    index.refresh()
    news = News(index, link)
    watch = StoreWatch(index, chosen.refresh_seconds, news)
    feeds = Feeds(index, watch, chosen.follow_seconds, news)
    here = Context(store, chosen, index, tokens, Answers(index, _version()), watch, PeerTable(index), feeds, TableSource(index), link)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        works = [
            here.watch.run(),
            feeds.run(),
            news.run(feeds.hear),
            prefetch.help_others(here),
            *([prefetch.run(here)] if chosen.prepare else []),
        ]
        works += [] if chosen.read_only else [_dispatch(here)]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            async with talking:
                yield
        finally:
            await end_tasks(tasks)
            here.watch.close()
            index.close()
            if link is not None:
                await link.close()

    app = bare_app(lifespan=lifespan, middleware=middleware)
    app.state.context = here
    app.include_router(session.pages)
    routes.mount(app)
    talking = mcp_mount.mount(app, store, chosen, None if folder is None else folder / CONFIGS)
    return app


def _link(store: Store) -> RedisLink | None:
    """The way to Redis, if one is named. Stores have their own names there, as in a database."""
    url = redis_link.read_url()
    return None if url is None else RedisLink(url, connections.identify(store))


async def end_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks until they have ended. One that is cancelled in the moment in which what it waits for is there goes on: Python 3.11's
    `wait_for`, which clients of servers use, too, then answers with that. Waiting for it would take as long as the server lives."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)


async def _dispatch(here: Context) -> None:
    """Begin jobs of the queue whose turn has come, until it is cancelled: a worker that was killed tells nobody that it is gone."""
    while True:
        if here.watch.leads():
            # A queue that cannot be used now is tried again; whoever starts something is told.
            with contextlib.suppress(RlclinicError):
                await run_in_threadpool(start.dispatch, here.store)
        await asyncio.sleep(DISPATCH_SECONDS)


def bare_app(**options: Any) -> FastAPI:
    """The routes of the API without a store: enough to describe them."""
    app = FastAPI(
        title="rlclinic",
        version=_version(),
        description="Train an RL agent, find out why a run does not learn, and prove the fix.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        **options,
    )
    for router in (*ROUTERS, outside.build_router()):
        app.include_router(router)
    problems.install(app)
    app.openapi = lambda: schema.describe(app)  # type: ignore[method-assign]
    return app


def openapi_text() -> str:
    """The description of the API as docs/openapi.json has it."""
    return schema.text(bare_app())


def _version() -> str:
    try:
        return version("rlclinic")
    except PackageNotFoundError:
        return "0"
