"""Questions to a person: the training process lays one in the run's folder and waits, a command or a page answers it.

    labels/question.json    {"id": "3-17-0-0", "observation": [...], "round": 3, "step": 17, "env": 0, "asked": unix seconds}
    labels/answer.json      {"id": "3-17-0-0", "action": [0.5]}

An answer counts for the question of its id alone, so that one that comes late is for nobody. The process may be killed and resumed
meanwhile: the same question is asked again, and nothing that was answered before is; an answer that it got while nobody waited counts.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rlclinic.errors import NotFound, RunError
from rlclinic.runs import disk

QUESTION: Final = "question.json"
ANSWER: Final = "answer.json"
FOLDER: Final = "labels"
LOOK_SECONDS: Final = 0.05


class Interrupted(RunError):
    """Somebody asked the run to stop while it waited for an answer."""


def wait(run: Path, place: Sequence[int], observation: Any, stops: Callable[[], bool], **about: Any) -> Any:
    """Ask, and wait for the answer; Interrupted when the run is asked to stop meanwhile."""
    number = "-".join(map(str, place))
    where = dict(zip(("round", "step", "env"), place, strict=False))
    question = {"id": number, "observation": observation, **where, "asked": time.time(), **about}
    (run / FOLDER).mkdir(exist_ok=True)
    before = disk.read_json(run / FOLDER / QUESTION)
    if before is None or (before.get("id"), before.get("observation")) != (number, observation):
        (run / FOLDER / ANSWER).unlink(missing_ok=True)  # it is for another question
    disk.write_json(run / FOLDER / QUESTION, question)
    while True:
        said = disk.read_json(run / FOLDER / ANSWER)
        if said is not None and said.get("id") == number:
            for name in (QUESTION, ANSWER):
                (run / FOLDER / name).unlink(missing_ok=True)
            return said.get("action")
        if stops():
            raise Interrupted("stopped while it waited for a person's answer: what was answered is kept, and a resume goes on from there")
        time.sleep(LOOK_SECONDS)


def read_question(run: Path) -> dict[str, Any] | None:
    """What is asked now; None where nothing is, or it has been answered."""
    question, answer = disk.read_json(run / FOLDER / QUESTION), disk.read_json(run / FOLDER / ANSWER)
    return None if question is None or (answer is not None and answer.get("id") == question.get("id")) else question


def answer(run: Path, number: str, action: Any) -> None:
    """Answer a question; NotFound where it is not asked any more."""
    question = read_question(run)
    if question is None or question.get("id") != number:
        raise NotFound(f"question {number[:40]!r} is not asked in {run.name} now.\n  Answers are for the question that is waiting alone")
    disk.write_json(run / FOLDER / ANSWER, {"id": number, "action": action})
