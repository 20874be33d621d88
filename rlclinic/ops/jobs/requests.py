"""What goes with any start in the background, and what may be asked about what agents may use and did."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from rlclinic.ops.request import SELECTOR, Cli, EnvSteps, Http, Mcp, Request

HOUR: Final = 3600.0


class StartRequest(Request):
    """Why something is started, under which name, and for how long at most."""

    hypothesis: Annotated[str, Http(max_length=2_000), Mcp()] = ""
    """What you expect, and why."""
    idempotency_key: Annotated[str | None, Mcp()] = None
    """Your name for this start: never made twice."""
    max_wall_seconds: Annotated[float | None, Mcp(gt=0)] = None
    """Stop after so many seconds."""


class BudgetRequest(Request):
    """How much agents may train in a store; nothing: how much of it is left."""

    env_steps: Annotated[EnvSteps | None, Cli(steps=True, metavar="N")] = Field(None, ge=0)
    """Env steps that agents may use in this store, all together."""
    wall: Annotated[str | None, Cli(metavar="TIME")] = None
    """Time that their trainings may take, all together: 90min, 2h."""


class ReportRequest(Request):
    """What ran, what was found, what is adopted and what is left, since some hours ago."""

    hours: Annotated[
        float,
        Cli(min=0.01),
        Http("seconds", default=24 * HOUR, gt=0, le=1e8, read=lambda seconds: seconds / HOUR, doc="How far back."),
        Mcp(gt=0, le=24 * 30),
    ] = Field(24.0, gt=0)
    """How far back."""


class EfficiencyRequest(Request):
    """Where the time of a training went, what it cost, and what another worker would gain."""

    target: Annotated[str, SELECTOR] = "@last"
    """A run or group (id, unique prefix, @last), a trial, a study or a job."""
    out: Annotated[Path | None, Cli(metavar="DIR")] = None
    """Also write efficiency.html, efficiency.md, efficiency.svg and efficiency.json there."""


class AuditRequest(Request):
    """Every start, stop, adjustment and adoption, newest first."""

    limit: Annotated[int, Http(default=100, ge=1, le=500)] = Field(50, ge=1)
    """How many lines."""


class JobsRequest(Request):
    """What was started in the background, newest first."""

    limit: Annotated[int, Http(default=50, ge=1, le=500)] = Field(20, ge=1)
    """How many."""


class LedgerRequest(Request):
    """What was tried, with its hypothesis and its outcome, newest first."""

    limit: Annotated[int, Http(ge=1, le=500)] = Field(50, ge=1)
    """How many."""
