"""What a diagnosis is made of: findings with evidence, remedies, causes, and what could not be judged."""

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from rlclinic.actions import Action
from rlclinic.runs.goal import SuccessRate

SCHEMA_VERSION: Final = 1

_MODEL = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Severity(StrEnum):
    """How much a finding matters for the run it was found in."""

    LOW = "low"
    """Worth knowing; the run does well, or the effect is small."""
    MEDIUM = "medium"
    """Slows learning down or makes its result uncertain."""
    HIGH = "high"
    """Prevents learning, or makes every number of the run wrong."""

    @property
    def rank(self) -> int:
        return (Severity.LOW, Severity.MEDIUM, Severity.HIGH).index(self)


Kind = Literal["nothing wrong", "cannot tell", "symptom", "fault of settings", "fault of code", "fault of environment"]
"""Where a cause lies. "cannot tell": there is too little to judge by. "symptom": something is wrong, and this is how it shows; what
lies behind it is not known."""
Effect = Literal["> 30 %", "10-30 %", "< 10 %", "unknown"]
"""Expected change of the final return or of the steps to the threshold."""


class DiagnosisPart(BaseModel):
    """A piece of a diagnosis."""

    model_config = _MODEL


class Evidence(DiagnosisPart):
    """Numbers that a finding rests on."""

    series: str
    """A canonical metric name, or `config:<dotted setting>`."""
    start: float | None = None
    """Env steps from which and to which it holds."""
    end: float | None = None
    numbers: dict[str, float] = {}
    text: str
    """The same in words: "KL 0.011 -> 0.094 at 24k"."""


class Remedy(DiagnosisPart):
    """One change that should help, computed from the run's own numbers."""

    setting: str | None = None
    """Dotted name; None where no setting helps and the text says what to do."""
    current: Any = None
    value: Any = None
    """What to set it to; the config's schema accepts it."""
    text: str
    """What to do and how the value was computed."""
    effect: Effect = "unknown"
    risk: str = ""

    @property
    def override(self) -> str | None:
        """As `--set` takes it."""
        import json

        if self.setting is None:
            return None
        return f"{self.setting}={self.value if isinstance(self.value, str) else json.dumps(self.value)}"


class Finding(DiagnosisPart):
    """One observation about one run."""

    rule: str = ""
    name: str = ""
    """The rule's name: policy-step-too-large."""
    severity: Severity = Severity.MEDIUM
    strength: float = 1.0
    """How clear it is, 0 to 1."""
    text: str
    evidence: tuple[Evidence, ...] = ()
    onset: float | None = None
    """Env step at which it began; None if it was there from the start or has no place in time."""
    remedies: tuple[Remedy, ...] = ()
    run: str = ""


class GroupFinding(DiagnosisPart):
    """One observation over the runs of a group."""

    rule: str
    name: str
    severity: Severity
    strength: float
    """Mean strength over the runs that could be judged, 0 where it was not found."""
    runs: tuple[str, ...]
    """Where it was found."""
    judged: int
    """How many runs could be judged."""
    text: str
    evidence: tuple[Evidence, ...]
    """Of the clearest run."""
    onset: float | None
    """The median over runs."""
    remedies: tuple[Remedy, ...]


class Unassessable(DiagnosisPart):
    """A check that could not be made, and what it would take."""

    rule: str
    name: str
    missing: tuple[str, ...]
    paste: tuple[str, ...]
    """Lines for the training script that log what is missing; read back under these very names."""


class PossibleCause(DiagnosisPart):
    """What may lie behind a symptom."""

    id: str
    title: str
    probability: float
    """That this is what is wrong; those behind one symptom share its probability."""
    tells: str
    """What tells it from the others."""
    needs: tuple[str, ...] = ()
    """What its checks need and the log lacks."""
    find_in: str
    """Where to look: settings, environment, log, evaluation, more seeds, probe."""
    find: Action | None = None
    """The command that finds out."""


class Cause(DiagnosisPart):
    """An explanation, with how likely it is."""

    id: str
    title: str
    probability: float
    severity: Severity
    rules: tuple[str, ...]
    """Findings that speak for it, the strongest first."""
    agree: int
    """Runs in which one of them was found."""
    of: int
    moved_first: str = ""
    with_it: str = ""
    because: str = ""
    consequence_of: str | None = None
    """Id of a cause that came before it and explains it."""
    remedies: tuple[Remedy, ...] = ()
    kind: Kind = "symptom"
    """Where it lies; by its id, also in files that were written without it."""
    possible: tuple[PossibleCause, ...] = ()
    """Of a symptom: what may bring it about, the likeliest first."""

    @model_validator(mode="before")
    @classmethod
    def _look_up_kind(cls, given: Any) -> Any:
        from rlclinic.diagnosis import causes

        return {**given, "kind": causes.kind_of(given["id"])} if isinstance(given, dict) and "id" in given else given

    @property
    def calm(self) -> bool:
        """Whether nothing needs an explanation: all is well, or it cannot be told yet whether it is."""
        return self.kind in ("nothing wrong", "cannot tell")


class CannotTell(DiagnosisPart):
    """Why a log does not say what is wrong, and what to add so that the next one does."""

    text: str
    lacks: tuple[str, ...]
    paste: tuple[str, ...]
    """Lines for the training script."""
    find: Action | None = None
    """A command that finds out more without training again."""


class Witness(DiagnosisPart):
    """What was seen in the environment itself, beside the logs."""

    env: str
    evaluation: str | None = None
    """The environment of evaluation, where one was examined."""
    seen: tuple[str, ...]
    """Faults, the most certain first."""
    differences: tuple[str, ...] = ()
    """Between the environments of training and evaluation."""
    contradictions: tuple[str, ...] = ()
    """What the log says and the environment does not bear out."""
    skipped: dict[str, str] = {}
    """What could not be looked at, and why."""
    seconds: float


class RuledOut(DiagnosisPart):
    """An explanation that the data speak against."""

    id: str
    title: str
    because: str


class Watch(DiagnosisPart):
    """What to look at next time."""

    series: str
    text: str
    below: float | None = None
    above: float | None = None


class Curve(DiagnosisPart):
    """The return against env steps, for the small picture."""

    label: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Facts(DiagnosisPart):
    """What the header says."""

    id: str
    algo: str | None
    env: str | None
    source: str
    runs: int
    env_steps: float | None
    max_env_steps: int | None
    state: str
    threshold: float | None
    reached: int | None
    """Runs whose evaluation reached the threshold (and the required success); None where nothing is required."""
    lost: int | None = None
    """Of those, runs that ended clearly below it."""
    required_success: float | None = None
    """The share of successful episodes that is required; None: none."""
    success: SuccessRate | None = None
    """Of the runs' last evaluations together; None where the environment reports no success."""
    last: float | None
    """IQM over runs of the last return."""
    low: float | None
    high: float | None
    """Its 95 % interval; below 8 runs the lowest and the highest."""
    best: float | None
    best_at: float | None
    notes: tuple[str, ...] = ()


class Checks(DiagnosisPart):
    """How many checks there were, and how they came out."""

    total: int
    failed: int
    passed: int
    not_assessable: int
    not_applicable: int


class Diagnosis(DiagnosisPart):
    """Everything that can be said about a group of runs from its files."""

    schema_version: int = SCHEMA_VERSION
    facts: Facts
    verdict: str
    """One of `rlclinic.runs.outcome.Verdict`."""
    answer: str
    """The first cause's title, or healthy, too early to tell, ..."""
    cannot_tell: CannotTell | None = None
    """Said before everything else: the log holds too little to tell the cause."""
    witness: Witness | None = None
    """What the environment itself shows, where it was examined."""
    causes: tuple[Cause, ...]
    findings: tuple[GroupFinding, ...]
    ruled_out: tuple[RuledOut, ...]
    unassessable: tuple[Unassessable, ...]
    checks: Checks
    remedies: tuple[Remedy, ...]
    """The most promising first, at most three, of the likely causes."""
    watch: tuple[Watch, ...]
    curve: Curve

    @property
    def worst(self) -> Severity | None:
        """The highest severity of a finding or a likely cause; None if nothing was found."""
        severities = [finding.severity for finding in self.findings] + [cause.severity for cause in self.causes if cause.rules]
        return max(severities, key=lambda severity: severity.rank, default=None)
