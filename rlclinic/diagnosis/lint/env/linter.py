"""Turns the facts of an examination into findings and the numbers worth showing."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlclinic.diagnosis.engine import lower
from rlclinic.diagnosis.findings import DiagnosisPart, Evidence, Finding, Remedy, Severity
from rlclinic.diagnosis.lint import checks
from rlclinic.diagnosis.lint.checks import Check
from rlclinic.diagnosis.lint.env.examination import Examination, Played, Remark

SLIGHT = 0.2
"""Strength below which a finding is only worth knowing."""


class EnvLint(DiagnosisPart):
    """What can be said about an environment."""

    name: str
    findings: tuple[Finding, ...]
    checks: int
    observation: str
    action: str
    time_limit: int | None
    played: tuple[Played, ...]
    """Returns of random, constant and, where one is known, scripted actions."""
    rewards: dict[str, float]
    dimensions: tuple[dict[str, float], ...]
    """Mean, deviation, lowest and highest of every number of the observation."""
    summed_up: bool
    """The observation is large: the four rows are about its mean, deviation, lowest and highest number."""
    ends: dict[str, int]
    """How random episodes ended: terminated, truncated."""
    success: float | None
    """Share of random episodes with a success flag, where the environment sets one."""
    step_after_end: str | None
    steps_per_second: float | None
    seconds: float
    skipped: dict[str, str]
    """Phases that could not be finished, and why."""


def lint_facts(facts: Mapping[str, Any], *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> EnvLint:
    """Findings, the severe first; what was not seen is not judged."""
    examination = Examination(facts)
    asked = checks.selected("ENV", select, ignore)
    findings = [_finding(question, remark, str(facts["name"])) for question in asked for remark in question.function(examination)]
    ordered = sorted(findings, key=lambda finding: (-finding.severity.rank, -finding.strength, finding.rule))
    return EnvLint(
        name=str(facts["name"]),
        findings=tuple(ordered),
        checks=len(asked),
        observation=str(examination.observation.get("text", "unknown")),
        action=str(examination.action.get("text", "unknown")),
        time_limit=facts.get("time_limit"),
        played=tuple(examination.played),
        rewards=dict(examination.rewards),
        dimensions=tuple(dict(each) for each in facts.get("dimensions") or []),
        summed_up=bool(facts.get("summed_up")),
        ends={kind: int(examination.random.get(kind) or 0) for kind in ("terminated", "truncated")},
        success=examination.random.get("success"),
        step_after_end=(facts.get("resets") or {}).get("step_after_end"),
        steps_per_second=examination.steps_per_second,
        seconds=float(facts.get("seconds") or facts.get("limit") or 0.0),
        skipped=dict(facts.get("skipped") or {}),
    )


def _finding(check: Check, remark: Remark, name: str) -> Finding:
    severity = check.severity if remark.strength >= 0.5 else lower(check.severity) if remark.strength >= SLIGHT else Severity.LOW
    evidence = Evidence(series=f"env:{name}", text=remark.text, numbers=dict(remark.numbers))
    remedy = Remedy(text=remark.fix or check.fix)
    return Finding(
        rule=check.id,
        name=check.name,
        severity=severity,
        strength=remark.strength,
        text=remark.text,
        evidence=(evidence,),
        remedies=(remedy,),
        run=name,
    )
