"""Questions that a run in training puts to a person, and answers to them."""

from pathlib import Path
from typing import Any

import numpy as np

from rlclinic.actions import Action
from rlclinic.errors import UsageError
from rlclinic.ops.status.requests import LabelRequest
from rlclinic.report.models import LabelQuestion
from rlclinic.runs import labelling
from rlclinic.runs.record import Run
from rlclinic.runs.store import Store


def get_question(target: str, runs_dir: Path = Path("runs")) -> LabelQuestion:
    """What a run, or the first run of a group that waits, asks now; without an id where nothing is asked."""
    runs = Store(runs_dir).select(target)
    asked = next(((run, question) for run in runs if (question := labelling.read_question(run.path)) is not None), None)
    training = any(run.status.state in ("running", "queued") for run in runs)
    if asked is None:
        return LabelQuestion(run=runs[0].id if runs else target, training=training)
    run, question = asked
    numbers = np.ravel(np.asarray(question.get("observation", ()), float)).tolist()
    about = {name: question.get(name) for name in ("round", "step", "env", "choices", "allowed", "low", "high")}
    return LabelQuestion(run=run.id, id=str(question.get("id")), observation=numbers, training=training, **about)


def answer_question(request: LabelRequest) -> LabelQuestion:
    """Answer what a run asks, and say what it asks next, if it does so at once. UsageError for what is no action of its environment."""
    store = Store(request.runs_dir)
    question = get_question(request.target, request.runs_dir)
    if question.id is None or request.id not in (None, question.id):
        raise UsageError(
            f"{question.run} asks nothing now" if question.id is None else f"{question.run} asks {question.id} now, and not {request.id}",
            ".\n  An answer is for the question that waits.\n  Look at it: ",
            Action("label", question.run),
        )
    run: Run = store.run(question.run)
    labelling.answer(run.path, question.id, read_answer(question, request.action))
    return get_question(request.target, request.runs_dir)


def read_answer(question: LabelQuestion, action: list[float]) -> Any:
    """The action as the environment takes it."""
    if question.choices is not None:
        if len(action) != 1 or not action[0].is_integer() or not 0 <= action[0] < question.choices:
            raise UsageError(f"{action} is none of the choices 0 to {question.choices - 1}")
        if question.allowed is not None and action[0] not in question.allowed:
            raise UsageError(f"{int(action[0])} is forbidden here: {question.allowed} are allowed")
        return int(action[0])
    low, high = question.low or [], question.high or []
    if len(action) != len(low) or not all(np.isfinite(action)):
        raise UsageError(f"{action} is no action: {len(low)} numbers are needed, from {low} to {high}")
    return np.clip(action, low, high).tolist()
