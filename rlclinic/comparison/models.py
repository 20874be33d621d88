"""What a comparison is made of. A number that does not exist is None, never 0; sides are named A, B, C, ... in the order given."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from rlclinic import stats

_MODEL = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)

Axis = Literal[
    "env steps", "gradient steps", "gradient and env steps", "wall seconds", "seeds an arm", "share of the budget", "relative return"
]
Verdict = Literal["better", "worse", "mixed", "no difference shown", "not assessable"]


class ComparisonPart(BaseModel):
    """A piece of a comparison."""

    model_config = _MODEL


class Interval(ComparisonPart):
    """A number with its interval, 95 % unless it says otherwise; low and high are None where there is none.

    Of an interquartile mean below 8 seeds, and of a mean, they are the lowest and the highest seed: no interval of so few holds where part
    of the seeds collapse (docs/statistics.md).
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, estimate: stats.Estimate) -> "Interval":
        return cls(**estimate._asdict())


class SideFacts(ComparisonPart):
    """What is known of one side before anything is compared."""

    label: str
    """A, B, C, ..."""
    name: str
    """As it was typed."""
    kind: Literal["group", "run", "foreign", "config"]
    env: str | None
    algo: str | None
    source: str | None
    """Who logged it; None for a config that was not trained."""
    runs: int
    env_steps: int | None
    """Of the longest run."""
    states: dict[str, int]
    """How many runs are finished, failed, stopped, running."""
    notes: list[str]


class Difference(ComparisonPart):
    """A setting that is not the same on all sides."""

    key: str
    """Dotted name."""
    values: list[Any]
    """By side; None also where a log does not say, see `shown`."""
    shown: list[str]
    """The same for people: "1e-3, linear to 0", "not recorded (default 0.2)"."""
    change: str
    """From the first side to the second, in words: "10x smaller"; empty where there is no order."""
    usual: str
    """What such a change usually does; empty where nothing is known."""
    cites: list[str]
    """Keys of the bibliography for `usual`."""
    trials: int
    """Recorded trials that changed this setting in this direction."""
    adopted: int
    """How many of them ended with the change adopted."""


class Derived(ComparisonPart):
    """A number that follows from the settings."""

    name: str
    meaning: str
    values: list[float | None]
    differs: bool


class Course(ComparisonPart):
    """How a number that differs runs over the budget, on each side that has it."""

    key: str
    sides: dict[str, list[float]]
    """By side's label: values at equal shares of the budget, from its start to its end."""


class ConfigDiff(ComparisonPart):
    """The sides' settings, every default written out."""

    differences: list[Difference]
    same: int
    """Settings that all sides have alike."""
    derived: list[Derived]
    courses: list[Course]
    """Of numbers that differ and change over the run on at least one side."""
    notes: list[str]


class Band(ComparisonPart):
    """A side's return over its runs: interquartile mean with its 95 % interval (below 8 runs their range), point by point."""

    label: str
    axis: Axis
    x: list[float]
    center: list[float]
    low: list[float]
    high: list[float]
    runs: int


class SideOutcome(ComparisonPart):
    """How one side did."""

    label: str
    runs: int
    common: Interval
    """Return at the env step up to which all sides were trained, IQM over runs."""
    last: Interval
    """Return at each run's end, IQM over runs."""
    best: float | None
    area: Interval
    """Mean return over all of the common env steps: early learners have more."""
    reached: int | None
    """Runs that reached the threshold; None without one."""
    reached_share: Interval | None
    kept: int | None
    """Runs that reached it and did not lose it again."""
    steps: Interval | None
    """Mean env steps to the threshold within the common horizon; runs that never got there count it whole. Lowest and highest run."""
    median_steps: float | None
    """Env steps after which half of the runs had reached it (Kaplan-Meier); None if fewer did."""
    median_steps_interval: tuple[float, float | None] | None = None
    """Its 95 % interval, which holds for any distribution; the end is None where it lies beyond the horizon. None below 5 runs."""
    wall: Interval | None
    """The same mean in seconds of the process that trained the runs."""
    spread: Interval | None
    """Standard deviation of the common return over seeds, without an interval: a collapse that was not drawn changes it most."""
    lowest: float | None
    highest: float | None
    fall: Interval | None
    """How far runs fell below their own best evaluation by their end: 0 is a run that ended at its best."""
    gap: Interval | None
    """Evaluation minus training return in the last third of a run."""
    success: Interval | None
    """Last success rate that the environment reported, mean over runs; lowest and highest run."""
    fps: float | None
    """Env steps per second of one run."""
    seconds_per_100k: float | None
    split: dict[str, float]
    """Share of the time by phase (env, act, learn, ...), largest first."""


class Contrast(ComparisonPart):
    """One outcome of a side against another's."""

    outcome: str
    difference: Interval
    """The later side's mean minus the earlier one's. Of returns, this is what is tested."""
    ratio: Interval | None = None
    """Later over earlier. Of steps and seconds, this is what is tested: geometric means, never counting as the horizon."""
    middle: Interval | None = None
    """Interquartile means, later minus earlier (of steps and seconds: geometric, later over earlier), with a 95 % interval from 8 seeds
    on. It does not see the lowest and the highest quarter of the seeds: what is tested does."""
    p: float | None
    """Two-sided; None where it cannot be judged."""
    p_holm: float | None
    """Corrected for every verdict that this comparison asks for."""
    statistic: float | None
    method: str
    why: str
    """Why this test."""
    better: bool | None = None
    """Whether the tested statistic speaks for the later side; None where it speaks for neither, or nothing was tested."""


class Pair(ComparisonPart):
    """A side against an earlier one."""

    first: str
    second: str
    verdict: Verdict
    """Of the second against the first."""
    reason: str
    contrasts: list[Contrast]
    improvement: Interval | None
    """P(a run of the second has a higher return than a run of the first); None with one seed."""
    reached: Interval | None
    """Difference of the shares that reached the threshold."""
    detectable: float | None
    """The difference of returns that this many seeds would show with power 0.8."""
    seeds_needed: int | None
    """Seeds a side that would show the difference of returns that was seen, with power 0.8; None without one."""
    smallest_p: float | None = None
    """The smallest p that so few seeds can give, whatever their returns; None where they are many."""
    spread: Contrast | None
    """Whether the seeds scatter more on one side."""
    sizes: tuple[int, int] = (0, 0)
    """Runs of the first and of the second side."""
    collapsed: tuple[int, int] | None = None
    """Runs of the first and of the second side that lie far below the others; None where a side is lower as a whole."""


class PhaseRow(ComparisonPart):
    """A metric in the first, the second and the last third of the runs, IQM over runs."""

    metric: str
    meaning: str
    values: list[tuple[float | None, float | None, float | None]]
    """By side."""


class LossShares(ComparisonPart):
    """What the optimizer worked on: the weighted size of each loss term as a share of all, by third."""

    label: str
    policy: tuple[float | None, float | None, float | None]
    value: tuple[float | None, float | None, float | None]
    entropy: tuple[float | None, float | None, float | None]


class Compared(ComparisonPart):
    """All of a comparison."""

    sides: list[SideFacts]
    env: str | None
    """None where the sides have different ones."""
    measure: Literal["evaluation", "training"] | None
    """Which return is compared; None where the sides have none in common."""
    threshold: float | None
    common_env_steps: float | None
    """The env step up to which every side was trained."""
    horizon_env_steps: float | None
    """The env step up to which arrivals at the threshold are counted on all sides; None without a threshold."""
    config: ConfigDiff
    curves: list[Band]
    outcomes: list[SideOutcome]
    pairs: list[Pair]
    phases: list[PhaseRow]
    losses: list[LossShares]
    notes: list[str]
    """What was assumed, left out or is missing."""
