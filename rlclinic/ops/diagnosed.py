"""What `diagnose` says around a diagnosis: key metrics and their curves, where to look for a bug, what to change, what held since
last time, and how the best comparable group differs."""

from typing import Any

from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.ops.results import Part, Result


class KeyMetric(Part):
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


class Healthy(Part):
    """Where the returns of healthy runs of this environment and algorithm lie, 5 to 95 % of them, by env steps."""

    runs: int
    source: str
    steps: list[float]
    low: list[float]
    high: list[float]


class Panel(Part):
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


class Interval(Part):
    """The env steps that the first cause's evidence lies in."""

    start: float
    end: float
    text: str


class Recommendation(Part):
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


class Place(Part):
    """Where to look for a suspected bug."""

    code: str
    """Whose: rlclinic, Stable-Baselines3, CleanRL, your own script."""
    file: str
    function: str
    look: str
    """What to look for there."""


class Suspect(Part):
    """A bug that the evidence points to."""

    cause: str
    title: str
    probability: float
    places: list[Place]
    reproduce: str
    """What to type (or paste) to see it again."""
    fix: str


class WatchCheck(Part):
    """Whether what an earlier diagnosis said to watch has held this time."""

    text: str
    series: str
    measured: float | None
    held: bool | None
    """None: it was not logged."""
    said: str


class Watched(Part):
    """The watches of the run or group that this one was made from."""

    source: str
    """Its id."""
    cause: str
    """What was wrong there."""
    checks: list[WatchCheck]


class Difference(Part):
    """A setting that two groups do not share."""

    setting: str
    here: Any
    there: Any


class Comparable(Part):
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


class Switched(Part):
    """Rules that the project's own file selects or ignores."""

    file: str
    select: list[str]
    ignore: list[str]
    note: str = ""


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
    comparable: Comparable | None = None
    switched: Switched | None = None
    next: list[str]
    files: list[str]
    """What was written."""
    more: tuple["DiagnosisReport", ...] = ()
    """Of the other configs, where a folder holds runs of several."""
