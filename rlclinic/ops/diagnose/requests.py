"""What may be asked of diagnosis: of runs and logs, of settings before they are trained, of an environment's history."""

import operator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from rlclinic.ops.request import MAP, SET, STEPS, THRESHOLD, Cli, EnvSteps, Http, Mcp, Request

TARGET = Mcp("run_id", "Run or group (id, prefix, @last, @best), or another framework's logs.")


class DiagnoseRequest(Request):
    """Say why a run does not learn, how sure that is, and what to change."""

    target: Annotated[
        str,
        Cli(
            argument=True,
            complete="run",
            help="A run, a group (@last), another framework's folder or file, or - for a log on stdin.",
        ),
        TARGET,
    ] = "@last"
    """A run, a group, another framework's folder or file, or - for a log on stdin."""
    threshold: Annotated[float | None, THRESHOLD] = None
    """The return that counts as solved, where the log does not say."""
    budget: Annotated[EnvSteps | None, STEPS, Mcp("budget_env_steps", "Planned env steps.")] = None
    """Planned env steps, where the log does not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""
    select: Annotated[list[str] | None, Cli(metavar="RULE")] = None
    """Only these rules: an id, its beginning (POL), or a name. Repeatable."""
    ignore: Annotated[list[str] | None, Cli(metavar="RULE")] = None
    """Not these rules. Repeatable."""
    out: Annotated[Path | None, Cli(metavar="DIR")] = None
    """Also write report.html, report.md and diagnosis.json there."""
    env: Annotated[
        str | None,
        Cli(metavar="MODULE:ID"),
        Http(
            doc="trained: its own; own: the same if its code is unchanged; or a registered id.",
            type=str,
            default="trained",
            min_length=1,
            max_length=100,
        ),
        Mcp(doc="Examine it too: id, file.py:Class, trained.", type=str, default="", read=lambda name: name or None),
    ] = None
    """Examine the environment, too (its code is run): an id, module:Class, file.py:Class; trained: a run's own."""
    eval_env: Annotated[
        str | None,
        Cli(metavar="MODULE:ID"),
        Http(doc="The id of a registered environment: that of evaluation, compared with the other.", max_length=100),
    ] = None
    """The environment of evaluation, compared with --env."""
    env_args: Annotated[list[str], Cli("--env-arg", metavar="KEY=VALUE")] = Field(default_factory=list)
    """An argument for both environments. Repeatable."""


class PrescribeRequest(Request):
    """Say which settings to change, to which values, and what to expect of it."""

    target: Annotated[
        str,
        Cli(argument=True, complete="run", help="A group (@last), a run, another framework's folder or file, or - for a log."),
        TARGET,
    ] = "@last"
    """A group, a run, another framework's folder or file, or - for a log."""
    framework: Annotated[str | None, Cli("--as")] = None
    """Also in the words of sb3, cleanrl or gymnasium-solver."""
    threshold: Annotated[float | None, THRESHOLD] = None
    """The return that counts as solved, where the log does not say."""
    budget: Annotated[EnvSteps | None, STEPS] = None
    """Planned env steps, where the log does not say."""
    mapping: Annotated[list[str], MAP] = Field(default_factory=list)
    """What a column of a foreign log is. Repeatable."""
    use_recorded: Annotated[
        bool, Cli("--no-recorded", default=False, read=operator.not_, help="Leave out the recorded trials that ship with rlclinic.")
    ] = True
    """Learn from the recorded trials that ship with rlclinic."""


class ExploreRequest(Request):
    """Say whether exploration is what holds a task back, and which bonus to try."""

    target: Annotated[str, Cli(argument=True, complete="run", help="A group (@last), a run, or another framework's folder or file.")] = (
        "@last"
    )
    """A group, a run, or another framework's folder or file."""


class CurriculumRequest(Request):
    """Show which stages a group went through, how it left them, and what it still can do."""

    target: Annotated[str, Cli(argument=True, complete="run", help="A group (@last) or a run.")] = "@last"
    """A group or a run."""


class RewardBalanceRequest(Request):
    """Say which terms of a reward decided what runs learned, and which pull against each other or the task."""

    target: Annotated[str, Cli(argument=True, complete="run", help="A group (@last), a run, or another framework's folder or file.")] = (
        "@last"
    )
    """A group, a run, or another framework's folder or file."""
    truth: Annotated[str | None, Cli(metavar="COLUMN"), Http(max_length=200)] = None
    """The column that says how well the task is done, e.g. train/info/distance/last; success, if it is not said."""


class RewardCheckRequest(Request):
    """Say what an environment's reward pays for, and whether its shaping changes what is best. Its code is run."""

    env: Annotated[str, Cli(argument=True, metavar="ENV")]
    """An id, module:Id, module:Class or file.py:Class."""
    gamma: float = Field(0.99, ge=0, le=1)
    """The learner's discount."""
    task: str | None = None
    """The term of info["reward_terms"] that is the task itself; the first one, if it is not said."""
    steps: int = Field(12_000, ge=100, le=1_000_000)
    """Random steps to look at."""
    env_args: Annotated[list[str], Cli("--env-arg", metavar="NAME=VALUE")] = Field(default_factory=list)
    """An argument of the environment. Repeatable."""


class NewEnvRequest(Request):
    """Write an environment, its reward term by term, settings and tests; it trains as it is, and is yours to change."""

    about_store = False
    name: Annotated[str, Cli(argument=True, metavar="NAME")]
    """The name of its class: Reacher."""
    obs: str = "box:8"
    """What is seen: box:8 (numbers), dict:8 (the same in named blocks), image:36 (pixels), discrete:16 (one of sixteen)."""
    action: str = "box:2"
    """What is done: box:2 (numbers from -1 to 1), discrete:4 (one of four), multidiscrete:3x3 (two choices of three)."""
    difficulty: Annotated[str | None, Cli(metavar="LOW..HIGH")] = None
    """A parameter that makes it harder, for a curriculum: 0..1."""
    terms: str = "task,progress,safety"
    """What the reward is made of; the first is the task itself. Known: progress, safety, effort, time; others pay nothing until written."""
    to: Annotated[Path | None, Cli(metavar="DIR")] = None
    """Folder for the files; after its name, if it is not said. Nothing is overwritten."""


class HistoryRequest(Request):
    """Show what was tried on an environment, and what separates solved from failed."""

    env: Annotated[str, Cli(argument=True), Http(min_length=1, max_length=100)]
    """The environment's id: CartPole-v1."""
    paths: Annotated[list[str], Cli("--path", metavar="DIR")] = Field(default_factory=list)
    """Also folders of other frameworks. Repeatable."""
    threshold: float | None = None
    """The return that counts as solved, where the log does not say."""


class LintRequest(Request):
    """Check settings, an environment or a script before anything is trained."""

    ref: Annotated[str | None, Cli(argument=True, metavar="CONFIG|RUN", complete="reference")] = None
    """CartPole-v1:ppo, a YAML file, a run, a group, or another framework's folder."""
    env: Annotated[
        str | None,
        Cli(metavar="MODULE:ID"),
        Http(doc="The id of a registered environment: its code is run.", type=str, default=..., min_length=1, max_length=100),
    ] = None
    """Look at an environment: an id, module:Id, module:Class or file.py:Class."""
    env_args: Annotated[list[str], Cli("--env-arg", metavar="KEY=VALUE")] = Field(default_factory=list)
    """An argument for the environment. Repeatable."""
    seconds: Annotated[float, Http(default=8.0, ge=4, le=30)] = Field(20.0, ge=4, le=600)
    """How long to look at an environment, at most."""
    code: Annotated[str | None, Cli(metavar="FILE")] = None
    """Check a script, a notebook or a folder of them; nothing is run."""
    changes: Annotated[list[str], SET] = Field(default_factory=list)
    """KEY=VALUE settings."""
    select: Annotated[list[str] | None, Cli(metavar="RULE")] = None
    """Only these rules: an id, its beginning (POL), or a name. Repeatable."""
    ignore: Annotated[list[str] | None, Cli(metavar="RULE")] = None
    """Not these rules. Repeatable."""


class RuleRequest(Request):
    """Explain a check: what it looks for, why it hurts, when it is fine."""

    about_store = False

    rule: Annotated[str | None, Cli(argument=True), Mcp(doc="Rule id or name: POL101.", type=str, default=...)] = None
    """An id (POL101) or a name; none: the list."""
    family: Annotated[str | None, Http(max_length=60)] = None
    """Only one family: policy, value, reward, ... or POL."""


class AskRequest(Request):
    """Answer a question in plain words: what is meant, what the store says, and the command that answers it."""

    question: Annotated[
        str,
        Cli(argument=True, metavar="QUESTION", type=list[str], default=..., read=" ".join),
        Http(min_length=1, max_length=500),
        Mcp(doc="", max_length=300),
    ]
    """In your own words."""


class GuideRequest(Request):
    """Say what answers a question here: what to type, which steps, and what cannot be told."""

    about_store = False

    question: Annotated[
        str,
        Cli(
            argument=True,
            metavar="QUESTION",
            help="Its name, its number, or words of it.",
            type=list[str] | None,
            default=None,
            read=" ".join,
        ),
        Mcp(doc="Name, number or words of it; empty: all of them.", max_length=300),
    ] = ""
    """Its name, its number, or words of it; none: all of them."""
