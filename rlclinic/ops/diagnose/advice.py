"""What to change: the prescriptions of a diagnosis, or its remedies where no prescription can be made."""

from collections.abc import Sequence

from rlclinic.config import Config
from rlclinic.diagnosis.case import case_of
from rlclinic.diagnosis.findings import Diagnosis, Remedy
from rlclinic.errors import RlclinicError
from rlclinic.report.models import Recommendation
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.prescription.prescribe import make_prescriptions
from rlclinic.treatment.prescription.prescription import Prescription, worded
from rlclinic.treatment.prescription.recorded_effects import Effects


def recommended(diagnosis: Diagnosis, histories: Sequence[History], owner: Run | Group | None) -> list[Recommendation]:
    """At most three changes, the most promising first."""
    given = for_diagnosis(diagnosis, histories, owner)
    if given:
        return [_of_prescription(rx) for rx in given]
    return [_of_remedy(place, remedy, diagnosis) for place, remedy in enumerate(diagnosis.remedies, 1)]


def _of_prescription(rx: Prescription) -> Recommendation:
    return Recommendation(
        number=rx.number,
        priority=rx.priority,
        change=rx.title,
        overrides=rx.overrides,
        rationale=rx.rationale,
        expected=f"{rx.effect}: {rx.expected.text}" if rx.expected is not None else rx.effect,
        risk=rx.risk,
        prescribed=True,
        foreign=rx.foreign,
        held_back=rx.held_back,
    )


def _of_remedy(place: int, remedy: Remedy, diagnosis: Diagnosis) -> Recommendation:
    priorities = ("critical", "high", "medium") if diagnosis.causes[0].severity.rank == 2 else ("high", "medium", "low")
    change = remedy.text if remedy.setting is None else f"{remedy.setting} {worded(remedy.current)} → {worded(remedy.value)}"
    return Recommendation(
        number=place,
        priority=priorities[min(place - 1, 2)],
        change=change,
        overrides=[remedy.override] if remedy.override else [],
        rationale=remedy.text if remedy.setting else "",
        expected="no data" if remedy.effect == "unknown" else f"{remedy.effect} fewer steps or more return (an estimate, no trial)",
        risk=remedy.risk,
    )


def for_diagnosis(diagnosis: Diagnosis, histories: Sequence[History], owner: Run | Group | None) -> list[Prescription]:
    """The prescriptions of a diagnosis that was already made; none for an algorithm whose settings mean nothing here."""
    if not all(case_of(history).knows_algorithm for history in histories):
        return []
    return make_prescriptions(diagnosis, histories, config_of(owner), effects_of(owner))


def config_of(owner: Run | Group | None) -> Config | None:
    """The config of our own run or group; None for those of others, and where it cannot be read any more."""
    if owner is None:
        return None
    try:
        return owner.config
    except RlclinicError:
        # Imported, or damaged: what its log says is used instead.
        return None


def effects_of(owner: Run | Group | None) -> Effects:
    """Recorded outcomes, with those of the store that the run lies in."""
    root = None if owner is None else owner.path.parent.parent if isinstance(owner, Group) else owner.path.parent
    return recorded_effects.load(Store(root) if root is not None else None)
