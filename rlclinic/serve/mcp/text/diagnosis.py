"""A diagnosis in few words: what is wrong, how sure that is, on what it rests, what to change, what to call next."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlclinic.report.diagnosis import pasted, plain
from rlclinic.report.evidence import CALM, first_cause
from rlclinic.report.format import count, interval, number, percent, plural, short
from rlclinic.serve.mcp.replies import clip

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import Cause, Diagnosis, Facts
    from rlclinic.report.models import DiagnosisReport, Recommendation

SHOWN = 0.05
"""Causes below this probability are left out of a concise answer."""
CLIPPED = 150
MOST_NEEDS = 24


def concise(result: "DiagnosisReport") -> str:
    """The answer in about a dozen lines; two where nothing is wrong."""
    found = result.diagnosis
    lines = [header(found.facts), verdict(found)]
    if found.causes[0].id in CALM and len(found.causes) == 1:
        return "\n".join([*lines, f"{found.answer.upper()}: nothing that needs a change was found", _checks(found), *_next(result)])
    told = [cause for cause in found.causes if cause.probability >= SHOWN or cause.rules][:3]
    for place, cause in enumerate(told, 1):
        lines += _cause(place, cause)
    if found.ruled_out:
        lines.append("ruled out: " + clip(", ".join(each.title for each in found.ruled_out), CLIPPED))
    lines.append(_checks(found))
    lines += [_rx(each) for each in result.recommendations[:3]]
    return "\n".join([*lines, *_next(result)])


def header(facts: "Facts") -> str:
    """g7k2 · PPO · CartPole-v1 · 8 seeds · 100,096/100,096 env steps · finished."""
    steps = f"{count(facts.env_steps)}/{count(facts.max_env_steps)}" if facts.max_env_steps else count(facts.env_steps)
    who = [facts.id, (facts.algo or "unknown algorithm").upper(), facts.env or "unknown environment", plural(facts.runs, "seed")]
    read = [] if facts.source == "rlclinic" else [f"read as {facts.source}"]
    return " · ".join([*who, f"{steps} env steps", clip(facts.state, 60), *read])


def verdict(found: "Diagnosis") -> str:
    """NOT SOLVED 1/8 reached 475 · return 212 [164, 268] (IQM, 95 %) · gap 263 (55 %) · best 488 at 31k."""
    facts, said = found.facts, []
    if facts.threshold is not None:
        said.append(f"{facts.reached}/{facts.runs} reached {number(facts.threshold, 4)}")
    if facts.last is not None:
        spread = f" {interval(facts.low, facts.high)} (IQM, 95 %)" if facts.low is not None else ""
        said.append(f"return {number(facts.last)}{spread}")
        gap = None if facts.threshold is None else facts.threshold - facts.last
        if gap is not None and gap > 0 and facts.threshold:
            said.append(f"gap {number(gap)} ({percent(gap / abs(facts.threshold))})")
    if facts.best is not None:
        said.append(f"best {number(facts.best)} at {short(facts.best_at)}")
    return f"{found.verdict}  {' · '.join(said)}".rstrip()


def _cause(place: int, cause: "Cause") -> Iterator[str]:
    rule = f" [{cause.rules[0]}]" if cause.rules else ""
    agree = f" · {cause.agree}/{cause.of} seeds" if cause.of > 1 and cause.rules else ""
    after = f" · a consequence of {cause.consequence_of}" if cause.consequence_of else ""
    yield f"CAUSE {place}  p {cause.probability:.2f}  {cause.severity.value.upper()}  {cause.title}{rule}{agree}{after}"
    if place == 1:
        stories = (("first", cause.moved_first), ("with it", cause.with_it), ("because", cause.because))
        yield from (f"  {label}: {clip(text, CLIPPED)}" for label, text in stories if text)


def _checks(found: "Diagnosis") -> str:
    counts = found.checks
    said = f"checks {counts.total}: {counts.failed} fail, {counts.passed} pass, {counts.not_applicable} do not apply, "
    said += f"{counts.not_assessable} not assessable"
    if not found.unassessable:
        return said
    missing = sorted({name for each in found.unassessable for name in each.missing})
    names = ", ".join(each.rule for each in found.unassessable[:6])
    more = f" and {len(found.unassessable) - 6} more" if len(found.unassessable) > 6 else ""
    return f"{said} ({names}{more}: not logged: {clip(', '.join(missing), CLIPPED)})"


def _rx(each: "Recommendation") -> str:
    risk = f" · risk: {clip(each.risk, 60)}" if each.risk and each.overrides else ""
    expected = f" · expect {clip(each.expected, 90)}" if each.overrides else ""
    return f"RX {each.number} {each.priority}: {clip(each.change, 110)}{expected}{risk}"


def _next(result: "DiagnosisReport") -> list[str]:
    """The calls that help most, with their arguments."""
    found, name = result.diagnosis, result.group or result.target
    calls = []
    first = next((each for each in result.recommendations if each.prescribed and each.overrides), None)
    if "running" in found.facts.state:
        calls.append(f'get_training_status(run_id="{name}")')
    if first is not None and found.causes[0].id not in CALM:
        calls.append(f'start_trial(run_id="{name}", rx=[{first.number}])')
    cause = first_cause(found)
    if cause is not None:
        calls.append(f'explain_rule(rule="{cause.rules[0]}")')
        calls.append(f'diagnose_run(run_id="{name}", detail="detailed")')
    return [f"next: {' | '.join(calls)}"] if calls else []


def detailed(result: "DiagnosisReport") -> str:
    """All of it: findings with evidence, key metrics, suspected bugs, what to watch, what to log."""
    found = result.diagnosis
    lines = [concise(result), "", "FINDINGS"]
    for finding in found.findings:
        when = f" from {short(finding.onset)}" if finding.onset is not None else ""
        lines.append(f"{finding.rule} {finding.severity.value} {len(finding.runs)}/{finding.judged} runs{when}: {clip(finding.text, 220)}")
        lines += [f"  {each.series}{_span(each.start, each.end)}: {clip(each.text, 160)}" for each in finding.evidence[:3]]
    lines += ["", "KEY METRICS (medians of the first and last tenth over runs)"]
    for row in result.metrics:
        trend = row.trend or "too few points"
        lines.append(f"{row.name}: {number(row.start)} → {number(row.end)} ({trend}), range {number(row.low)} to {number(row.high)}")
    lines += [f"BUG? p {each.probability:.2f} {each.title}: {clip(each.fix, 200)}" for each in result.suspects]
    if found.ruled_out:
        lines += ["", "RULED OUT  " + "; ".join(f"{each.title} ({clip(each.because, 90)})" for each in found.ruled_out)]
    if found.watch:
        lines.append("WATCH NEXT TIME  " + " · ".join(each.text for each in found.watch))
    if result.comparable is not None:
        other = result.comparable
        shown = "; ".join(f"{each.setting} {plain(each.here)} here, {plain(each.there)} there" for each in other.differences[:4])
        lines.append(f"BEST HERE  {other.group}: {other.said} {shown}")
    lines += ["TO JUDGE THE REST, PASTE INTO THE SCRIPT", *pasted(found)[:8]] if found.unassessable else []
    return "\n".join(lines)


def _span(start: float | None, end: float | None) -> str:
    return "" if start is None else f" [{short(start)}..{short(end)}]"


def data(result: "DiagnosisReport", full: bool) -> dict[str, Any]:
    """The same as JSON; with `full`, evidence and key metrics as well."""
    found = result.diagnosis
    facts = found.facts.model_dump(mode="json", exclude={"notes"})
    causes = [
        {"id": each.id, "title": each.title, "probability": round(each.probability, 3), "severity": each.severity.value}
        | {"rules": list(each.rules), "agree": each.agree, "of": each.of, "consequence_of": each.consequence_of}
        for each in found.causes
        if each.probability >= 0.01 or full
    ]
    said: dict[str, Any] = {
        "run_id": result.group or found.facts.id,
        "verdict": found.verdict,
        "answer": found.answer,
        "facts": facts,
        "causes": causes,
        "recommendations": [
            {"rx": each.number, "priority": each.priority, "change": each.change, "overrides": each.overrides, "expected": each.expected}
            | {"risk": each.risk, "trialable": each.prescribed and bool(each.overrides)}
            for each in result.recommendations
        ],
        "checks": found.checks.model_dump(),
        "not_assessable": {
            "count": len(found.unassessable),
            "needs": sorted({name for each in found.unassessable for name in each.missing})[: None if full else MOST_NEEDS],
        },
    }
    if full:
        said["not_assessable"]["rules"] = [each.rule for each in found.unassessable]
        said["findings"] = [each.model_dump(mode="json", exclude={"remedies"}) for each in found.findings]
        said["key_metrics"] = [row.model_dump(mode="json") for row in result.metrics]
        said["suspects"] = [each.model_dump(mode="json") for each in result.suspects]
        said["watch"] = [each.model_dump(mode="json") for each in found.watch]
        said["paste"] = pasted(found)
    return said
