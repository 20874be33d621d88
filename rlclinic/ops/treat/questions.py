"""`questions`: what was asked of a store, how often, what came of it, and the error that is spent."""

from rlclinic.errors import NotFound, RunError, UsageError
from rlclinic.ops.treat.requests import QuestionsRequest
from rlclinic.report.questions import AskedRow, QuestionList, QuestionRow
from rlclinic.runs import questions, selector, studies, trials
from rlclinic.runs.questions import Attempt
from rlclinic.runs.store import Store
from rlclinic.treatment.trial.questions import SEPARATOR


def list_questions(request: QuestionsRequest) -> QuestionList:
    """Which questions were asked of this store, how often, with which verdicts, and how much error was spent on each."""
    store = Store(request.runs_dir)
    listed = []
    for history in questions.histories(store):
        if (request.env and request.env not in history.question.env_id.split(SEPARATOR)) or len(history.asked) < request.at_least:
            continue
        question = history.question
        listed.append(
            QuestionRow(
                id=history.id,
                env_id=question.env_id,
                title=question.title,
                changes=list(question.changes),
                outcome=question.outcome,
                control=question.control,
                times=len(history.asked),
                spent_alpha=history.spent,
                next_alpha=questions.next_alpha(0.05, len(history.asked)),
                asked=[_row(store, asked) for asked in history.asked],
            )
        )
    return QuestionList(questions=listed)


def _row(store: Store, asked: Attempt) -> AskedRow:
    verdict = asked.verdict or _find_verdict(store, asked)
    return AskedRow(
        kind=asked.kind, refers=asked.refers, when=asked.when, verdict=verdict, alpha=asked.alpha, independent=asked.independent
    )


def _find_verdict(store: Store, asked: Attempt) -> str | None:
    """What came of it, from what the trial or the study has stored."""
    if not selector.ID.fullmatch(asked.refers):
        return None  # not what we write: no path is made of it
    try:
        if asked.kind in ("trial", "optimize"):
            return trials.find(store, asked.refers).verdict
        if asked.kind == "race":
            record = studies.read(store, "race", asked.refers)
            named = f" ({record['winner']})" if record.get("winner") else ""
            return f"{record['verdict']}{named}" if record.get("verdict") else None
        if asked.kind == "sensitivity":
            record = studies.read(store, "sensitivity", asked.refers)
            rows = [row for row in record.get("rows") or () if isinstance(row, dict)]
            shown = sum(row.get("verdict") in ("better", "worse") for row in rows)
            return f"{shown} of {len(rows)} shown to matter" if record.get("state") == "finished" else None
    except (NotFound, RunError, UsageError):
        return None
    return None
