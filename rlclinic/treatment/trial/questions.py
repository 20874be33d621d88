"""The questions that a trial asks: known before it starts, charged where it is a repeat, and written down when it begins."""

import time
from typing import Final

from rlclinic.runs import questions
from rlclinic.runs.questions import Attempt, History, Question
from rlclinic.runs.store import Store
from rlclinic.treatment.trial.arms import differences
from rlclinic.treatment.trial.models import TrialPlan

ASKED_BEFORE: Final = "asked_before"
SEPARATOR: Final = ", "
"""Between the environments of one question."""
INDEPENDENT: Final = "independent"
"""Where a plan's context says how often its question was asked before, and that it stands for itself."""


def of_plan(plan: TrialPlan) -> list[Question]:
    """What a trial asks: one question for each arm."""
    if plan.environments:
        return _over_environments(plan)
    asked, config = [], plan.control.config
    for arm in plan.treatments:
        title = f"{arm.title if arm.changes else 'the same config'}: {plan.outcome}"
        if config is not None and arm.config is not None:
            asked.append(questions.identify(plan.env_id, config, differences(config, arm.config), plan.outcome, title))
        else:
            control = plan.control.command or "?"
            asked.append(questions.identify(plan.env_id, control, (arm.command or "", *arm.changes), plan.outcome, title))
    return asked


def _over_environments(plan: TrialPlan) -> list[Question]:
    """The same change over another set of environments is another question; the order in which they are named does not matter."""
    parts = sorted(plan.parts, key=lambda part: part.env_id)
    control = "\n".join(
        f"{part.env_id} {questions.digest_config(part.control.config)}" for part in parts if part.control.config is not None
    )
    asked = []
    for place, arm in enumerate(plan.treatments):
        by_environment = {}
        for part in parts:
            before, after = part.control.config, part.treatments[place].config
            by_environment[part.env_id] = differences(before, after) if before is not None and after is not None else ()
        alike = len(set(by_environment.values())) == 1
        changes = [change if alike else f"{env_id} {change}" for env_id, own in by_environment.items() for change in own]
        title = f"{(arm.title if alike else arm.name) if arm.changes else 'the same config'}: {plan.outcome}"
        env_id = SEPARATOR.join(part.env_id for part in parts)
        asked.append(questions.identify(env_id, control, list(dict.fromkeys(changes)), plan.outcome, title))
    return asked


def charge(store: Store, plan: TrialPlan, *, independent: bool = False) -> TrialPlan:
    """The plan with the error that is left for its question; as it is where it is asked for the first time, or stands for itself.

    A trial that is repeated with the seeds of an earlier one asks nothing new.
    """
    known = [history for question in of_plan(plan) if (history := questions.look_up(store, question)) is not None]
    if not known or any(plan.seed0 is not None and question.seed0 == plan.seed0 for history in known for question in history.asked):
        return plan
    most = max(known, key=lambda history: len(history.asked))
    alpha = plan.alpha if independent else questions.next_alpha(plan.alpha, len(most.asked))
    context = {**plan.context, ASKED_BEFORE: len(most.asked), **({INDEPENDENT: True} if independent else {})}
    note = describe(most, alpha, plan.alpha, independent=independent)
    return plan.model_copy(update={"alpha": alpha, "context": context, "notes": (*plan.notes, note)})


def describe(history: History, alpha: float, wanted: float, *, independent: bool) -> str:
    """How often a question was asked, what that may have led to, and what this time may err by."""
    times = len(history.asked) + 1
    chance = questions.chance_of_any([*(question.alpha for question in history.asked), alpha])
    named = ", ".join(f"{question.kind} {question.refers}" for question in history.asked[-3:])
    said = f"asked {times} times with this one (before: {named}): "
    said += f"the chance of at least one false verdict among them is up to {100 * chance:.2g} %"
    if independent:
        return f"{said}; this one stands for itself, as an independent one, at alpha {alpha:.3g}"
    return f"{said}; this one is charged: alpha {alpha:.2g} instead of {wanted:.2g}. To add seeds to an undecided trial, extend it instead"


def register_plan(store: Store, plan: TrialPlan, tid: str, seed0: int) -> None:
    """Write down what a trial asks, when it begins."""
    kind: questions.Kind = "optimize" if "optimize" in plan.context else "trial"
    independent = plan.context.get(INDEPENDENT) is True
    for question in of_plan(plan):
        asked = Attempt(kind, tid, time.time(), plan.alpha, independent=independent, seed0=seed0)
        questions.register(store, question, asked)
