"""What operations return about groups, trainings, policies, configs and this machine; see `results`."""

from typing import Any, Literal

from rlclinic.ops.results import Curve, Part, Result, State


class Estimate(Part):
    """A number over seeds with its 95 % bootstrap interval (none with one seed)."""

    value: float | None
    low: float | None
    high: float | None


class SeedOutcome(Part):
    """How one seed of a group did."""

    run: str
    seed: int | None
    """None where another framework's log does not say."""
    state: State
    env_steps: int
    last_eval: float | None
    best_eval: float | None
    best_eval_at: int | None
    threshold_reached_at: int | None
    reason: str | None


class GroupReport(Result):
    """Everything that a group's report says."""

    id: str
    name: str
    env: str
    algo: str
    verdict: str
    """SOLVED, PARTLY SOLVED, NOT SOLVED, NO THRESHOLD, NOT EVALUATED, RUNNING or FAILED."""
    note: str
    """What the numbers alone do not say."""
    n_runs: int
    n_reached: int
    threshold: float | None
    gap: float | None
    """Threshold minus the IQM of the last evaluations: positive when missed, negative when passed."""
    gap_fraction: float | None
    """The gap as a share of the threshold's size."""
    last: Estimate
    """IQM of the last evaluations."""
    best: float | None
    best_at: int | None
    best_run: str | None
    env_steps: int
    """Of all seeds together."""
    max_env_steps: int | None
    """Budget of one seed."""
    steps_to_threshold: Estimate
    """Mean env steps until the threshold, restricted to the budget: seeds that never got there count in full."""
    wall_seconds: float | None
    steps_per_second: float | None
    """Of all seeds together, training only."""
    throughput: dict[str, float]
    """Share of the time by phase: env, act, learn, ..."""
    seeds: list[SeedOutcome]
    curve: Curve
    config: dict[str, Any]
    parent: str | None
    path: str
    next: list[str]
    """Commands to type next, the most useful first."""


class LiveMember(Part):
    """The newest reading of one run."""

    run: str
    seed: int
    state: State
    reason: str | None
    env_steps: int
    max_env_steps: int | None
    episodes: int | None
    return_mean: float | None
    eval_mean: float | None
    best_eval: float | None
    kl: float | None
    entropy: float | None
    explained_variance: float | None
    steps_per_second: float | None
    threshold_reached_at: int | None


class SeedOutlook(Part):
    """What is to be expected of one run within its budget."""

    run: str
    probability: float | None
    """Of reaching the threshold; None if it cannot be told."""
    low: float | None
    high: float | None
    reached_at: int | None
    doomed: bool
    """Almost certainly in vain."""
    reason: str


class Outlook(Part):
    """What is to be expected of a group within its budget, and what to do about it."""

    decision: Literal["CONTINUE", "STOP", "ADJUST", "SOLVED", "ENDED", "UNKNOWN"]
    """STOP: almost certainly in vain. ADJUST: a number can be changed while it runs. SOLVED: every seed is there."""
    probability: float | None
    """Of reaching the threshold, mean over seeds."""
    low: float | None
    high: float | None
    reason: str
    seeds: list[SeedOutlook]
    percentile: float | None
    """Of the return among healthy runs at this env step."""
    healthy_runs: int | None
    healthy_source: str | None
    cause: str | None
    """What is likely wrong, with its probability and rule."""
    watch: str | None
    """What to keep an eye on."""
    command: str | None
    """What to type."""


class LiveGroup(Result):
    """A group as it stands now."""

    id: str
    name: str
    threshold: float | None
    state: State
    members: list[LiveMember]
    env_steps: int
    """The mean over members."""
    max_env_steps: int | None
    steps_per_second: float | None
    """The sum over members that are running."""
    eta_seconds: float | None
    return_mean: Estimate
    outlook: Outlook | None = None
    """Where it was asked for: it takes a whole reading of the logs."""


class StatusReport(Result):
    """Groups that are running (or the one that was asked for)."""

    groups: list[LiveGroup]


class TopFinding(Part):
    """The answer of a diagnosis in a few words, for the end of `train`."""

    cause: str
    """Its id; healthy, too-early, no-reference and no-return need no cure."""
    title: str
    probability: float
    severity: str
    agree: int
    of: int
    rule: str | None
    change: str | None
    """The first thing to try."""
    command: str
    """What shows all of it."""


class TrainResult(Result):
    """How `train` ended."""

    group: str
    runs: list[str]
    detached: bool
    signal: str | None
    """SIGINT or SIGTERM, if that ended it before its time."""
    failed: list[str]
    """Runs that failed or crashed."""
    report: GroupReport | None
    """None when detached: it has not ended yet."""
    files: list[str]
    """Reports that were written."""
    finding: TopFinding | None = None
    """What the diagnosis found; None when detached, or where nothing was logged."""


class Requested(Result):
    """A request written to control.json of these runs."""

    runs: list[str]
    skipped: dict[str, str]
    """Runs left alone, and why."""
    changes: dict[str, Any]


class EvaluationResult(Result):
    """A policy's score on fresh, fixed start states."""

    run: str
    checkpoint: str
    step: int
    env: str
    episodes: int
    deterministic: bool
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    length_mean: float
    success_rate: float | None
    threshold: float | None
    returns: list[float]
    video: str | None = None
    note: str | None = None
    """What was done in another way than it was asked for."""


class EnvironmentRow(Part):
    """An environment with a shipped (or a user's) YAML file."""

    id: str
    variants: list[str]
    threshold: float | None
    description: str
    measured: dict[str, str]
    """By variant: what was measured, on how many seeds."""
    source: str
    """"shipped", or the user's file."""
    problem: str | None = None
    """Why the file cannot be used, if so."""


class EnvironmentList(Result):
    """Environments with variants; any other Gymnasium id trains too, with general settings."""

    environments: list[EnvironmentRow]


class ConfigView(Result):
    """A whole config, where each value came from, and the numbers that follow from it."""

    name: str
    config: dict[str, Any]
    origins: dict[str, str]
    derived: dict[str, Any]
    notes: list[str]
    """What was assumed or dropped on the way."""


class Check(Part):
    """One line of `doctor`."""

    name: str
    status: Literal["ok", "warning", "missing", "failed"]
    found: str
    fix: str | None = None
    """What to type."""


class Diagnostics(Result):
    """The state of this installation and machine."""

    checks: list[Check]
    healthy: bool
    """Nothing that training needs is missing or failed."""
