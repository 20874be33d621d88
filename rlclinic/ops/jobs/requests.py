"""What goes with any start in the background."""

from typing import Annotated

from rlclinic.ops.request import Http, Mcp, Request


class StartRequest(Request):
    """Why something is started, under which name, and for how long at most."""

    hypothesis: Annotated[str, Http(max_length=2_000), Mcp()] = ""
    """What you expect and why; it goes into the ledger."""
    idempotency_key: Annotated[str | None, Mcp()] = None
    """Your own name for this start: asked again it is found, or goes on, never made twice."""
    max_wall_seconds: Annotated[float | None, Mcp(gt=0)] = None
    """Stop with checkpoints after so many seconds."""
