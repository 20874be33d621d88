"""What to change, exactly: the prescriptions of a diagnosed group, run or foreign folder."""

from collections.abc import Sequence
from pathlib import Path

from rlclinic.actions import Action, Argument
from rlclinic.config import Config
from rlclinic.diagnosis import engine
from rlclinic.diagnosis.causes import HEALTHY, NO_REFERENCE, NO_RETURN, TOO_EARLY, UNKNOWN
from rlclinic.diagnosis.findings import Cause, Diagnosis
from rlclinic.errors import NotFound, UsageError
from rlclinic.ops.diagnose import diagnose
from rlclinic.ops.diagnose.advice import config_of
from rlclinic.report import group
from rlclinic.report.prescription import Prescriptions, Written
from rlclinic.runs.history import History
from rlclinic.runs.record import Group, Run
from rlclinic.runs.store import Store
from rlclinic.treatment.prescription import recorded_effects
from rlclinic.treatment.prescription.prescribe import make_prescriptions, stand_in
from rlclinic.treatment.prescription.prescription import Prescription
from rlclinic.treatment.prescription.recorded_effects import Effects
from rlclinic.treatment.prescription.translate.frameworks import FRAMEWORKS, spell


def prescribe(
    target: str = "@last",
    runs_dir: Path = Path("runs"),
    *,
    threshold: float | None = None,
    budget: int | None = None,
    mapping: Sequence[str] = (),
    use_recorded: bool = True,
    framework: str | None = None,
) -> Prescriptions:
    """Prescribe for a group, a run, another framework's folder or file, or what comes in on stdin ("-").

    `use_recorded` false leaves out the outcomes that ship with the package; those of the store's own trials always count.
    `framework` adds that framework's spelling for a run of ours.
    """
    if framework is not None and framework not in FRAMEWORKS:
        raise UsageError(
            Argument("as", framework), f": no such framework.\n  There is nothing to translate to.\n  Try: {', '.join(FRAMEWORKS)}"
        )
    owner, groups = diagnose.read(target, runs_dir, threshold, budget, mapping)
    if not groups:
        raise NotFound(f"{target} holds no run to prescribe for.\n  See what there is: ", Action("runs list"))
    return _prescriptions(target, owner, groups[0], recorded_effects.load(Store(runs_dir), recorded=use_recorded), framework)


def prescribe_group(selector: str | Group = "@last", runs_dir: Path = Path("runs"), *, use_recorded: bool = True) -> Prescriptions:
    """The same for a group (or run) of ours, by selector or as an object: for scripts."""
    target = str(selector.path) if isinstance(selector, Group) else selector
    root = selector.path.parent.parent if isinstance(selector, Group) else runs_dir
    return prescribe(target, root, use_recorded=use_recorded)


def _prescriptions(
    target: str, owner: Run | Group | None, histories: Sequence[History], effects: Effects, framework: str | None
) -> Prescriptions:
    diagnosis = engine.diagnose(histories)
    config = config_of(owner)
    given = make_prescriptions(diagnosis, histories, config, effects)
    base = config or stand_in(histories)
    facts = diagnosis.facts.model_copy(update={"id": owner.id}) if isinstance(owner, Group) else diagnosis.facts
    wanted = [framework] if framework else [histories[0].source] if histories[0].source in FRAMEWORKS else []
    return Prescriptions(
        target=target,
        group=owner.id if isinstance(owner, Group) else None,
        facts=facts,
        verdict=diagnosis.verdict,
        answer=diagnosis.answer,
        probability=diagnosis.causes[0].probability,
        prescriptions=given,
        written=[_written(rx, base, wanted) for rx in given],
        trials=len({outcome.trial for outcome in effects.outcomes}),
        translated=config is None,
        why_none="" if given else _why_none(diagnosis.causes[0]),
        next=_next(owner, given, diagnosis),
    )


def _written(rx: Prescription, config: Config | None, frameworks: Sequence[str]) -> Written:
    spelled = {name: text for name in frameworks if rx.changes and (text := spell(rx.changes, name, config))}
    return Written(number=rx.number, yaml=rx.yaml, overrides=rx.overrides, foreign=spelled)


def _why_none(first: Cause) -> str:
    return {
        HEALTHY: "nothing needs a change, and nothing in its numbers says how to be faster",
        NO_REFERENCE: "it learns; without a threshold nothing says that it should learn more: give one",
        TOO_EARLY: "too little was trained to tell",
        NO_RETURN: "no return was logged: nothing can be said about learning",
    }.get(first.id, "no setting is known to help here")


def _next(owner: Run | Group | None, given: Sequence[Prescription], diagnosis: Diagnosis) -> list[Action]:
    """Commands that prove, use or search, the most useful first."""
    if owner is None or owner.record.get("source"):
        return []
    where = group.runs_dir_of(owner)
    first = next((rx for rx in given if rx.trialable), None)
    tried = []
    if first is not None:
        tried = [Action("trial", owner.id, rx=first.number, runs_dir=where), Action("train", owner.id, rx=first.number, runs_dir=where)]
    searched = [Action("optimize", owner.id, budget="3M", runs_dir=where)] if first is None or diagnosis.causes[0].id == UNKNOWN else []
    # What was stopped goes on first, where no setting is known to help.
    go_on = [Action("train", resume=owner.id, runs_dir=where)] if first is None and "stopped" in diagnosis.facts.state else []
    return [*go_on, *tried, *searched]
