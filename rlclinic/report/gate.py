"""What `regress` returns: whether a candidate got worse, by which rule, and what it would take to know."""

from rlclinic.comparison.regression import Baseline, Decision, Look, Outcome, Power
from rlclinic.report.models import Part, Result


class Rule(Part):
    """How the candidate is judged."""

    outcome: Outcome
    margin: float
    alpha: float
    looks: int
    per_look: int
    bounds: list[float]


class Needed(Part):
    """Seeds that would settle it, if what was seen holds."""

    candidate: int
    baseline: int


class Regression(Result):
    """Whether a candidate got worse."""

    baseline: str
    candidate: str
    env: str | None
    decision: Decision
    rule: Rule
    threshold: float | None
    baseline_seeds: int
    candidate_seeds: int
    looks: list[Look]
    power: list[Power]
    needed: Needed | None
    """For an undecided end; None where it is out of reach."""
    groups: list[str]
    """What was trained for it."""
    signal: str | None
    """SIGINT or SIGTERM, if that ended it before its time."""
    notes: list[str]


class BaselineSaved(Result):
    """A baseline that was written."""

    file: str
    baseline: Baseline
