"""The whole examination: rules over runs, findings over groups, causes, what was ruled out and what could not be judged."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlclinic import stats
from rlclinic.actions import Action
from rlclinic.diagnosis import exclusions, logging_snippets, registry, symptoms, timeline
from rlclinic.diagnosis.case import Case, case_of
from rlclinic.diagnosis.causes import HEALTHY, NO_REFERENCE, NO_RETURN, TOO_EARLY, UNKNOWN, known, rank, table
from rlclinic.diagnosis.findings import (
    Cause,
    Checks,
    Curve,
    Diagnosis,
    Evidence,
    Facts,
    Finding,
    GroupFinding,
    Remedy,
    Severity,
    Unassessable,
    Watch,
)
from rlclinic.diagnosis.registry import Rule
from rlclinic.diagnosis.signals import detect
from rlclinic.errors import UsageError
from rlclinic.runs import outcome
from rlclinic.runs.history import History

LIKELY = 0.15
SURE = 0.7
CLEAR, DOUBT, BY_CHANCE = 0.9, 0.5, 0.2
CURVE_POINTS = 64
ENDINGS = frozenset({"CFG107", "ENV608"})
"""Rules about what ended a run."""
SAME_FOR_ALL = frozenset({"threshold-out-of-reach", "actions-without-effect", "reward-sign"})
"""Causes that would hold for every seed of a config: one that solved the task refutes them."""
TOO_NOISY = "evaluation-too-noisy"
NOISY = "EVA803"
"""The rule that says that evaluations are too noisy to judge by."""


@dataclass(frozen=True)
class RuleResult:
    """What one rule said about a group."""

    rule: Rule
    findings: list[Finding]
    judged: int
    missing: list[str]
    """Inputs that every run lacked."""

    @property
    def strongest(self) -> dict[str, Finding]:
        """The clearest finding of each run."""
        by_run: dict[str, Finding] = {}
        for finding in self.findings:
            if finding.run not in by_run or finding.strength > by_run[finding.run].strength:
                by_run[finding.run] = finding
        return by_run


def diagnose(histories: Sequence[History], *, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> Diagnosis:
    """Examine runs that belong together (one config, several seeds; or a single run).

    The same histories give the same bytes. `select` and `ignore` take beginnings of rule ids, or names.
    """
    if not histories:
        raise UsageError("there is no run to diagnose.\n  See what there is: ", Action("runs list"))
    # A log may hold anything, 1e300 included: sums that overflow are infinite, and no rule trusts those.
    with np.errstate(all="ignore"):
        return _diagnose([case_of(history) for history in histories], registry.selected(select, ignore))


def _diagnose(cases: Sequence[Case], rules: Sequence[Rule]) -> Diagnosis:
    results = [examine(rule, cases) for rule in rules]
    findings = _findings(results, cases)
    source = cases[0].history.source
    causes = [symptoms.name_possible_causes(cause, results, source) for cause in _causes(findings, results, cases)]
    outcomes = outcome.measure_group([case.history for case in cases], cases[0].history.goal, cases[0].history.source)
    likely = [cause for cause in causes if cause.probability >= LIKELY and cause.remedies and cause.consequence_of is None]
    return Diagnosis(
        facts=_facts(cases, outcomes),
        verdict=outcome.decide_verdict(outcomes, [case.history.state for case in cases]),
        answer=causes[0].title,
        cannot_tell=symptoms.find_what_is_missing(causes[0], cases, results),
        causes=tuple(causes),
        findings=tuple(findings),
        ruled_out=tuple(exclusions.ruled_out(cases, {finding.rule for finding in findings}, {cause.id for cause in causes})),
        unassessable=tuple(_unassessable(results, cases)),
        checks=_checks(results, cases),
        remedies=_remedies(likely),
        watch=_watch(causes, cases),
        curve=_curve(cases),
    )


def examine(each: Rule, cases: Sequence[Case]) -> RuleResult:
    """Put one rule to every run of a group (or to the group as a whole)."""
    # An invariant that broke is not: rewards that pay where they should cost pass every threshold.
    refutable = bool(each.causes) and SAME_FOR_ALL.issuperset(each.causes) and not each.certain
    if refutable and any(case.solved_at is not None and not case.sick for case in cases):
        return RuleResult(each, [], len(cases), [])
    if each.scope == "group":
        findings = [_complete(each, finding, finding.run) for finding in each.check(cases)]
        return RuleResult(each, findings, len(cases), [])
    # What ended a run before its first step is all that can be wrong with it: no setting had a chance to show.
    applicable = [case for case in cases if each.applies(case) and (each.id in ENDINGS or not case.never_ran)]
    # By place: logs of others may bear the same name.
    lacking = [each.missing(case) for case in applicable]
    judged = [case for case, names in zip(applicable, lacking, strict=True) if not names]
    findings, beyond = [], 0
    for case in judged:
        try:
            findings += [_complete(each, finding, case.id) for finding in each.check(case)]
        except ArithmeticError:
            # A log may hold 1e308 or nothing but zeros: what cannot be computed is not assessable.
            beyond += 1
    lacking += [["numbers of a usual size"]] * (beyond == len(judged) > 0)
    missing = sorted({name for names in lacking for name in names}) if applicable and beyond == len(judged) else []
    return RuleResult(each, findings, len(judged) - beyond, missing)


def _complete(each: Rule, finding: Finding, run: str) -> Finding:
    weight = each.severity if finding.strength >= 0.5 else lower(each.severity)
    return finding.model_copy(update={"rule": each.id, "name": each.name, "run": run, "severity": weight})


def lower(severity: Severity) -> Severity:
    """One level less."""
    return (Severity.LOW, Severity.LOW, Severity.MEDIUM)[severity.rank]


def _findings(results: Sequence[RuleResult], cases: Sequence[Case]) -> list[GroupFinding]:
    merged = [_merged(result, cases) for result in results if result.findings]
    return sorted(merged, key=lambda finding: (-finding.severity.rank, -finding.strength, finding.rule))


def _merged(result: RuleResult, cases: Sequence[Case]) -> GroupFinding:
    """One finding for the group: how many runs share it, and how much it matters for a group that does as well as this one."""
    strongest = result.strongest
    best = max(strongest.values(), key=lambda finding: (finding.strength, finding.run))
    sick = {case.id for case in cases if case.sick}
    # Runs that do well are no evidence about what ails the others.
    asked = sick or {case.id for case in cases}
    whole = result.rule.scope == "group"
    strength = best.strength if whole else sum(f.strength for run, f in strongest.items() if run in asked) / max(len(asked), 1)
    onsets = [finding.onset for finding in strongest.values() if finding.onset is not None]
    severity = _capped(result.rule, best.severity, strength, len(sick) / len(cases), unjudged=_unjudged(cases))
    if _rests_on_settings(best.evidence) and _still_learn(cases):
        severity = min(severity, Severity.MEDIUM, key=lambda one: one.rank)
    return GroupFinding(
        rule=best.rule,
        name=best.name,
        severity=severity,
        strength=round(strength, 4),
        runs=tuple(case.id for case in cases if whole or case.id in strongest),
        judged=result.judged,
        text=best.text,
        evidence=best.evidence,
        onset=statistics.median(onsets) if onsets else None,
        remedies=best.remedies,
    )


def _rests_on_settings(evidence: Sequence[Evidence]) -> bool:
    """Whether nothing that was measured speaks for it."""
    return bool(evidence) and all(each.series.startswith("config:") for each in evidence)


def _still_learn(cases: Sequence[Case]) -> bool:
    """Whether most runs that are not there yet get better to the end: an unusual setting may slow them, and does not stop them."""
    sick = [case for case in cases if case.sick]
    return bool(sick) and 2 * sum(case.standing == "learning" for case in sick) > len(sick)


def _unjudged(cases: Sequence[Case]) -> bool:
    """Whether nobody knows if the runs got where they should: they rise, and there is no threshold."""
    return all(case.threshold is None and case.standing in ("learning", "plateau") for case in cases)


def _capped(each: Rule, severity: Severity, strength: float, sick: float, *, unjudged: bool) -> Severity:
    """No more than the group's own state allows: where runs do well, only an invariant that broke is more than a remark."""
    if sick == 0:
        most = Severity.MEDIUM if each.certain or (unjudged and strength >= SURE) else Severity.LOW
    elif sick < 0.5 or strength < 0.5:
        most = Severity.MEDIUM
    else:
        most = Severity.HIGH
    return min(severity, most, key=lambda one: one.rank)


# ── causes ──


def _causes(findings: Sequence[GroupFinding], results: Sequence[RuleResult], cases: Sequence[Case]) -> list[Cause]:
    by_run = {result.rule.id: result.strongest for result in results if result.findings and result.rule.scope == "run"}
    ranked = [timeline.tell(cause, table().get(cause.id), findings, by_run, cases) for cause in rank(findings, len(cases))]
    # A threshold that was passed by chance is not passed: with noise like that nothing is known to be well.
    by_chance = any(finding.rule == NOISY and finding.strength >= SURE for finding in findings)
    # While runs go on, what no check explains may simply need more time.
    waiting = ranked[0].id == UNKNOWN and all(case.unfinished for case in cases if case.sick)
    if by_chance and ranked[0].id == TOO_NOISY and not _troubled(cases) and not waiting:
        return _left_open(ranked[0], _calm(cases))
    if (_troubled(cases) or by_chance) and not waiting:
        return [_weighed(cause, findings, cases) for cause in ranked]
    # A run without a return is not known to be well, however the others do.
    silent = [case for case in cases if case.standing == "unknown"]
    # Nothing needs an explanation; what is wrong all the same is told after that, unless it is an invariant that broke.
    serious = [cause for cause in ranked if cause.severity.rank >= Severity.MEDIUM.rank and cause.probability >= 0.5]
    broken = [cause for cause in serious if cause.id != UNKNOWN and _certain(cause, findings)]
    if not broken and _unjudged(cases) and serious and serious[0].probability >= CLEAR:
        return _doubted(serious[0], _calm(cases))
    if 0 < len(silent) < len(cases) or _explains_loss(serious, findings, cases):
        return [*serious, _calm(cases)]
    return [*broken, _calm(cases), *(cause for cause in serious if cause not in broken)]


def _explains_loss(serious: Sequence[Cause], findings: Sequence[GroupFinding], cases: Sequence[Case]) -> bool:
    """Whether runs that lost what they had, and run no more, did so for one reason that was measured in all of them."""
    lost = {case.id for case in cases if case.sick}
    if not lost or any(case.unfinished for case in cases) or not serious:
        return False
    first = serious[0]
    speaking = [finding for finding in findings if finding.rule in first.rules and lost.issubset(finding.runs)]
    measured = any(not _rests_on_settings(finding.evidence) for finding in speaking)
    return measured and first.kind != "symptom" and first.probability >= CLEAR


def _left_open(noisy: Cause, calm: Cause) -> list[Cause]:
    """The threshold was passed, and evaluations are too noisy to be sure of it: most such runs do well all the same."""
    chance = round(BY_CHANCE * noisy.probability, 4)
    return [calm.model_copy(update={"probability": round(1 - chance, 4)}), noisy.model_copy(update={"probability": chance})]


def _doubted(cause: Cause, calm: Cause) -> list[Cause]:
    """Nobody knows whether a run without a threshold does well: what its settings all but prove is said first, at even odds."""
    chance = round(DOUBT * cause.probability, 4)
    return [cause.model_copy(update={"probability": chance}), calm.model_copy(update={"probability": round(1 - chance, 4)})]


def _certain(cause: Cause, findings: Sequence[GroupFinding]) -> bool:
    """Whether it rests on an invariant that cannot break in a sound run, however well that run does."""
    clear = {finding.rule for finding in findings if finding.strength >= 0.5}
    return any(id in clear and registry.find(id).certain for id in cause.rules)


def _weighed(cause: Cause, findings: Sequence[GroupFinding], cases: Sequence[Case]) -> Cause:
    """What most likely keeps most runs of a group from learning is serious, however mild each finding is by itself."""
    speaking = [finding for finding in findings if finding.rule in cause.rules]
    if speaking and all(_rests_on_settings(finding.evidence) for finding in speaking) and _still_learn(cases):
        return cause
    # That too few episodes were evaluated keeps no run from learning.
    decisive = (
        cause.id != TOO_NOISY
        and cause.probability >= SURE
        and 2 * sum(case.sick for case in cases) >= len(cases)
        and 2 * cause.agree >= len(cases)
    )
    return cause.model_copy(update={"severity": Severity.HIGH}) if decisive and cause.id != UNKNOWN else cause


def _troubled(cases: Sequence[Case]) -> bool:
    """Whether the group needs an explanation: a run that never got there, or half of them lost what they had."""
    sick = [case for case in cases if case.sick]
    return any(case.solved_at is None for case in sick) or 2 * len(sick) >= len(cases)


def _calm(cases: Sequence[Case]) -> Cause:
    """The answer where nothing needs an explanation."""
    states = Counter(case.standing for case in cases)
    silent = any(case.standing == "unknown" and case.history.state in outcome.LIVE for case in cases)
    title = None
    if states["unknown"] == len(cases):
        id, stopped = NO_RETURN, next(filter(None, (case.history.stopped_because for case in cases)), None)
        title = None if stopped is None else f"no return was logged before it stopped: {stopped}"
    elif any(case.on_course for case in cases):
        id, title = TOO_EARLY, "on its way: at the present rate it gets there within its budget"
    elif states["early"] or silent or any(case.sick and case.unfinished for case in cases):
        id = TOO_EARLY
    elif lost := sum(case.sick for case in cases):
        id, title = TOO_EARLY, f"{lost} of {len(cases)} seeds lost what they had, and more seeds would tell whether that is chance"
    elif states["unknown"]:
        id, title = NO_RETURN, f"{states['unknown']} of {len(cases)} runs logged no return: nothing can be said about them"
    elif cases[0].threshold is None and all(case.solved_at is None for case in cases):
        id = NO_REFERENCE
    elif any(case.lost for case in cases):
        id, title = HEALTHY, "it got there and ended below, by no more than its evaluations scatter; nothing else is wrong"
    else:
        id = HEALTHY
    title = title or known()[id].title
    if id == TOO_EARLY and states["solved"]:
        title = f"{states['solved']} of {len(cases)} runs got there; the others: {title}"
    return Cause(id=id, title=title, probability=1.0, severity=Severity.LOW, rules=(), agree=len(cases), of=len(cases))


def _remedies(likely: Sequence[Cause]) -> tuple[Remedy, ...]:
    kept: dict[str, Remedy] = {}
    for cause in likely:
        for remedy in cause.remedies:
            kept.setdefault(remedy.setting or remedy.text, remedy)
    return tuple(kept.values())[:3]


def _watch(causes: Sequence[Cause], cases: Sequence[Case]) -> tuple[Watch, ...]:
    """What should look otherwise next time, of what is logged at all: a learner with a replay has no KL."""
    rows = table()
    wanted = [Watch(**dict(entry)) for cause in causes[:2] if cause.id in rows for entry in rows[cause.id].watch]
    return tuple({entry.series: entry for entry in wanted if any(case.has(entry.series) for case in cases)}.values())


# ── what was not judged ──


def _unassessable(results: Sequence[RuleResult], cases: Sequence[Case]) -> list[Unassessable]:
    # Our own runs log everything that applies to them: what is missing there does not.
    if all(case.ours for case in cases):
        return []
    return [
        Unassessable(
            rule=result.rule.id,
            name=result.rule.name,
            missing=tuple(result.missing),
            paste=logging_snippets.lines_for(result.missing, [case.history for case in cases]),
        )
        for result in results
        if result.missing
    ]


def _checks(results: Sequence[RuleResult], cases: Sequence[Case]) -> Checks:
    failed = sum(bool(result.findings) for result in results)
    blind = 0 if all(case.ours for case in cases) else sum(bool(result.missing) for result in results)
    idle = sum(result.judged == 0 for result in results) - blind
    passed = len(results) - failed - blind - idle
    return Checks(total=len(results), failed=failed, passed=passed, not_assessable=blind, not_applicable=idle)


# ── the header ──


def _facts(cases: Sequence[Case], outcomes: Sequence[outcome.Outcome]) -> Facts:
    first = cases[0].history
    lasts = [each.last for each in outcomes if each.last is not None]
    last = stats.estimate(lasts) if lasts else None
    tops = [(each.best, each.best_at) for each in outcomes if each.best is not None and each.best_at is not None]
    best, best_at = max(tops, key=lambda top: (top[0], -top[1])) if tops else (None, None)
    counts = any(each.counts and (each.threshold is not None or each.required_success is not None) for each in outcomes)
    states = Counter(case.history.state for case in cases)
    return Facts(
        id=first.id,
        algo=first.algo,
        env=first.env_id,
        source=first.source,
        runs=len(cases),
        env_steps=float(np.mean([case.trained for case in cases])),
        max_env_steps=first.max_env_steps,
        state=", ".join(state if count == len(cases) else f"{count} {state}" for state, count in sorted(states.items())),
        threshold=first.threshold,
        reached=sum(each.reached_at is not None for each in outcomes) if counts else None,
        lost=sum(each.lost for each in outcomes) if counts else None,
        required_success=next((each.required_success for each in outcomes if each.required_success is not None), None),
        success=outcome.pool_success(outcomes),
        last=None if last is None else last.value,
        low=None if last is None else last.low,
        high=None if last is None else last.high,
        best=best,
        best_at=best_at,
        notes=tuple(dict.fromkeys([*(note for case in cases for note in case.history.notes), *symptoms.describe_algorithm(cases)])),
    )


def _curve(cases: Sequence[Case]) -> Curve:
    """The interquartile mean over runs, and their range, on a common grid."""
    drawn = [detect.thin(case.returns, CURVE_POINTS) for case in cases if len(case.returns)]
    if not drawn:
        return Curve(label="return", steps=(), values=(), low=(), high=())
    start, end = max(float(each.steps[0]) for each in drawn), max(float(each.steps[-1]) for each in drawn)
    grid = np.linspace(start, end, CURVE_POINTS) if end > start else np.array([start])
    values = np.stack([np.interp(grid, each.steps, each.values) for each in drawn])
    label = "evaluation return" if drawn[0].name.startswith("val/") else "training return"
    columns = (grid, stats.iqm(values, axis=0), values.min(0), values.max(0))
    steps, middle, low, high = (tuple(float(f"{value:.6g}") for value in column) for column in columns)
    return Curve(label=label, steps=steps, values=middle, low=low, high=high)
