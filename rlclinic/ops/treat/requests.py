"""What may be asked of trials, races, searches, sensitivity studies and adoptions."""

import operator
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from rlclinic.actions import Argument
from rlclinic.errors import UsageError
from rlclinic.ops.request import (
    CHANGES,
    MOST_STEPS,
    OVERRIDES,
    RUN_STEPS,
    SET,
    STEPS,
    THRESHOLD,
    Cli,
    EnvSteps,
    Http,
    Mcp,
    Request,
    as_changes,
    combine_values,
)
from rlclinic.treatment.optimize.ledger import SearchOutcome
from rlclinic.treatment.race.models import RaceOutcome
from rlclinic.treatment.race.rule import PER_ROUND, ROUNDS
from rlclinic.treatment.sensitivity.study import FACTORS, SEEDS, Scope
from rlclinic.treatment.trial.models import TrialOutcome
from rlclinic.treatment.trial.sequential import RuleName

RESUME = Http(max_length=64)


def read_numbers(texts: list[str]) -> list[int]:
    """1,2 and --rx 1 --rx 2 alike."""
    try:
        return [int(part) for text in texts for part in str(text).split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"--rx {','.join(texts)}: give the numbers of prescriptions, for example --rx 1,2") from None


def read_names(texts: list[str]) -> list[str]:
    """CartPole-v1,Acrobot-v1 and --envs CartPole-v1 --envs Acrobot-v1 alike."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def read_factors(text: str) -> list[float]:
    """Factors as they are typed: 2,4."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{text!r} is no list of factors; type for example 2,4") from None


def _as_list(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def check_extension(request: "TrialRequest | RaceRequest") -> None:
    """An extension adds seeds to the question that was asked: whatever would change it is refused, not left out."""
    usual = type(request)()
    own = ("extend", "seeds", "runs_dir")
    changed = [name for name in type(request).model_fields if name not in own and getattr(request, name) != getattr(usual, name)]
    if changed:
        raise UsageError(
            Argument("extend", request.extend),
            f" adds seeds to the question that was asked, and to nothing else: {', '.join(changed)} would make it another question.\n"
            "  The error of both together would not be what was promised.\n  Leave that out, or ask the other question by itself",
        )


class TrialRequest(Request):
    """What to try against what, on fresh seeds."""

    resumes_alone = True

    targets: Annotated[
        list[str],
        Cli(
            argument=True,
            complete="run",
            help="A group (the newest), run or foreign folder to treat; or two and more configs (YAML, ENV:VARIANT, runs, git:REV:FILE), "
            "the first of which is the control.",
        ),
        Http(type=list[Annotated[str, StringConstraints(max_length=200)]], max_length=8),
        Mcp(
            "run_id",
            "Group to treat; or configs, the first is the control.",
            type=str | list[str],
            default="@last",
            read=_as_list,
        ),
    ] = Field(default_factory=list)
    """A group to treat; or two or more configs, the first of which is the control."""
    rx: Annotated[
        list[int],
        Cli(metavar="N", type=list[str], read=read_numbers, help="Prescriptions to try, one arm each: --rx 1,2."),
        Http(type=list[Annotated[int, Field(ge=1, le=9)]], max_length=8),
        Mcp(doc="Prescriptions, one arm each."),
    ] = Field(default_factory=list)
    """Numbers of prescriptions, one arm each."""
    changes: Annotated[
        list[str],
        SET,
        CHANGES,
        Mcp(doc="Or a patch: {setting: value}.", type=dict[str, Any] | list[str] | None, default=None, read=as_changes),
    ] = Field(default_factory=list)
    """KEY=VALUE settings: all of them together are one arm."""
    envs: Annotated[
        list[str],
        Cli(
            metavar="ENV,ENV",
            type=list[str],
            read=read_names,
            help="Try it in several environments, with one verdict: --envs CartPole-v1,Acrobot-v1,my.py:Env. "
            "Configs are moved to each; the config :NAME is each one's own variant NAME.",
        ),
        Http(type=list[Annotated[str, StringConstraints(max_length=200)]], max_length=16),
        Mcp(doc="Several, by comma: one verdict.", type=str, default="", read=lambda names: read_names([names])),
    ] = Field(default_factory=list)
    """Environments to try it in, with one verdict over all of them."""
    command: Annotated[str | None, Cli("--run", metavar="CMD")] = None
    """Your own training command, with {seed}, {out} and placeholders for --arm."""
    arms: Annotated[list[str], Cli("--arm", metavar="KEY=VALUE")] = Field(default_factory=list)
    """With --run: the values of one arm; the first is the control."""
    ablate: Annotated[str | None, Cli(metavar="VARIANT")] = None
    """An adopted variant (or trial) without each of its changes."""
    resume: Annotated[str | None, Cli(metavar="TRIAL"), RESUME, Mcp(doc="Trial to go on with.")] = None
    """Go on with a trial that was interrupted or killed."""
    outcome: Annotated[TrialOutcome | None, Http(), Mcp(doc="What decides; steps if a threshold is known.")] = None
    """What decides (steps to the threshold, where one is known)."""
    looks: Annotated[int, Http(ge=1, le=8), Mcp(doc="", ge=1, le=20)] = 4
    """At most so many looks."""
    per_look: Annotated[int, Cli(help="Seeds an arm per look; with --envs in each environment."), Http(ge=2, le=64), Mcp(ge=2, le=64)] = 8
    """Seeds an arm per look."""
    alpha: float = 0.05
    """Share of equal arms that may be called different, over all looks."""
    margin: float | None = None
    """Effects within this share count as none: 0.1 of returns and successes; of steps 0.43, which is 30 % fewer or 43 % more."""
    arrival_margin: float = 0.10
    """A drop in the share of runs that get there which counts as one: 0.1 is 10 points."""
    rule: RuleName = "wang-tsiatis"
    """pocock stops earlier; obrien-fleming keeps more power for the last look; wang-tsiatis is between."""
    futility: Annotated[
        bool,
        Cli("--no-futility", default=False, read=operator.not_, help="Train all looks, also where an arm will hardly be adopted any more."),
    ] = True
    """Give an arm up that will hardly be adopted any more."""
    extend: Annotated[str | None, Cli(metavar="TRIAL"), RESUME, Mcp(doc="Add seeds to it.")] = None
    """Add seeds to a trial that ended undecided; the error stays what was promised."""
    seeds: Annotated[int | None, Cli(min=2), Http(ge=2, le=256), Mcp(doc="", ge=2)] = Field(None, ge=2)
    """So many seeds an arm, in one look: for a GPU. With --extend: seeds an arm to add (16)."""
    independent: bool = False
    """Ask a question again at the whole alpha; else a repeat is charged for the times before."""
    seed0: int | None = Field(None, ge=0)
    """The first seed (unused ones): repeats a trial."""
    max_env_steps: Annotated[EnvSteps | None, STEPS, MOST_STEPS, RUN_STEPS] = Field(None, ge=1)
    """Env steps of each run."""
    threshold: Annotated[float | None, THRESHOLD] = None
    """The return that counts as solved, where it is not known."""
    whole_budget: Annotated[bool, Http()] = False
    """Train on after the threshold, and guard the final return."""
    timeout_seconds: Annotated[float | None, Cli("--timeout", min=0.1)] = Field(None, gt=0)
    """With --run: seconds after which a run is ended and counts as failed."""
    device: str | None = None
    """cpu, cuda or auto."""

    @property
    def configs(self) -> list[str]:
        """What is treated or compared: the newest group where nothing is named."""
        named = [
            ref for target in self.targets for ref in ([f"{env}{target}" for env in self.envs] if target.startswith(":") else [target])
        ]
        return named or (["@last"] if self.resume is None and self.extend is None else [])

    @property
    def environments(self) -> list[str]:
        """Where it is tried, if not where its configs say."""
        return self.envs


class RaceRequest(Request):
    """Which of many arms is best."""

    resumes_alone = True

    targets: Annotated[
        list[str],
        Cli(
            argument=True,
            complete="run",
            help="Two and more configs (YAML, ENV:VARIANT, runs, groups, git:REV:FILE); or one, whose values --set gives.",
        ),
        Http(type=list[Annotated[str, StringConstraints(max_length=200)]], max_length=32),
    ] = Field(default_factory=list)
    """Two or more configs; or one, of which values are tried."""
    changes: Annotated[
        list[str],
        Cli("--set", metavar="KEY=V1,V2", help="Values to race, one arm each; several of these: every combination. Repeatable."),
        Http(type=list[Annotated[str, StringConstraints(max_length=400)]], max_length=8),
    ] = Field(default_factory=list)
    """KEY=V1,V2 settings: an arm for every value, or for every combination of values."""
    command: Annotated[str | None, Cli("--run", metavar="CMD")] = None
    """Your own training command, with {seed}, {out} and placeholders for --arm."""
    arms: Annotated[list[str], Cli("--arm", metavar="KEY=VALUE")] = Field(default_factory=list)
    """With --run: the values of one arm."""
    resume: Annotated[str | None, Cli(metavar="RACE"), RESUME] = None
    """Go on with a race that was interrupted or killed."""
    extend: Annotated[str | None, Cli(metavar="RACE"), RESUME] = None
    """Add seeds to the best arms of a race that ended without one best; the error stays what was promised."""
    seeds: Annotated[int | None, Cli(min=3), Http(ge=3, le=256)] = Field(None, ge=3)
    """With --extend: seeds an arm to add (16)."""
    outcome: Annotated[RaceOutcome | None, Http()] = None
    """What decides (steps to the threshold, where one is known)."""
    rounds: Annotated[int, Http(ge=1, le=10)] = ROUNDS
    """Batches of seeds that an arm gets, at most."""
    per_round: Annotated[int, Http(ge=3, le=64)] = PER_ROUND
    """Seeds of a batch."""
    budget: Annotated[
        EnvSteps | None,
        Cli(steps=True, metavar="N", help="Env steps that everything may take: 3M. Never more."),
        MOST_STEPS,
    ] = Field(None, ge=1)
    """Env steps that everything may take."""
    alpha: float = 0.05
    """Share of races in which any pair of equal arms may be told apart, over all rounds."""
    margin: float | None = None
    """Differences within this share count as none, where it is said how many seeds would tell arms apart; as of a trial."""
    arrival_margin: float = 0.10
    """A drop in the share of runs that get there which counts as one: 0.1 is 10 points."""
    independent: bool = False
    """Ask a question again at the whole alpha; else a repeat is charged for the times before."""
    seed0: int | None = Field(None, ge=0)
    """The first seed (unused ones): repeats a race."""
    max_env_steps: Annotated[EnvSteps | None, STEPS, MOST_STEPS] = Field(None, ge=1)
    """Env steps of each run."""
    threshold: float | None = None
    """The return that counts as solved, where it is not known."""
    whole_budget: Annotated[bool, Http()] = False
    """Train on after the threshold: runs that lose it again are then seen."""
    timeout_seconds: Annotated[float | None, Cli("--timeout", min=0.1)] = Field(None, gt=0)
    """With --run: seconds after which a run is ended and counts as failed."""
    device: str | None = None
    """cpu, cuda or auto."""

    @property
    def configs(self) -> list[str]:
        """What is raced."""
        return self.targets or (["@last"] if self.resume is None and self.extend is None and self.command is None else [])

    @property
    def patches(self) -> list[list[str]]:
        """An arm each."""
        return combine_values(self.changes)


class OptimizeRequest(Request):
    """A search for a better config."""

    resumes_alone = True

    target: Annotated[str, Cli(argument=True, complete="run"), Http(max_length=200), Mcp("run_id", "Group, or ENV:VARIANT.")] = "@last"
    """A group (@last), or ENV:VARIANT."""
    budget: Annotated[
        EnvSteps,
        Cli(steps=True, metavar="N", default=None, help="Env steps that everything may take: 3M."),
        MOST_STEPS,
        Mcp("budget_env_steps", "For everything, the confirmation included.", ge=1),
    ] = Field(3_000_000, ge=1)
    """Env steps that everything may take, the confirmation included."""
    outcome: Annotated[SearchOutcome, Cli("--for"), Http(), Mcp(doc="steps, wall, return or stability.")] = "steps"
    """Fewer env steps, less time, less spread, or a higher return."""
    run_env_steps: Annotated[EnvSteps | None, Cli(steps=True, metavar="N"), MOST_STEPS, RUN_STEPS] = Field(None, ge=1)
    """Length of one run."""
    changes: Annotated[list[str], SET, CHANGES, OVERRIDES] = Field(default_factory=list)
    """KEY=VALUE settings."""
    resume: Annotated[str | None, Cli(metavar="SEARCH"), RESUME, Mcp(doc="Search to go on with.")] = None
    """Go on with a search, or show one that ended."""
    use_recorded: Annotated[
        bool, Cli("--no-recorded", default=False, read=operator.not_, help="Leave out the recorded trials that ship with rlclinic.")
    ] = True
    """Learn from the recorded trials that ship with rlclinic."""

    @property
    def configs(self) -> list[str]:
        """What it begins with."""
        return [self.target] if self.resume is None else []


class SensitivityRequest(Request):
    """A study of how much each number of a config matters."""

    resumes_alone = True

    target: Annotated[str, Cli(argument=True, complete="run"), Http(max_length=200), Mcp("run_id", "Group, or ENV:VARIANT.")] = "@last"
    """A group (@last), or ENV:VARIANT."""
    seeds: Annotated[int, Cli(), Http(ge=2, le=64), Mcp(doc="Of every config.", ge=2, le=64)] = Field(SEEDS, ge=2)
    """Seeds for each value; all values share them."""
    factors: Annotated[
        list[float],
        Cli(type=str, default="2,4", read=read_factors, help="Times and divided by these."),
        Http(type=list[Annotated[float, Field(gt=1, le=100)]], min_length=1, max_length=4),
        Mcp(doc="Times and divided by these; 2 and 4.", type=list[float] | None, default=None),
    ] = Field(default_factory=lambda: list(FACTORS))
    """Each number is multiplied and divided by these."""
    only: Annotated[
        list[str],
        Cli(metavar="SETTING", help="Only this number. Repeatable."),
        Http(type=list[Annotated[str, StringConstraints(max_length=100)]], max_length=50),
        Mcp(doc="Numbers to vary; none: all."),
    ] = Field(default_factory=list)
    """Settings to vary; none: all numbers of the algorithm."""
    shapes: Annotated[bool, Http()] = False
    """Also n_envs, n_steps, batch_size and n_epochs."""
    terms: Annotated[bool, Http()] = False
    """In place of numbers, the weights of the reward's terms, judged by success."""
    truth: Annotated[str | None, Cli(metavar="COLUMN"), Http(max_length=200)] = None
    """With terms: judge by this column, e.g. train/info/distance/last, where nobody reports success."""
    changes: Annotated[list[str], SET, CHANGES, OVERRIDES] = Field(default_factory=list)
    """KEY=VALUE settings."""
    resume: Annotated[str | None, Cli(metavar="STUDY"), RESUME, Mcp(doc="Study to go on with.")] = None
    """Go on with a study, or show one that ended."""

    @property
    def configs(self) -> list[str]:
        """What is varied."""
        return [self.target] if self.resume is None else []

    @property
    def scope(self) -> Scope:
        """What is varied, and how often."""
        return Scope(self.factors, self.seeds, self.only, self.shapes, self.terms, self.truth)


class QuestionsRequest(Request):
    """Which questions were asked of a store, how often, and the error that is spent on each."""

    env: Annotated[str | None, Cli(metavar="ENV"), Http(max_length=200)] = None
    """Only questions of this environment."""
    at_least: Annotated[int, Http(ge=1, le=1_000)] = Field(1, ge=1)
    """Only questions that were asked so often."""


class AdoptRequest(Request):
    """Under which name the winner of a trial is kept."""

    tid: Annotated[str, Cli(argument=True, metavar="TRIAL"), Http(path="id"), Mcp("trial_id", "A trial whose verdict is adopt.")]
    """The trial whose winner to keep; @last is the newest."""
    ref: Annotated[str, Cli("--as", metavar="ENV:VARIANT"), Http(max_length=200), Mcp("as_variant", "ENV:NAME, a new name.")]
    """What to call it; over several environments VARIANT alone is one of each."""
    force: Annotated[bool, Http()] = False
    """Replace a variant; keep a change that was not shown to help."""
    dry_run: Annotated[bool, Http(), Mcp(doc="")] = False
    """Show the difference; write nothing."""
