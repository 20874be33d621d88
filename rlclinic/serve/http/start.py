"""Starting the server: checks first, then uvicorn with one or more worker processes."""

import contextlib
import gc
import json
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlclinic import trust
from rlclinic.actions import Action
from rlclinic.errors import RunError, UsageError
from rlclinic.launch.child import die_with
from rlclinic.ops.jobs import remote
from rlclinic.runs.store import Store
from rlclinic.serve.http.security.tokens import Tokens, hash_token, make_token
from rlclinic.serve.http.settings import Settings, check

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Config

ENVIRONMENT: Final = "RLCLINIC_SERVER"
"""How workers are told what they serve."""
GRACE_SECONDS: Final = 3
"""How long open streams may delay the end."""


def serve(store: Store, settings: Settings, workers: int = 1, say: Callable[[str], None] = print) -> None:
    """Serve until it is interrupted; `say` where, once it can be reached there. Trainings that it started go on."""
    import uvicorn

    from rlclinic.serve.http import connections

    tokens = Tokens(settings.tokens_path(store.root))
    check(settings, len(tokens))
    tokens.prepare()
    try:
        remote.settle(store)
    except RunError as error:
        say(str(error))  # runs can be looked at without
    limits = connections.raise_file_limit()
    listening = _listen(settings, limits.backlog)
    where = f"[{settings.host}]" if ":" in settings.host else settings.host
    agents = "   MCP /mcp" if settings.mcp else ""
    query = ""
    if settings.local and not settings.no_token:
        token = make_token()
        settings, query = settings.model_copy(update={"link": hash_token(token)}), f"?token={token}"
    passed_on = {"root": str(store.root.absolute()), "settings": settings.model_dump(mode="json"), "parent": os.getpid()}
    os.environ[ENVIRONMENT] = json.dumps(passed_on)
    trust.limit(settings.limits)
    config = uvicorn.Config(
        "rlclinic.serve.http.start:from_environment",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http="rlclinic.serve.http.connections:Connection",
        backlog=limits.backlog,
    )
    port = listening[0].getsockname()[1]
    # Whoever follows the link from here on is answered, if only once the app has been made.
    say(
        f"serving {store.root} at http://{where}:{port}{settings.root_path}/{query}   API /api/v1{agents}   Ctrl-C ends it, trainings go on"
    )
    run(config, listening)


def run(config: "Config", listening: list[socket.socket]) -> None:
    """Answer on sockets that listen already, until interrupted."""
    from uvicorn import Server
    from uvicorn.supervisors import Multiprocess

    server = Server(config)
    with contextlib.suppress(KeyboardInterrupt):
        if config.workers > 1:
            Multiprocess(config, sockets=listening).run()
        else:
            server.run(sockets=listening)
    if config.workers == 1 and not server.started:
        raise SystemExit(1)


def from_environment() -> "FastAPI":
    """The app of one worker process."""
    from rlclinic.serve.http import connections
    from rlclinic.serve.http.app import create_app

    # Of our own, or the MCP library installs one that opens files to describe that there are too many of them.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    connections.Connection.most = connections.raise_file_limit().connections
    # Short turns: whoever only wants a list must not wait long for whoever computes.
    sys.setswitchinterval(0.001)
    passed_on = json.loads(os.environ[ENVIRONMENT])
    if passed_on["parent"] != os.getpid():
        # A worker whose parent was killed would hold the port, and nobody could end it.
        die_with(passed_on["parent"])
    app = create_app(Store(Path(passed_on["root"])), Settings(**passed_on["settings"]), started=connections.end_with_loop)
    # What was imported and made so far stays: looking through it for garbage, again and again, would take a twentieth of all work.
    gc.freeze()
    return app


def _listen(settings: Settings, backlog: int) -> list[socket.socket]:
    """Take the address, on every address that its name has: from here on, connections wait for an answer."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets = [_bind(family, address) for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found)]
    except OSError as error:
        other = 1024 + secrets.randbelow(60_000)
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}.\n  Nothing was started.\n  Try another port: ",
            Action("serve", port=other),
        ) from error
    for listener in sockets:
        listener.listen(backlog)
    return sockets


def _bind(family: int, address: Any) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Beside the IPv4 address of the same name, not instead of it.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    bound.set_inheritable(True)
    return bound
