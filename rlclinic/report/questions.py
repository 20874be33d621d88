"""Questions of a store, as data and as a document: what was asked, how often, what came of it, and the error that is spent."""

import time

from rlclinic.report.document import Block, Table, Text
from rlclinic.report.format import ago, clip
from rlclinic.report.models import Result, ResultPart


class AskedRow(ResultPart):
    """One time that a question was asked."""

    kind: str
    """trial, optimize (its confirmation), sensitivity or regress."""
    refers: str
    """Id of the trial or study; of a regression, the candidate."""
    when: float
    """Unix seconds."""
    verdict: str | None
    """None while it runs, and where it is not stored any more."""
    alpha: float
    """The error that it was allowed."""
    independent: bool
    """It stands for itself: nothing was charged."""


class QuestionRow(ResultPart):
    """A question, and every time that it was asked."""

    id: str
    env_id: str
    title: str
    changes: list[str]
    """Against the control."""
    outcome: str
    control: str
    """A digest of the control's config, without seed, name and machine."""
    times: int
    spent_alpha: float
    """The chance of at least one false verdict among all times."""
    next_alpha: float
    """What a trial at 5 % would be allowed if it asked this again."""
    asked: list[AskedRow]


class QuestionList(Result):
    """Questions of a store, the one that was asked last first."""

    questions: list[QuestionRow]


def describe(found: QuestionList) -> list[Block]:
    """A row for each question, the one that was asked last first."""
    if not found.questions:
        return [Text("no questions yet: every trial, search, sensitivity study and regression writes down what it asks")]
    rows = []
    for row in found.questions:
        times = ", ".join(f"{question.refers} {question.verdict or '…'}" for question in row.asked[-4:])
        spent, following = f"{100 * row.spent_alpha:.2g} %", f"{100 * row.next_alpha:.2g} %"
        last = ago(time.time() - max(question.when for question in row.asked)) if row.asked else ""
        rows.append([row.env_id, clip(row.title, 60), str(row.times), spent, following, last, times])
    explained = "error: the chance of at least one false verdict among all times; next: what a trial at 5 % would be allowed now"
    return [Table(["environment", "question", ">asked", ">error", ">next", "last", "verdicts"], rows), Text(explained)]
