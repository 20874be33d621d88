"""What operations return: one frozen model each, the same for the command line's --json, Python and servers."""

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from rlclinic.actions import Action
from rlclinic.diagnosis.findings import Diagnosis, Finding
from rlclinic.runs.goal import SuccessRate

SCHEMA_VERSION = 1

State = Literal["queued", "running", "finished", "stopped", "failed", "crashed"]
"""`crashed`: status.json says running, but its process is gone."""
STATES: Final[tuple[State, ...]] = get_args(State)


# Built on first use: a command imports all of these models and uses two. Their docstrings stay docstrings: reading them back into
# fields costs half a millisecond each.
_MODEL = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ResultPart(BaseModel):
    """A piece of a result."""

    model_config = _MODEL


class Result(BaseModel):
    """What one operation returns as a whole."""

    model_config = _MODEL
    schema_version: int = SCHEMA_VERSION


class Estimate(ResultPart):
    """A number over seeds: an interquartile mean with its 95 % interval from 8 seeds on; below, and of a mean, with the lowest and the
    highest seed. One seed has neither."""

    value: float | None
    low: float | None
    high: float | None


def finite(values: Iterable[float]) -> list[float | None]:
    """JSON has no NaN: what is not a number becomes null."""
    return [float(value) if math.isfinite(value) else None for value in values]


# ── curves ──


class SeedCurve(ResultPart):
    """One seed's evaluations."""

    seed: int
    steps: list[float]
    values: list[float | None]


class Curve(ResultPart):
    """Return against env steps: the interquartile mean over seeds, its 95 % interval (below 8 seeds their range), and every seed."""

    label: str
    """What is drawn: evaluation return, or training return where no evaluation was made."""
    steps: list[float]
    center: list[float | None]
    low: list[float | None]
    high: list[float | None]
    seeds: list[SeedCurve]
    threshold: float | None
    return_range: tuple[float, float] | None = None
    """The lowest and the highest possible return, where known."""
    step_unit: str = "env steps"
    """What `steps` count: of runs on recorded data gradient steps."""


# ── runs ──


def state_of(word: str) -> State:
    """A state as status.json has it; what nobody knows counts as failed."""
    return next((state for state in STATES if state == word), "failed")


class RunRow(ResultPart):
    """One line of `runs list`."""

    id: str
    group: str | None
    name: str
    """The config's name, CartPole-v1:ppo."""
    seed: int
    state: State
    env_steps: int
    max_env_steps: int | None
    return_mean: float | None
    """Mean return of the last training episodes."""
    eval_mean: float | None
    """The last evaluation."""
    best_eval: float | None
    threshold: float | None
    threshold_reached_at: int | None
    """Env step of the first evaluation that reached the threshold (and the required success)."""
    lost: bool | None
    """It reached the threshold, and ended clearly below it; None: not known."""
    success_rate: float | None
    """Of the last evaluation; None where the environment reports no success."""
    age_seconds: float | None
    """Since the run last wrote its status."""
    parent: str | None


class RunList(Result):
    """Runs, newest first."""

    root: str
    runs: list[RunRow]
    total: int
    """How many matched before the limit."""


class CheckpointRow(ResultPart):
    """A checkpoint that is kept."""

    step: int
    path: str
    best: bool
    last: bool
    valid: bool
    """Every file is there with the bytes that were written."""
    bytes: int


class CheckpointList(Result):
    """A run's checkpoints, oldest first."""

    run: str
    checkpoints: list[CheckpointRow]


class RunInfo(Result):
    """One run: what it was asked to do and what came of it."""

    run: RunRow
    reason: str | None
    config: dict[str, Any]
    versions: dict[str, Any]
    engine: dict[str, Any] | None
    checkpoints: list[CheckpointRow]
    latest: dict[str, float | None]
    """The last row's main metrics."""
    curve: Curve
    wall_seconds: float | None
    steps_per_second: float | None
    path: str


class MetricSeries(ResultPart):
    """One metric of one run."""

    name: str
    meaning: str | None
    unit: str | None
    steps: list[float]
    values: list[float | None]
    first: float | None
    last: float | None
    low: float | None
    high: float | None
    rows: int
    """Rows with a value before thinning."""


class MetricTable(Result):
    """Series of a run, thinned so that a one-row spike survives."""

    run: str
    step_axis: str = "env steps"
    series: list[MetricSeries]
    available: list[str]


class LogText(Result):
    """The end of a run's log."""

    run: str
    lines: list[str]
    total_lines: int


class Removed(Result):
    """What `runs rm` deleted, or would delete."""

    runs: list[str]
    groups: list[str]
    bytes: int
    deleted: bool


class Requested(Result):
    """A request written to control.json of these runs."""

    runs: list[str]
    skipped: dict[str, str]
    """Runs left alone, and why."""
    changes: dict[str, Any]


class AskedReturn(ResultPart):
    """What a Decision Transformer earned where it was asked for one return."""

    asked: float
    return_mean: float
    return_std: float


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
    required_success: float | None = None
    """The share of successful episodes that is required; None: none."""
    passed: bool | None = None
    """Whether it reaches the threshold and the required success; None where neither is known."""
    video: str | None = None
    note: str | None = None
    """What was done in another way than it was asked for."""
    asked: list[AskedReturn] = []
    """Of a Decision Transformer: what it earned for each of the returns that it was asked for."""
    follows: float | None = None
    """Rank correlation of those with what was earned: near 1, it does what it is asked; None of fewer than three."""


# ── data ──


class LabelQuestion(Result):
    """What a run asks a person."""

    run: str
    training: bool
    """Whether the run, or its group, still trains."""
    id: str | None = None
    """None: nothing is asked now."""
    observation: list[float] = []
    round: int | None = None
    step: int | None = None
    env: int | None = None
    choices: int | None = None
    """How many there are to choose from; None where an action is numbers between bounds."""
    allowed: list[int] | None = None
    """Those of them that are allowed now; None: all."""
    low: list[float] | None = None
    high: list[float] | None = None


class DataWritten(Result):
    """A dataset that was collected or converted."""

    data: str
    """Where it lies."""
    episodes: int
    transitions: int
    return_mean: float
    env: str | None


class DataFinding(ResultPart):
    """Something that will matter to whoever learns from the data."""

    level: Literal["error", "warning", "note"]
    name: str
    what: str
    do: str


class ExploredRun(ResultPart):
    """What one run met."""

    run: str
    what: str | None
    """success, or a return that differs; None: the log has neither."""
    first: int | None
    """The env step at which it was first met; None: never."""
    env_steps: int
    episodes: int | None
    bound: float | None
    """The largest chance per episode that is compatible with never having met it, 95 % (rule of three)."""


class ExplorationReport(Result):
    """Whether exploration is what holds a task back."""

    target: str
    verdict: Literal["BOTTLENECK", "NOT", "NOT ASSESSABLE"]
    reason: str
    runs: list[ExploredRun]
    new_states: float | None
    """States met for the first time per 1,000 env steps, at the end; None: not logged."""
    half_life: float | None
    """Env steps in which novelty halved."""
    prescription: dict[str, Any]
    """Settings to try in a trial; empty where no bonus is called for."""
    notes: list[str]
    next: str | None
    """What to do about it."""


class StageStay(ResultPart):
    """From when to when a run was in a stage."""

    stage: int
    name: str
    entered: int
    """Env steps."""
    left: int | None
    """Env steps; None: it is there still, or was at the end."""
    how: str | None
    """mastered, left after too long, left to go back."""


class CurriculumTask(ResultPart):
    """What a run can do in one task of its curriculum."""

    name: str
    threshold: float | None
    episodes: int | None
    """Played in training."""
    training: float | None
    """Success in training, of late."""
    evaluation: float | None
    """Success at the last evaluation."""
    best: float | None
    """The highest success of any evaluation."""


class CurriculumRun(ResultPart):
    """One run's way through a curriculum."""

    run: str
    env_steps: int
    success: float | None
    """In the task itself, at the last evaluation."""
    spread: float | None
    """Kinds that choose among all tasks: how evenly, 1 all alike, 0 one alone."""
    target_share: float | None
    """Episodes of the task itself among all."""
    stays: list[StageStay]
    tasks: list[CurriculumTask]


class CurriculumReport(Result):
    """Which stages runs went through, how they left them, and what they still can do."""

    target: str
    kind: str
    tasks: list[str]
    runs: list[CurriculumRun]


class RewardTerm(ResultPart):
    """One term of a reward that is not the task itself."""

    name: str
    potential: Literal["yes", "no", "undecided"]
    residual: float | None
    """The share of it that no potential explains."""
    why: str
    best: float | None
    """The task's best return, where the environment is finite."""
    kept: float | None
    """What the policy that is best with the term gets of it."""


class RewardRemark(ResultPart):
    """One thing that was seen."""

    level: Literal["error", "warning", "note"]
    name: str
    what: str
    do: str


class RewardReport(Result):
    """What a reward pays for."""

    env: str
    gamma: float
    steps: int
    episodes: int
    terminations: int
    density: float
    scale_median: float
    scale_max: float
    terms: list[RewardTerm]
    remarks: list[RewardRemark]


class NewEnvironment(Result):
    """An environment that was written."""

    env: str
    """How to name it: folder/file.py:Class."""
    files: list[str]
    terms: list[str]
    next: list[Action]
    """What to type."""


class BalancedTerm(ResultPart):
    """One term of a reward over training: medians over runs."""

    name: str
    first_share: float | None
    """Of the sizes of all terms, in the first fifth of training."""
    last_share: float | None
    """The same in the last fifth."""
    first_return: float | None
    """What it added up to in an episode, in the first fifth."""
    last_return: float | None
    with_truth: float | None
    """Rank correlation with success over training; None: not logged, or one of them never changes."""
    potential: bool = False
    """It takes back what it pays, and is not judged."""


class TermConflict(ResultPart):
    """Two terms of which one falls when the other rises."""

    first: str
    second: str
    correlation: float
    start: int
    """The env steps between which it is strongest."""
    end: int


class RewardBalanceReport(Result):
    """Which terms of a reward decide what is learned."""

    target: str
    verdict: Literal["AGAINST THE TASK", "ONE TERM DECIDES", "CONFLICT", "BALANCED", "NOT ASSESSABLE"]
    reason: str
    truth: str | None
    """The column that says what is wanted; None: not logged."""
    terms: list[BalancedTerm]
    conflicts: list[TermConflict]
    rest: float | None = None
    """What episodes return beside all terms, at the end of training; None: the terms sum to the return."""
    next: Action | None = None
    """What says how much each weight matters to success."""


class DataSuit(ResultPart):
    """Whether an algorithm suits the data."""

    algorithm: str
    suits: bool
    why: str


class DataReport(Result):
    """What is in recorded data, and what is wrong with it."""

    data: str
    source: str
    env: str | None
    observations: str
    actions: str
    transitions: int
    episodes: int
    return_mean: float
    return_std: float
    return_min: float
    return_max: float
    return_top_tenth: float
    """Mean return of the best tenth of the episodes."""
    length_mean: float
    length_min: int
    length_max: int
    terminated: float
    """Share of episodes that the task itself ended."""
    zero_rewards: float
    unique: float
    """Distinct state-actions as a share of those looked at, in bins."""
    state_coverage: int
    """Distinct states among those looked at, in bins."""
    action_spread: float | None
    """How differently neighbouring states are acted in: 0 one action a state, 1 at random."""
    at_bounds: float | None
    """Share of actions at a bound."""
    trajectory_quality: float | None
    """0: as good as random; 1: as the good policy."""
    duplicates: int
    """Episodes that are there twice."""
    coverage_ratio: float | None = None
    """SACo: distinct state-actions for one of the data beside it; None: none was named."""
    findings: list[DataFinding]
    suits: list[DataSuit] = []
    """The algorithms that learn from data, and whether this is for them."""
    collect: list[str] = []
    """What to collect instead, where no algorithm suits."""


class DataReason(ResultPart):
    """What speaks for a way, or against it."""

    points: int
    """Above zero: for it."""
    what: str
    number: float
    source: str
    """`measured`, `given`, a benchmark of ours, or a publication."""


class DataWay(ResultPart):
    """One of the ways to learn, and what speaks for it."""

    way: Literal["imitation", "offline", "hybrid", "online"]
    points: int
    impossible: str | None
    """Why it cannot be gone at all."""
    algorithm: str
    command: Action
    reasons: list[DataReason]


class DataLack(ResultPart):
    """Something that the data should have had."""

    what: str
    collect: str
    """What to collect instead."""
    command: Action


class DataAdvice(Result):
    """Which way suits recorded data."""

    data: str
    env: str | None
    verdict: Literal["imitation", "offline", "hybrid", "online", "collect", "repair"]
    """collect: no way suits it, and other data is better. repair: it is damaged."""
    ways: list[DataWay] = []
    """The best first."""
    lacks: list[DataLack] = []
    settle: list[Action] = []
    """The commands whose outcome settles it."""
    report: DataReport
    notes: list[str] = []
    """What could not be measured."""


class PolicyEstimate(ResultPart):
    """What one method says of a policy."""

    method: str
    """fqe, wis, pdis or dr."""
    value: float | None
    """Discounted return; None where the data cannot tell."""
    low: float | None
    high: float | None
    """A 95 % interval."""
    effective_episodes: float | None
    """How many equally weighed episodes would tell as much."""
    refused: str | None
    """Why the data cannot tell."""


class RankedPolicy(ResultPart):
    """One of several policies, by fitted Q evaluation."""

    policy: str
    value: float | None
    """Discounted return; None where the data cannot tell."""
    low: float | None
    high: float | None
    """A 95 % interval."""
    refused: str | None
    """Why the data cannot tell."""


class PolicyEvaluation(Result):
    """What a policy would earn, from recorded data alone."""

    policy: str
    data: str
    gamma: float
    behaviour: float
    """Mean discounted return of the recorded episodes."""
    untried: float
    """Share of the policy's actions that were hardly ever tried in such states."""
    estimates: list[PolicyEstimate]
    ranking: list[RankedPolicy] = []
    """By fitted Q, the best first and those that are refused last; empty where one policy alone was asked about."""


# ── groups ──


class SeedOutcome(ResultPart):
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
    lost: bool
    """It reached the threshold, and ended clearly below it."""
    success: SuccessRate | None
    """Of its last three evaluations together; None where the environment reports no success."""
    reason: str | None


class GroupReport(Result):
    """Everything that a group's report says."""

    id: str
    name: str
    env: str
    algo: str
    verdict: str
    """SOLVED, REACHED, THEN LOST, PARTLY SOLVED, NOT SOLVED, NO THRESHOLD, NOT EVALUATED, NO RETURN, RUNNING or FAILED."""
    note: str
    """What the numbers alone do not say."""
    n_runs: int
    n_reached: int
    n_lost: int
    """Of those, seeds that ended clearly below the threshold."""
    threshold: float | None
    required_success: float | None
    """The share of successful episodes that is required; None: none."""
    success: SuccessRate | None
    """Of the seeds' last evaluations together; None where the environment reports no success."""
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
    next: list[Action]
    """Commands to type next, the most useful first."""


# ── while they train, and at the end ──


class LiveMember(ResultPart):
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
    lost: bool | None = None
    """It reached the threshold, and ended clearly below it; None: not known."""
    success_rate: float | None = None
    """Of the last evaluation, before the first one of training; None where the environment reports no success."""
    online: bool | None = None
    """Whether a run that begins on recorded data acts by now; None: a run that does only one of the two."""
    switch_dip: float | None = None
    """What its first steps in the environment cost, as a share of what it had learned above a random policy; None: not measured."""


class SeedOutlook(ResultPart):
    """What is to be expected of one run within its budget."""

    run: str
    probability: float | None
    """Of reaching the threshold; None if it cannot be told."""
    low: float | None
    high: float | None
    reached_at: int | None
    lost: bool = False
    """It got there, and fell clearly below again."""
    doomed: bool
    """Almost certainly in vain."""
    reason: str


class Outlook(ResultPart):
    """What is to be expected of a group within its budget, and what to do about it."""

    decision: Literal["CONTINUE", "STOP", "ADJUST", "SOLVED", "ENDED", "UNKNOWN"]
    """STOP: almost certainly in vain. ADJUST: a number can be changed while it runs. SOLVED: every seed got there and stayed."""
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
    command: Action | None
    """What to type."""


class LiveGroup(Result):
    """A group as it stands now."""

    id: str
    name: str
    threshold: float | None
    required_success: float | None = None
    """The share of episodes that must succeed as well; None where the environment reports none."""
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


class TopFinding(ResultPart):
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
    command: Action
    """What shows all of it."""
    then: Action | None = None
    """What proves the change, or goes on; None where there is nothing to try."""


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
    env_findings: tuple[Finding, ...] = Field((), exclude_if=lambda findings: not findings)
    """What is wrong with the code of an own environment, as far as two seconds show it."""


# ── what can be trained, and on what ──


class EnvironmentRow(ResultPart):
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


class Check(ResultPart):
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


# ── diagnoses ──


class KeyMetric(ResultPart):
    """How one metric went, over all runs."""

    name: str
    topic: str
    """learning, stability, value or gradients."""
    start: float
    end: float
    """Medians over runs of the first and of the last tenth."""
    low: float
    high: float
    trend: str
    """rises; falls; rises, then falls; falls, then rises; flat; no clear way. Blank where there are too few points."""
    broken: int
    """Values that were not finite."""


class Healthy(ResultPart):
    """Where the returns of healthy runs of this environment and algorithm lie, 5 to 95 % of them, by env steps."""

    runs: int
    source: str
    steps: list[float]
    low: list[float]
    high: list[float]


class Panel(ResultPart):
    """A small picture of a series that is evidence: its middle over runs, their range, and where the evidence lies."""

    series: str
    label: str
    text: str
    """What was found in it."""
    steps: list[float]
    center: list[float]
    low: list[float]
    high: list[float]
    band: tuple[float, float] | None
    """Where healthy runs usually are, on any environment."""
    healthy: Healthy | None = None
    start: float | None
    end: float | None


class Interval(ResultPart):
    """The env steps that the first cause's evidence lies in."""

    start: float
    end: float
    text: str


class Recommendation(ResultPart):
    """One change, with what brief readers ask of it: why, what it should bring, what it may cost, how urgent it is."""

    number: int
    priority: str
    change: str
    """"algo.learning_rate 0.1 → 0.001, linear to 0", or what to do where no setting helps."""
    overrides: list[str]
    """As `--set` takes them; none where it is advice."""
    rationale: str
    expected: str
    """What it should bring, or "no data"."""
    risk: str
    prescribed: bool = False
    """Whether `--rx` takes its number."""
    foreign: str | None = None
    """The same in the words of the framework that the run came from."""
    held_back: str | None = Field(None, exclude_if=lambda reason: reason is None)
    """Why it should be tried before it is used."""


class Place(ResultPart):
    """Where to look for a suspected bug."""

    code: str
    """Whose: rlclinic, Stable-Baselines3, CleanRL, your own script."""
    file: str
    function: str
    look: str
    """What to look for there."""


class Suspect(ResultPart):
    """A bug that the evidence points to."""

    cause: str
    title: str
    probability: float
    places: list[Place]
    reproduce: str
    """What to type (or paste) to see it again."""
    fix: str


class WatchCheck(ResultPart):
    """Whether what an earlier diagnosis said to watch has held this time."""

    text: str
    series: str
    measured: float | None
    held: bool | None
    """None: it was not logged."""
    said: str


class Watched(ResultPart):
    """The watches of the run or group that this one was made from."""

    source: str
    """Its id."""
    cause: str
    """What was wrong there."""
    checks: list[WatchCheck]


class Difference(ResultPart):
    """A setting that two groups do not share."""

    setting: str
    here: Any
    there: Any


class Comparable(ResultPart):
    """The best group of the same environment and algorithm in the store. It shows what is possible, not what is wrong."""

    group: str
    seeds: int
    reached: int
    score: float | None
    steps_to_threshold: float | None
    """Median over the seeds that reached it."""
    differences: list[Difference]
    parts_at: float | None
    """Env step from which its curve stays above this one's."""
    said: str


class Switched(ResultPart):
    """Rules that the project's own file selects or ignores."""

    file: str
    select: list[str]
    ignore: list[str]
    note: str = ""


class FilmedEpisode(ResultPart):
    """An episode of one run, recorded or to be recorded."""

    when: Literal["before", "within"]
    run: str
    step: int
    """The env step of its policy."""
    low: int
    high: int
    """The env steps whose films stand for it as well."""
    file: str | None
    """Its name in the run's folder of videos: a film, or the numbers of an environment without pictures. None: not recorded yet."""
    path: str | None
    """The same as a path to type."""
    said: str | None
    """What it came to: steps, return, success, what each term paid."""


class Films(ResultPart):
    """What a gamed reward is paid for, to look at: an episode from before it was seen to be gamed, and one from when it was."""

    rule: str
    """The finding that it is evidence for."""
    start: int
    end: int
    """The env steps between which that was seen."""
    episodes: tuple[FilmedEpisode, ...]
    missing: tuple[Action, ...] = ()
    """What records those that are not there yet."""
    note: str | None = None
    """Why there are none, and what to do."""


class DiagnosisReport(Result):
    """A diagnosis, all that is said around it, and what to type next."""

    target: str
    group: str | None
    """Id of our own group, if it is one."""
    ended_seconds_ago: float | None = None
    """Since one of our own runs last wrote its status."""
    diagnosis: Diagnosis
    standing: str = ""
    """How the runs stand: "2 stuck, 1 collapsed"."""
    metrics: tuple[KeyMetric, ...] = ()
    panels: tuple[Panel, ...] = ()
    marked: Interval | None = None
    recommendations: tuple[Recommendation, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    watched: Watched | None = None
    films: Films | None = Field(None, exclude_if=lambda films: films is None)
    """Where the likeliest cause is a reward that is gamed."""
    comparable: Comparable | None = None
    switched: Switched | None = None
    next: list[Action]
    files: list[str]
    """What was written."""
    changed_code: str | None = Field(None, exclude_if=lambda text: text is None)
    """What has changed in the code of its own environment since it was trained, and what that means."""
    not_written: str | None = Field(None, exclude_if=lambda reason: reason is None)
    """Why its files were not written: a store on a disk that is full or read-only can be diagnosed all the same."""
    more: tuple["DiagnosisReport", ...] = ()
    """Of the other configs, where a folder holds runs of several."""
