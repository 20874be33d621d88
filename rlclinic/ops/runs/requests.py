"""What may be asked about runs, and of what they have learned."""

import operator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from rlclinic.ops.request import (
    CHANGES,
    MAP,
    OVERRIDES,
    RUN_ID,
    SELECTOR,
    SET,
    STEPS,
    THRESHOLD,
    Cli,
    EnvSteps,
    Http,
    Mcp,
    Request,
    read_position,
)

SAMPLED = Cli("--sampled", default=False, read=operator.not_, help="Sample actions as in training, instead of the most likely ones.")
CHECKPOINT = r"^(@best|@last|[0-9]{1,15})$"
"""A checkpoint of a run that is named elsewhere."""
MOST_POINTS: Final = 5_000
"""Of one series."""
MOST_LOG_BYTES: Final = 1_000_000
MOST_LINES: Final = 8
"""That can be told apart in one picture."""
COLUMNS: Final = Http(type=list[str] | None, default=None, read=lambda names: names or [], max_length=64)
OF: Final = Http(min_length=1, max_length=16)
Axis = Literal["steps", "seconds", "updates", "episodes"]
MOST_ROWS: Final = 500
"""Of one page of a table."""


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


class TableRequest(Request):
    """A table of groups or runs: sorted, filtered and grouped by any result, tag or setting."""

    of: Annotated[Literal["groups", "runs"], Http()] = "groups"
    """What a row is."""
    q: Annotated[str | None, Cli("--search", "-q", metavar="WORDS"), Http(max_length=200)] = None
    """Words that must all occur: in the id, the config's name, the label, tags, the note or the reason of a failure."""
    where: Annotated[
        list[str],
        Cli("--where", "-w", metavar="CONDITION"),
        Http(type=list[str] | None, default=None, read=lambda conditions: conditions or [], max_length=20),
    ] = Field(default_factory=list)
    """A column, one of = != > >= < <= ~ (contains), a value: learning_rate>=1e-3, tag=baseline. Repeatable; all must hold."""
    sort: Annotated[str, Cli("--sort", "-s", metavar="COLUMN"), Http(max_length=100)] = "created"
    """A result (best, last, success, wall_time, …) or a setting (learning_rate)."""
    descending: Annotated[bool, Http()] = True
    """The largest first."""
    group_by: Annotated[str | None, Cli(metavar="COLUMN"), Http(max_length=100)] = None
    """Put rows with the same value together, and sum them up."""
    columns: Annotated[
        list[str],
        Cli("--column", "-c", metavar="SETTING"),
        Http(type=list[str] | None, default=None, read=lambda names: names or [], max_length=64),
    ] = Field(default_factory=list)
    """A setting to show; without any, those that differ. Repeatable."""
    trials: Annotated[bool, Http()] = False
    """Also groups that trials and studies made."""
    archived: Annotated[bool, Http()] = False
    """Also those with the tag archived."""
    offset: Annotated[int, Http(ge=0)] = Field(0, ge=0)
    """How many rows to leave out at the beginning."""
    limit: Annotated[int, Cli("--limit", "-n"), Http(ge=1, le=MOST_ROWS)] = Field(50, ge=1)
    """How many rows at most."""
    values_of: Annotated[str | None, Cli(metavar="COLUMN"), Http(max_length=100)] = None
    """Also the values of this column, with how many rows each."""


ExportFormat = Literal["wandb", "mlflow", "tensorboard", "hf", "html"]


class ExportRequest(Request):
    """Write a group or run as another program keeps it, or as one HTML file; nothing is sent anywhere."""

    selector: Annotated[str, SELECTOR] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    to: ExportFormat = "html"
    """An offline folder of W&B, MLflow or TensorBoard; a folder for the Hugging Face hub; one HTML file."""
    out: Annotated[Path | None, Cli("--out", "-o")] = None
    """Where; without it GROUP.html, or a folder GROUP-PROGRAM, here."""


class ExportZipRequest(Request):
    """The same of one or several, in one packed file."""

    of: Annotated[list[str], Http(min_length=1, max_length=50)]
    """Runs or groups."""
    to: Annotated[ExportFormat, Http()] = "html"
    """An offline folder of W&B, MLflow or TensorBoard; a folder for the Hugging Face hub; an HTML file for each."""


class TagRequest(Request):
    """Add tags to runs or groups, or take them away."""

    of: Annotated[list[str], Cli(argument=True, complete="run"), Http(min_length=1, max_length=1000)]
    """Runs or groups."""
    add: Annotated[list[str], Cli("--add", "-a", metavar="TAG"), Http(max_length=32)] = Field(default_factory=list)
    """Tags to add; `archived` takes rows out of the table. Repeatable."""
    remove: Annotated[list[str], Cli("--remove", "-r", metavar="TAG"), Http(max_length=32)] = Field(default_factory=list)
    """Tags to take away. Repeatable."""


class EvaluateRequest(Request):
    """Score a trained policy from fixed start states."""

    selector: Annotated[
        str,
        SELECTOR,
        Http("checkpoint", doc="Of the run that the address names.", default="@best", pattern=CHECKPOINT),
        Mcp("run_id", "RUN (its best), RUN/@last, RUN@STEP; a group: its best run."),
    ] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    episodes: Annotated[int, Cli("--episodes", "-n"), Http(default=20, ge=1, le=500), Mcp(doc="", default=20, ge=1, le=200)] = Field(
        100, ge=1
    )
    """How many, in parallel."""
    deterministic: Annotated[
        bool,
        SAMPLED,
        Http("sampled", doc=SAMPLED.help, default=False, read=operator.not_),
        Mcp(doc=""),
    ] = True
    """Take the most likely actions, instead of sampling as in training."""
    video: Path | None = None
    """Also record an episode: out.mp4 or out.gif."""
    trace: Path | None = None
    """Also write an episode in numbers, step by step: observations, actions, rewards, reward terms. A video is then a small one."""
    env: str | None = None
    """Act in this environment instead: an id, module:Class or file.py:Class, for code that has moved."""
    target_returns: Annotated[list[float], Cli("--target-return", metavar="RETURN"), Http(max_length=16), Mcp(doc="", max_length=16)] = (
        Field(default_factory=list)
    )
    """Of a Decision Transformer: also ask for this return, and say what is earned. Repeatable: whether it does what it is asked."""


class ImportRequest(Request):
    """Copy runs of other frameworks into the store; their folder is only read."""

    path: Annotated[str, Cli(argument=True), Mcp(doc="Another framework's log folder or file, inside the project.")]
    """Another framework's folder or file, a folder of such folders, or - for a log on stdin."""
    name: Annotated[str | None, Cli("--as", metavar="NAME"), Mcp(doc="Id of the new group.")] = None
    """The group's id; without it one is made up."""
    threshold: Annotated[float | None, THRESHOLD] = None
    """The return that counts as solved, where the log does not say."""
    budget: Annotated[EnvSteps | None, STEPS, Mcp("budget_env_steps", "")] = None
    """Planned env steps, where the log does not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""


class RunRequest(Request):
    """Show a run, or a group."""

    selector: Annotated[str, SELECTOR, RUN_ID] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""


class MetricsRequest(Request):
    """Show a run's metrics: first, last, range, and what each one means."""

    selector: Annotated[str, SELECTOR, RUN_ID] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    names: Annotated[
        list[str],
        Cli("--metric", "-m", help="A column, or a part of its name. Repeatable."),
        Mcp("metric_names", 'Names or parts of them: ["kl", "val/roll/ep_rew_mean"].'),
    ] = Field(default_factory=list)
    """Columns, or parts of their names."""
    from_step: Annotated[
        float, Cli(type=str, default="0", read=read_position), Mcp(doc="Env step to begin with; next_cursor gives what is new.", ge=0)
    ] = Field(0.0, ge=0)
    """From this env step on."""


class SeriesRequest(Request):
    """Columns of a run on one axis."""

    names: Annotated[list[str], COLUMNS] = Field(default_factory=list)
    """Columns, or parts of their names; none: the main ones."""
    points: Annotated[int, Http(ge=2, le=MOST_POINTS)] = 500
    """At most this many buckets."""
    since: Annotated[float, Http()] = -1.0
    """Only what came after this env step."""


class GroupSeriesRequest(Request):
    """Columns of a group's seeds on one axis."""

    names: Annotated[list[str], COLUMNS] = Field(default_factory=list)
    """Columns, or parts of their names; none: the main ones."""
    points: Annotated[int, Http(ge=2, le=MOST_POINTS)] = 300
    """At most this many buckets."""
    axis: Annotated[Axis, Http()] = "steps"
    """Env steps, seconds since the start, updates or episodes."""


class CurvesRequest(Request):
    """Columns of several groups' and runs' seeds on one axis."""

    of: Annotated[list[str], OF]
    """Runs or groups."""
    names: Annotated[list[str], COLUMNS] = Field(default_factory=list)
    """Columns, or parts of their names; none: the main ones."""
    points: Annotated[int, Http(ge=2, le=MOST_POINTS)] = 400
    """At most this many buckets."""
    axis: Annotated[Axis, Http()] = "steps"
    """Env steps, seconds since the start, updates or episodes."""


class PlotRequest(Request):
    """A picture of metrics against env steps."""

    of: Annotated[
        list[str],
        Http(min_length=1, max_length=MOST_LINES),
        Mcp("run_ids", "Runs or groups, one colour each.", min_length=1, max_length=MOST_LINES),
    ]
    """Runs or groups."""
    names: Annotated[
        list[str],
        COLUMNS,
        Mcp(
            "metric_names",
            "Names or parts of them; none: the return.",
            type=list[str] | None,
            default=None,
            read=lambda names: names or [],
            max_length=6,
        ),
    ] = Field(default_factory=list)
    """Columns, or parts of their names; none: the main ones."""
    width: Annotated[int, Http(ge=200, le=2_000), Mcp(doc="", default=640, ge=200, le=1600)] = 800
    """Of the picture."""
    height: Annotated[int, Http(ge=100, le=1_000), Mcp(doc="Of one panel.", default=240, ge=100, le=1000)] = 300
    """Of one panel."""


class LogPageRequest(Request):
    """A page of a run's log."""

    after: Annotated[int | None, Http(ge=0)] = None
    """What came after this byte."""
    before: Annotated[int | None, Http(ge=0)] = None
    """What lies before this byte."""
    bytes: Annotated[int, Http(ge=100, le=MOST_LOG_BYTES)] = 65_536
    """At most so many."""


class LogsRequest(Request):
    """Print the end of a run's log."""

    selector: Annotated[str, SELECTOR, RUN_ID] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    lines: Annotated[int, Cli("--lines", "-n"), Mcp(doc="", default=100, ge=1, le=1000)] = Field(50, ge=1)
    """How many, from the end."""


class EnvironmentsRequest(Request):
    """List environments with tuned variants, their thresholds and what was measured."""

    about_store = False

    pattern: Annotated[
        str, Cli(argument=True), Http(max_length=100), Mcp("env_id", "Id or part of one; empty: all with tuned variants.")
    ] = ""
    """Only names that contain this."""


class ConfigRequest(Request):
    """Print a whole config, as it would be trained, and the numbers that follow from it."""

    ref: Annotated[
        str,
        Cli(argument=True, complete="reference"),
        Http(doc="CartPole-v1:ppo, an environment, a run or a group.", min_length=1, max_length=200),
        Mcp("config_id", "ENV:VARIANT, a YAML file of the project, a run or a group."),
    ]
    """CartPole-v1:ppo, a YAML file, a run or a group."""
    changes: Annotated[list[str], SET, CHANGES, OVERRIDES] = Field(default_factory=list)
    """KEY=VALUE settings."""


class VideoRequest(Request):
    """Record an episode of a checkpoint."""

    checkpoint: Annotated[str, Http(pattern=CHECKPOINT)] = "@best"
    """Which one of the run."""
    kind: Annotated[Literal["gif", "mp4"], Http()] = "gif"
    """The file to write."""
    again: Annotated[bool, Http()] = False
    """Where no policy of that env step was kept: train the run again up to it, with its own seed."""


class NotesRequest(Request):
    """Tags and note of a run or a group; what is left out stays as it is."""

    tags: Annotated[list[str] | None, Http(type=list[Annotated[str, StringConstraints(max_length=100)]] | None, max_length=100)] = None
    """All of its tags."""
    note: Annotated[str | None, Http(max_length=20_000)] = None
    """Its whole note."""


class PlayRequest(Request):
    """Watch a trained policy act."""

    selector: Annotated[str, SELECTOR] = "@last"
    """A run or group: id, unique prefix, @last, @last~1, @best, @running."""
    episodes: Annotated[int, Cli("--episodes", "-n")] = Field(3, ge=1)
    """How many."""
    deterministic: Annotated[bool, SAMPLED] = True
    """Take the most likely actions, instead of sampling as in training."""
    render: str = "human"
    """human (a window), ansi (text, or blocks of colour) or none."""
    seed: int | None = Field(None, ge=0)
    """Other start states."""
    env: str | None = None
    """Act in this environment instead: an id, module:Class or file.py:Class, for code that has moved."""


class RemoveRequest(Request):
    """Delete runs, or groups with all their runs."""

    runs: Annotated[list[str], Cli(argument=True, complete="run"), Http(min_length=1, max_length=1000)]
    """Runs or groups to delete."""
    dry_run: Annotated[bool, Http()] = False
    """Only say what would be deleted."""
