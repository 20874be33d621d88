"""The answer to a question in words: its model, and its document."""

from typing import Literal

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.report.document import Block, Commands, Gap, Rows, Text
from rlclinic.report.models import Result, ResultPart


class Nearby(ResultPart):
    """Something else that may have been meant."""

    title: str
    command: Action


class AskAnswer(Result):
    """What a question means here, and what answers it."""

    question: str
    known: bool
    """Whether anything here answers it."""
    kind: Literal["guide", "command", "rule", "metric", "setting"] | None = None
    name: str | None = None
    title: str = ""
    answer: str = ""
    about: str | None = None
    """The group or run that numbers and commands are about."""
    facts: list[str] = Field(default_factory=list)
    """What the store says, in numbers."""
    steps: list[str] = Field(default_factory=list)
    commands: list[Action] = Field(default_factory=list)
    """With the last group, or the one that the question names, filled in."""
    calls: list[str] = Field(default_factory=list)
    """The same for an agent."""
    cannot: list[str] = Field(default_factory=list)
    nearby: list[Nearby] = Field(default_factory=list)


def describe(answer: AskAnswer, *, for_agent: bool = False) -> list[Block]:
    """The answer as a document; the numbers first."""
    nearby = Rows([(str(each.command), each.title) for each in answer.nearby], 34)
    if not answer.known:
        said = "I do not know: nothing here answers that. Other words may help; questions are understood in English."
        return [Text(said), Gap(), Text("What can be asked, for example:"), nearby]
    commands = list(answer.calls) if for_agent and answer.calls else list(answer.commands)
    steps = Rows([(f"{place}.", step) for place, step in enumerate(answer.steps, 1)], 3, 2)
    facts = Rows([("·", fact) for fact in answer.facts], 3)
    blocks: list[Block] = [Text(f"understood as: {answer.title}"), Gap()] if answer.kind == "guide" else []
    blocks += [facts, Gap()] if answer.facts else []
    blocks += [Text(answer.answer), steps, Gap(), Commands([("type", Action.quoted(str(text))) for text in commands])]
    blocks += [Rows([("NOT ASSESSABLE", text) for text in answer.cannot])] if answer.cannot else []
    return [*blocks, Gap(), Text("or did you mean"), nearby] if answer.nearby and not for_agent else blocks
