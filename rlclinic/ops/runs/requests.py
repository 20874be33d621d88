"""What may be asked about runs, and of what they have learned."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rlclinic.ops.request import MAP, SELECTOR, STEPS, THRESHOLD, Cli, Http, Mcp, Request


class ListRequest(Request):
    """List runs, newest first."""

    state: Annotated[str | None, Mcp(type=str, default="")] = None
    """queued, running, finished, stopped, failed or crashed."""
    env: Annotated[str | None, Mcp("env_filter", "Only configs whose name begins so.", type=str, default="")] = None
    """Only configs whose name begins with this."""
    group: Annotated[str | None, Cli(complete="run")] = None
    """Only this group."""
    trial: str | None = None
    """Only runs of this trial."""
    limit: Annotated[int, Cli("--limit", "-n"), Mcp(doc="", ge=1, le=100)] = Field(20, ge=1)
    """How many."""


class EvaluateRequest(Request):
    """Score a trained policy from fixed start states."""

    selector: Annotated[str, SELECTOR, Mcp("run_id", "RUN (its best), RUN/@last, RUN@STEP; a group: its best run.")] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    episodes: Annotated[int, Cli("--episodes", "-n"), Http(default=20, ge=1, le=500), Mcp(doc="", default=20, ge=1, le=200)] = Field(
        100, ge=1
    )
    """How many, in parallel."""
    deterministic: Annotated[
        bool,
        Cli(
            "--sampled",
            default=False,
            read=lambda sampled: not sampled,
            help="Sample actions as in training, instead of the most likely ones.",
        ),
        Mcp(doc=""),
    ] = True
    """Take the most likely actions, instead of sampling as in training."""
    video: Path | None = None
    """Also record an episode: out.mp4 or out.gif."""


class ImportRequest(Request):
    """Copy runs of other frameworks into the store; their folder is only read."""

    path: Annotated[str, Cli(argument=True), Mcp(doc="Another framework's log folder or file, inside the project.")]
    """Another framework's folder or file, a folder of such folders, or - for a log on stdin."""
    name: Annotated[str | None, Cli("--as", metavar="NAME"), Mcp(doc="Id of the new group.")] = None
    """The group's id; without it one is made up."""
    threshold: Annotated[float | None, THRESHOLD] = None
    """The return that counts as solved, where the log does not say."""
    budget: Annotated[int | None, STEPS, Mcp("budget_env_steps", "")] = None
    """Planned env steps, where the log does not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""
