"""What to change, for reports: the prescriptions of a diagnosis, or its remedies where no prescription can be made."""

from collections.abc import Sequence

from rlclinic.diagnosis.findings import Diagnosis, Remedy
from rlclinic.ops import prescribing
from rlclinic.ops.diagnosed import Recommendation
from rlclinic.ops.sections import plain
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.treatment.prescription import Prescription


def recommended(found: Diagnosis, histories: Sequence[History], owner: Run | Group | None) -> list[Recommendation]:
    """At most three changes, the most promising first."""
    given = prescribing.for_diagnosis(found, histories, owner)
    if given:
        return [_of_prescription(rx) for rx in given]
    return [_of_remedy(place, remedy, found) for place, remedy in enumerate(found.remedies, 1)]


def _of_prescription(rx: Prescription) -> Recommendation:
    return Recommendation(
        number=rx.number,
        priority=rx.priority,
        change=rx.title,
        overrides=rx.overrides,
        rationale=rx.rationale,
        expected=f"{rx.effect}: {rx.expected.text} (80 %)" if rx.expected is not None else rx.effect,
        risk=rx.risk,
        prescribed=True,
        foreign=rx.foreign,
    )


def _of_remedy(place: int, remedy: Remedy, found: Diagnosis) -> Recommendation:
    priorities = ("critical", "high", "medium") if found.causes[0].severity.rank == 2 else ("high", "medium", "low")
    told = remedy.text if remedy.setting is None else f"{remedy.setting} {plain(remedy.current)} → {plain(remedy.value)}"
    return Recommendation(
        number=place,
        priority=priorities[min(place - 1, 2)],
        change=told,
        overrides=[remedy.override] if remedy.override else [],
        rationale=remedy.text if remedy.setting else "",
        expected="no data" if remedy.effect == "unknown" else f"{remedy.effect} fewer steps or more return (an estimate, no trial)",
        risk=remedy.risk,
    )
