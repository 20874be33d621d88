"""A diagnosis for a language model: the answer in few lines, what to call next, and the same as JSON."""

from typing import TYPE_CHECKING, Any

from rlclinic.actions import Action
from rlclinic.report.diagnosis import answer, key_metrics, pasted
from rlclinic.report.document import render_compact
from rlclinic.report.evidence import first_cause, needs_no_change
from rlclinic.serve.mcp.replies import in_call, say_action

if TYPE_CHECKING:
    from rlclinic.diagnosis.findings import PossibleCause
    from rlclinic.report.models import DiagnosisReport

MOST_NEEDS = 24


def concise(result: "DiagnosisReport") -> str:
    """The answer in about a dozen lines; a few where nothing is wrong."""
    return "\n".join([render_compact(answer(result, "brief")), *_next(result)])


def detailed(result: "DiagnosisReport") -> str:
    """All of it: every cause with its story, key metrics, findings, what to watch, what to log."""
    return "\n".join([render_compact([*answer(_in_calls(result)), *key_metrics(result)], 220), *_next(result)])


def _in_calls(result: "DiagnosisReport") -> "DiagnosisReport":
    """The same with commands as an agent says them; without those that only people can type."""

    def say(find: Action | None) -> dict[str, Action | None]:
        call = None if find is None else say_action(find)
        return {"find": None if call is None else Action.quoted(call)}

    diagnosis = result.diagnosis
    causes = [
        cause.model_copy(update={"possible": tuple(each.model_copy(update=say(each.find)) for each in cause.possible)})
        for cause in diagnosis.causes
    ]
    doubt = diagnosis.cannot_tell
    doubt = doubt if doubt is None else doubt.model_copy(update=say(doubt.find))
    return result.model_copy(update={"diagnosis": diagnosis.model_copy(update={"causes": tuple(causes), "cannot_tell": doubt})})


def _next(result: "DiagnosisReport") -> list[str]:
    """The calls that help most, with their arguments."""
    diagnosis, name = result.diagnosis, in_call(result.group or result.target)
    calls = []
    first = next((rx for rx in result.recommendations if rx.prescribed and rx.overrides), None)
    if "running" in diagnosis.facts.state:
        calls.append(f"get_training_status(run_id={name})")
    if first is not None and not needs_no_change(diagnosis):
        calls.append(f"start_trial(run_id={name}, rx=[{first.number}])")
    cause = first_cause(diagnosis)
    if cause is not None:
        calls.append(f'explain_rule(rule="{cause.rules[0]}")')
        calls.append(f'diagnose_run(run_id={name}, detail="detailed")')
    return [f"next: {' | '.join(calls)}"] if calls else []


def _possible(cause: "PossibleCause") -> dict[str, Any]:
    """What may lie behind a symptom, with the call that finds out."""
    call = None if cause.find is None else say_action(cause.find)
    return {"id": cause.id, "title": cause.title, "probability": round(cause.probability, 3), "tells": cause.tells, "find": call}


def data(result: "DiagnosisReport", full: bool) -> dict[str, Any]:
    """The same as JSON; with `full`, evidence and key metrics as well."""
    diagnosis = result.diagnosis
    facts = diagnosis.facts.model_dump(mode="json", exclude={"notes"})
    causes = [
        {"id": cause.id, "title": cause.title, "probability": round(cause.probability, 3), "severity": cause.severity.value}
        | {"rules": list(cause.rules), "agree": cause.agree, "of": cause.of, "consequence_of": cause.consequence_of, "kind": cause.kind}
        | ({"possible": [_possible(each) for each in cause.possible]} if cause.possible else {})
        for cause in diagnosis.causes
        if cause.probability >= 0.01 or full
    ]
    content: dict[str, Any] = {
        "run_id": result.group or diagnosis.facts.id,
        "verdict": diagnosis.verdict,
        "answer": diagnosis.answer,
        "facts": facts,
        "causes": causes,
        "recommendations": [
            {
                "rx": rx.number,
                "priority": rx.priority,
                "change": rx.change,
                "overrides": rx.overrides,
                "expected": rx.expected,
            }
            | {"risk": rx.risk, "trialable": rx.prescribed and bool(rx.overrides)}
            for rx in result.recommendations
        ],
        "checks": diagnosis.checks.model_dump(),
        "not_assessable": {
            "count": len(diagnosis.unassessable),
            "needs": sorted({name for each in diagnosis.unassessable for name in each.missing})[: None if full else MOST_NEEDS],
        },
    }
    if diagnosis.cannot_tell is not None:
        doubt = diagnosis.cannot_tell
        content["cannot_tell"] = {"text": doubt.text, "lacks": list(doubt.lacks), "paste": list(doubt.paste)}
    if full:
        content["not_assessable"]["rules"] = [each.rule for each in diagnosis.unassessable]
        content["findings"] = [finding.model_dump(mode="json", exclude={"remedies"}) for finding in diagnosis.findings]
        content["key_metrics"] = [row.model_dump(mode="json") for row in result.metrics]
        content["suspects"] = [suspect.model_dump(mode="json") for suspect in result.suspects]
        content["watch"] = [each.model_dump(mode="json") for each in diagnosis.watch]
        content["paste"] = pasted(diagnosis)
    return content
