"""What a trial is made of, as data: its plan before it starts, and everything that came of it. Stored as trial.json."""

import math
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.config import StepUnit
from rlclinic.treatment.trial.arms import Arm
from rlclinic.treatment.trial.sequential import Interval, Rule, RuleName

TrialOutcome = Literal["steps", "return", "success", "wall", "stability"]
Verdict = Literal["adopt", "reject", "equivalent", "less reliable", "mixed", "undecided"]
"""`mixed`: of several environments, the change helps in at least one and hurts in at least one."""
State = Literal["running", "interrupted", "finished"]
Source = Literal["own", "translated", "command"]
Kind = Literal["time", "shift", "spread"]
"""How effects are counted: shares of a time saved, standard deviations gained, shares of a spread saved."""

SCHEMA_VERSION: Final = 1
CENSORED_OUTCOMES: Final = ("steps", "wall")
"""Outcomes that are times: a run that never gets there ranks last, and effects are ratios."""


def _is_absent(value: Any) -> bool:
    """What a trial of one environment does not have, and does not write: its file is as it was before there could be several."""
    return value is None or not value


_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)


class TrialPart(BaseModel):
    """A piece of a trial."""

    model_config = _MODEL


class Range(TrialPart):
    """A number with its interval; None where it is not known, or has no end on that side."""

    value: float | None
    low: float | None
    high: float | None


def as_range(interval: Interval) -> Range:
    """An interval as JSON can hold it."""
    value, low, high = (end if math.isfinite(end) else None for end in interval)
    return Range(value=value, low=low, high=high)


class Extension(TrialPart):
    """Seeds that were added after the last look."""

    seeds: int
    """Of every arm."""
    seed0: int
    """The first of them."""


class Environment(TrialPart):
    """One of several environments of a trial: its arms as they are trained there, and what counts as getting there."""

    env_id: str
    control: Arm
    treatments: tuple[Arm, ...]
    threshold: float | None = None
    budget: int | None = None
    """Env steps of one run there."""
    run: dict[str, Any] = Field(default_factory=dict)
    """The control's own run settings, before the trial changed some: put back when its winner is adopted."""


class TrialPlan(TrialPart):
    """A trial before it starts: arms, rule, outcome, seeds."""

    control: Arm
    treatments: tuple[Arm, ...]
    outcome: TrialOutcome = "steps"
    looks: int = 4
    per_look: int = 8
    alpha: float = 0.05
    margin: float = 0.10
    rule: RuleName = "wang-tsiatis"
    arrival_margin: float = 0.10
    """The drop in the share of runs that get there (or do not collapse) which counts as one."""
    futility: bool = True
    """Give an arm up that is very unlikely to be called better any more."""
    extensions: tuple[Extension, ...] = ()
    """Seeds that were added when the last look had decided nothing."""
    seed0: int | None = None
    """The first seed; None: the store's next unused ones."""
    above_seed: int = -1
    """Seeds must be larger than this: the diagnosed runs are never counted."""
    whole_budget: bool = False
    """Train on after the threshold, so that the final return can be guarded; else a run ends where its outcome is known."""
    own_budgets: bool = False
    """The length of a run is what is tried: each arm is judged within its own budget, and steps have no ratio."""
    threshold: float | None = None
    budget: int | None = None
    """Env steps of one run; None where only the user's command knows."""
    env_id: str = "?"
    algo: str = "?"
    source: Source = "own"
    context: dict[str, Any] = Field(default_factory=dict)
    """Group, cause, prescription, derived numbers: what later estimates are conditioned on."""
    timeout_seconds: float | None = None
    """Of one run of a command."""
    notes: tuple[str, ...] = ()
    environments: tuple[Environment, ...] = Field((), exclude_if=_is_absent)
    """Where there are several: each with its arms. `control` and `treatments` are then those of the first, `per_look` the seeds of an arm
    in each, and `threshold` and `budget` none, since each has its own."""

    @property
    def parts(self) -> tuple["TrialPlan", ...]:
        """The plan of each environment as one of a trial of its own; the plan itself where there is one."""
        if not self.environments:
            return (self,)
        return tuple(
            self.model_copy(
                update={
                    "environments": (),
                    "env_id": environment.env_id,
                    "control": environment.control,
                    "treatments": environment.treatments,
                    "threshold": environment.threshold,
                    "budget": environment.budget,
                    "algo": environment.control.config.algo.name if environment.control.config is not None else self.algo,
                }
            )
            for environment in self.environments
        )

    @property
    def step_unit(self) -> StepUnit:
        """What budgets count."""
        units: set[StepUnit] = {"env steps" if arm.config is None else arm.config.step_unit for part in self.parts for arm in part.arms}
        return units.pop() if len(units) == 1 else "gradient and env steps"

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Control first."""
        return (self.control, *self.treatments)

    @property
    def sequential(self) -> Rule:
        return Rule(self.looks, self.per_look, self.alpha, self.arrival_margin, self.rule, max(len(self.environments), 1))

    @property
    def n_seeds(self) -> int:
        """How many seeds the whole trial may take, each arm with its own in each environment."""
        return len(self.parts) * len(self.arms) * self.looks * self.per_look

    @property
    def max_env_steps(self) -> int | None:
        """What it costs if no look decides and no run ends early."""
        budgets = [arm.config.run.max_env_steps if arm.config is not None else part.budget for part in self.parts for arm in part.arms]
        known = [budget for budget in budgets if budget is not None]
        each = self.looks * self.per_look + sum(extension.seeds for extension in self.extensions)
        return sum(known) * each if len(known) == len(budgets) else None

    @property
    def last_look(self) -> int:
        """The number of the last look, extensions included."""
        return self.looks + len(self.extensions)

    def seeds(self, first: int, look: int, arm: int, environment: int = 0) -> list[int]:
        """Seeds of one arm at one look (from 1): arms and environments share none, so that equal arms are still two samples."""
        place = environment * len(self.arms) + arm
        if look > self.looks:
            extension = self.extensions[look - self.looks - 1]
            start = extension.seed0 + place * extension.seeds
            return list(range(start, start + extension.seeds))
        start = first + ((look - 1) * len(self.parts) * len(self.arms) + place) * self.per_look
        return list(range(start, start + self.per_look))


class Observation(TrialPart):
    """How one run did, as far as the trial asks."""

    run: str
    seed: int
    state: str
    env_steps: int
    reached_at: int | None
    lost: bool = False
    """It reached the threshold, and ended clearly below it: `rlclinic.runs.outcome`."""
    final: float | None
    """Its last evaluation within the horizon."""
    success: float | None
    seconds: float | None
    """Until it got there, or in all."""
    seconds_per_100k: float | None
    guards: dict[str, float] = Field(default_factory=dict)
    reason: str | None = None
    """Why it failed."""
    evaluated: bool = True
    """By evaluations; else by the returns of training."""
    spacing: float | None = None
    """Env steps from one of these returns to the next, as a rule."""

    @property
    def arrived_at(self) -> int | None:
        """When it reached the threshold, if it stayed there."""
        return None if self.lost else self.reached_at


class ArmResult(TrialPart):
    """One arm with what it came to."""

    name: str
    changes: tuple[str, ...]
    command: str | None = None
    config: dict[str, Any] | None = None
    groups: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    n: int = 0
    reached: int | None = None
    """Runs that reached the threshold; None where there is none."""
    failed: int = 0
    reason: str | None = None
    """Why the first of them failed."""
    evaluated: bool = True
    """Returns are those of evaluations; else those of training, with exploration."""
    steps: Range | None = None
    """Env steps to the threshold: median over runs with its interval, those that never got there counted last."""
    final: Range | None = None
    """IQM of the last evaluations."""
    success: Range | None = None
    seconds_per_100k: float | None = None
    spread: float | None = None
    """Between the 10th and 90th percentile of the final return over seeds."""
    env_steps: int = 0


class EnvironmentLook(TrialPart):
    """One look at one of several environments."""

    env_id: str
    z: dict[str, float]
    """By treatment arm, of this environment alone."""
    bounds: dict[str, tuple[float, float]]
    """By treatment arm: above the first it is shown to help there, below minus the second to hurt; they hold in all of them at once."""


class Look(TrialPart):
    """One look at the data."""

    number: int
    seeds: int
    """Of each arm so far."""
    z: dict[str, float]
    """By treatment arm; positive when it is better than the control."""
    bound: float
    """Above it: better."""
    worse_bound: float | None = None
    """Below minus this: worse; None in trials of before, where both bounds were one."""
    pooled: tuple[float, float] | None = None
    """At an extension, whose statistic and bounds are those of its own seeds: what all seeds together would have to pass."""
    calls: dict[str, str]
    """What was decided at this look: better, worse, equivalent, less reliable, futile."""
    decided: bool
    seconds: float = 0.0
    environments: tuple[EnvironmentLook, ...] = Field((), exclude_if=_is_absent)
    """Where there are several: each by itself."""


class Guardrail(TrialPart):
    """Something that must not get worse while the outcome gets better."""

    name: str
    control: float | None
    treatment: float | None
    worse: bool
    z: float


class Effect(TrialPart):
    """What one arm did against the control; intervals hold although the trial may have stopped early."""

    arm: str
    changes: tuple[str, ...]
    verdict: Verdict
    z: float
    bound: float
    seeds: int
    alone: bool = False
    """z and bound are those of an extension's seeds alone."""
    improvement: Range
    """P(a treated run does better than an untreated one), by the outcome."""
    final_improvement: Range | None = None
    """P(a treated run ends with a higher return)."""
    ratio: Range | None = None
    """Steps, seconds or spread: treatment over control."""
    gain: Range | None = None
    """Return or success: treatment minus control."""
    reached: Range | None = None
    """Share of runs that reached the threshold: treatment minus control."""
    arrived: Range | None = None
    """Share of runs that got there and stayed, or did not collapse: treatment minus control, at 95 %."""
    arrivals: tuple[int, int, int, int] | None = None
    """The same as numbers: control's, of how many, treatment's, of how many."""
    seeds_needed: int | None = None
    """Seeds an arm, in all, at which it would probably be settled; for undecided arms."""
    guardrails: tuple[Guardrail, ...] = ()

    @property
    def worse(self) -> list[str]:
        """Guardrails that got worse."""
        return [guard.name for guard in self.guardrails if guard.worse]


class EnvironmentResult(TrialPart):
    """What a trial came to in one of its environments; intervals hold in all of them together."""

    env_id: str
    threshold: float | None
    horizon: float | None = None
    """Env steps up to which its arms were compared."""
    arms: tuple[ArmResult, ...]
    effects: tuple[Effect, ...] = ()
    """Their verdicts say what was shown there: adopt that the arm helps, reject that it hurts, undecided that nothing was."""


class Power(TrialPart):
    """What the trial can see, by simulation."""

    kind: Kind = "time"
    by_effect: dict[str, float]
    """Power by the size of the effect: "0.5", "0.3" and "0.1" of the steps."""
    range_by_effect: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Where the measured spread is known too badly for one number: the power at the ends of the spreads that fit."""
    seeds_by_effect: dict[str, float]
    """Mean seeds an arm until it stops."""
    seeds_for_small: int
    """Seeds an arm that see the smallest of these effects with power 0.8."""
    sigma: float
    """Spread of the log of the outcome over seeds that was assumed."""
    reaching: float
    """Share of control runs that was assumed to get there."""
    assumed: bool
    """The spread is a guess: nothing was measured."""


class PlanRow(TrialPart):
    """What a trial of so many seeds would see and cost."""

    seeds: int
    """An arm, at most, in as many looks as the plan has."""
    power: dict[str, float]
    """By the size of the effect."""
    mean_seeds: dict[str, float]
    """An arm, until such an effect stops the trial."""
    max_env_steps: int | None
    max_seconds: float | None


class Trial(TrialPart):
    """A trial and everything that came of it."""

    schema_version: int = SCHEMA_VERSION
    id: str
    question: str
    state: State
    created: float
    seconds: float = 0.0
    env_id: str
    algo: str
    source: Source
    outcome: TrialOutcome
    threshold: float | None
    horizon: float | None = None
    """Env steps up to which all arms were compared."""
    seed0: int
    plan: TrialPlan
    context: dict[str, Any] = Field(default_factory=dict)
    power: Power | None = None
    arms: tuple[ArmResult, ...] = ()
    looks: tuple[Look, ...] = ()
    effects: tuple[Effect, ...] = ()
    verdict: Verdict | None = None
    """None until it has ended."""
    winner: str | None = None
    reason: str = ""
    """Why it ended as it did, where the numbers alone do not say."""
    used_env_steps: int = 0
    max_env_steps: int | None = None
    notes: tuple[str, ...] = ()
    environments: tuple[EnvironmentResult, ...] = Field((), exclude_if=_is_absent)
    """Where there are several: what came of each."""

    @property
    def control(self) -> ArmResult:
        return self.arms[0]

    def effect(self, arm: str) -> Effect:
        """The effect of one arm."""
        return next(effect for effect in self.effects if effect.arm == arm)

    @property
    def parts(self) -> tuple["Trial", ...]:
        """What came of each environment, as trials of their own; the trial itself where there is one."""
        if not self.environments:
            return (self,)
        return tuple(
            self.model_copy(
                update={
                    "environments": (),
                    "plan": plan,
                    "env_id": each.env_id,
                    "algo": plan.algo,
                    "threshold": each.threshold,
                    "horizon": each.horizon,
                    "arms": each.arms,
                    "effects": each.effects,
                    "context": {**self.context, "run": place.run},
                }
            )
            for each, plan, place in zip(self.environments, self.plan.parts, self.plan.environments, strict=True)
        )

    @property
    def leading(self) -> Effect | None:
        """The winner's effect, or that of the arm with the largest statistic."""
        return max(self.effects, key=lambda effect: (effect.arm == self.winner, effect.z), default=None)


class ArmProgress(TrialPart):
    """How far one arm is in the present look."""

    name: str
    runs: int
    ended: int
    solved: int
    failed: int
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    """Interquartile mean of the last evaluations, as the verdict has it."""
    env_id: str | None = Field(None, exclude_if=_is_absent)
    """Where there are several environments: the one that it is trained on."""


class Event(TrialPart):
    """What a trial tells whoever watches: progress several times a second, and each look when it is over."""

    kind: Literal["started", "progress", "look"]
    trial: str
    look: int
    arms: tuple[ArmProgress, ...] = ()
    seconds: float = 0.0
    result: Look | None = None
