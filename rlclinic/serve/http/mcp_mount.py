"""MCP over HTTP: the same tools as over stdio at /mcp, behind the same guard. Read-only unless the operator says otherwise."""

import importlib.util
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.ops.jobs.audit import Caller
from rlclinic.runs.store import Store
from rlclinic.serve.http.settings import Settings


def mount(app: FastAPI, store: Store, settings: Settings, configs: Path | None = None) -> AbstractAsyncContextManager[Any]:
    """Answer at /mcp, where mcp is installed; what is returned must be entered while the app runs. `configs`: those of its project."""
    if not settings.mcp or importlib.util.find_spec("mcp") is None:
        return nullcontext()
    from mcp.server.transport_security import TransportSecuritySettings

    from rlclinic.serve.mcp.server import build
    from rlclinic.serve.mcp.settings import Settings as AgentSettings

    write = settings.mcp_write and not settings.read_only
    server = build(store, AgentSettings(read_only=not write, configs=configs, caller=partial(caller, own_only=not settings.mcp_all_runs)))
    # Stateless: any worker can answer any request. Host and Origin are the guard's business, for /mcp as for all else.
    inner = server.streamable_http_app(
        stateless_http=True, transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )
    app.router.routes.extend(inner.routes)
    return server.session_manager.run()


def caller(request: Any, own_only: bool = True) -> Caller:
    """On whose behalf an agent acts; UsageError if its token is for reading only."""
    principal = request.scope["state"]["principal"]
    if "write" not in principal.scopes:
        raise UsageError(
            f"{principal.name} may read only.\n  Nothing was changed.\n  A person types: ", Action("serve token add", "NAME", scope="write")
        )
    return Caller(face="mcp", name=principal.name, budgeted=True, own_only=own_only or "own" in principal.scopes)
