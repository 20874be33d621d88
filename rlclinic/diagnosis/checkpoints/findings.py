"""Findings about checkpoints as a part of a diagnosis: asked for by the same ids, counted among the same checks."""

from collections.abc import Sequence
from typing import NamedTuple

from rlclinic.diagnosis import registry
from rlclinic.diagnosis.checkpoints import inspect_run
from rlclinic.diagnosis.findings import Checks, Diagnosis, Finding, GroupFinding, Severity
from rlclinic.runs.history import History
from rlclinic.runs.record import Run


class Selection(NamedTuple):
    """Which rules about runs to apply, and which checks of checkpoints."""

    select: list[str] | None
    ignore: list[str]
    checks: frozenset[str]


def fits_any(prefix: str) -> bool:
    """Whether a beginning of an id, or a name, means a check of checkpoints."""
    return any(_fits(rule, prefix) for rule in inspect_run.rules())


def _fits(each: registry.Rule, prefix: str) -> bool:
    return each.id.startswith(prefix.strip().upper()) or each.name == prefix.strip().lower()


def choose_checks(select: Sequence[str] | None, ignore: Sequence[str] | None) -> Selection:
    """What --select and --ignore mean for each of the two. Names that fit neither are left for the rules to refuse."""
    wanted = [prefix for prefix in select or () if fits_any(prefix)]
    others = [prefix for prefix in select or () if not fits_any(prefix)]
    left = [prefix for prefix in ignore or () if not fits_any(prefix)]
    kept = frozenset(
        rule.id
        for rule in inspect_run.rules()
        if (not select or any(_fits(rule, prefix) for prefix in wanted)) and not any(_fits(rule, prefix) for prefix in ignore or ())
    )
    if select and not others:
        left = [rule.id for rule in registry.rules()]
    return Selection(others or None, left, kept)


def add_checkpoints(diagnosis: Diagnosis, runs: Sequence[Run], histories: Sequence[History], checks: frozenset[str]) -> Diagnosis:
    """A diagnosis of our own runs with what their checkpoints add; as it was where they have none."""
    judged = sum(bool(run.checkpoints) for run in runs)
    if not judged or not checks:
        return diagnosis
    by_rule: dict[str, list[Finding]] = {}
    for finding in inspect_run.examine_group(runs, histories):
        if finding.rule in checks:
            by_rule.setdefault(finding.rule, []).append(finding)
    more = [_merge(each, judged, calm=diagnosis.verdict == "SOLVED") for each in by_rule.values()]
    ordered = sorted([*diagnosis.findings, *more], key=lambda each: (-each.severity.rank, -each.strength, each.rule))
    counted = diagnosis.checks
    totals = Checks(
        total=counted.total + len(checks),
        failed=counted.failed + len(by_rule),
        passed=counted.passed + len(checks) - len(by_rule),
        not_assessable=counted.not_assessable,
        not_applicable=counted.not_applicable,
    )
    return diagnosis.model_copy(update={"findings": tuple(ordered), "checks": totals})


def _merge(findings: Sequence[Finding], judged: int, *, calm: bool) -> GroupFinding:
    """One finding for the group. Where every run does well, it is worth a look and no more."""
    best = max(findings, key=lambda finding: (finding.strength, finding.run))
    runs = tuple(dict.fromkeys(finding.run for finding in findings))
    most = Severity.MEDIUM if calm else Severity.HIGH
    return GroupFinding(
        rule=best.rule,
        name=best.name,
        severity=min(best.severity, most, key=lambda each: each.rank),
        strength=round(sum(finding.strength for finding in findings) / max(judged, len(findings)), 4),
        runs=runs,
        judged=judged,
        text=best.text,
        evidence=best.evidence,
        onset=best.onset,
        remedies=best.remedies,
    )
