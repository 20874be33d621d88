"""What may be asked about runs that train, and of them."""

from typing import Annotated, Any

from pydantic import Field

from rlclinic.ops.request import RUN_ID, SELECTOR, SET, STEPS, Change, Cli, EnvSteps, Http, Mcp, Request, as_changes

NAME = r"^[A-Za-z0-9@][A-Za-z0-9._@~-]{0,80}$"
"""A run or group as an address has it: no path is one."""


class StatusRequest(Request):
    """How runs stand: how likely they reach the threshold, why, and whether to go on."""

    selector: Annotated[str | None, SELECTOR, Http("group", pattern=NAME), Mcp("run_id", RUN_ID.doc, type=str, default="@running")] = None
    """A run or group, or another framework's folder or log; none: all that are training."""
    threshold: float | None = None
    """The return that counts as solved, where the log does not say."""
    budget: Annotated[EnvSteps | None, STEPS] = None
    """Planned env steps, where the log does not say."""


class StopRequest(Request):
    """Ask runs to save a checkpoint and stop."""

    target: Annotated[
        str,
        SELECTOR,
        Mcp("run_id", "Run, group, trial, search, study or job; @running stops everything that trains.", default=...),
    ] = "@running"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""


class LabelRequest(Request):
    """Answer what a run asks its expert, who is a person."""

    target: Annotated[str, SELECTOR] = "@running"
    """A run or group: id, unique prefix, @last, @running."""
    action: Annotated[list[float], Cli("--action", "-a", metavar="NUMBER"), Http(default=..., min_length=1, max_length=1_000)] = Field(
        default_factory=list
    )
    """The action, without a dialogue: a choice, or as many numbers as the environment takes. Repeatable."""
    id: Annotated[str | None, Http(max_length=100)] = None
    """The question that is answered; none: whichever waits."""


class AdjustRequest(Request):
    """Change numbers of a run while it trains."""

    target: Annotated[str, SELECTOR, RUN_ID] = "@running"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    changes: Annotated[
        list[str],
        SET,
        Http(type=list[Change], default=..., min_length=1, max_length=20),
        Mcp(doc='Numbers of the algorithm: {"algo.ent_coef": 0.01}.', type=dict[str, Any] | list[str], default=..., read=as_changes),
    ] = Field(default_factory=list)
    """Numbers to change while a run trains."""
