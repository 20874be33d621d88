"""Prescriptions for a diagnosis that was already made."""

from collections.abc import Sequence

from rlclinic.config import Config
from rlclinic.diagnosis.findings import Diagnosis
from rlclinic.errors import RlclinicError
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment import effects
from rlclinic.treatment.effects import Effects
from rlclinic.treatment.prescribe import prescribe
from rlclinic.treatment.prescription import Prescription


def for_diagnosis(found: Diagnosis, histories: Sequence[History], owner: Run | Group | None) -> list[Prescription]:
    """The prescriptions of a diagnosis that was already made."""
    return prescribe(found, histories, config_of(owner), effects_of(owner))


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
    return effects.load(Store(root) if root is not None else None)
