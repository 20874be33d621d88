"""Questions that people bring and what answers them here: the models, and each as a document."""

from pydantic import Field

from rlclinic.actions import Action
from rlclinic.report.document import Block, Commands, Gap, Rows, Text
from rlclinic.report.models import Result, ResultPart


class PageLink(ResultPart):
    """Where on the dashboard."""

    href: str
    text: str


class Guide(ResultPart):
    """One question and its answer."""

    name: str
    question: str
    answer: str
    steps: list[str] = Field(default_factory=list)
    """What to do, in order, where a command alone does not answer it."""
    type: list[str]
    """Commands."""
    call: list[str]
    """The same for an agent."""
    page: PageLink
    cannot: list[str] = Field(default_factory=list)
    """What cannot be assessed here, and why."""
    cites: list[str] = Field(default_factory=list)
    """Keys of the bibliography."""


class GuideList(Result):
    """Every question."""

    guides: list[Guide]


class GuidePage(Result):
    """One question, with its sources written out."""

    guide: Guide
    references: list[str]


def describe_list(result: GuideList) -> list[Block]:
    """Every question with its number and its name, then what to type."""
    rows = [(f"{place:>2}  {guide.name}", guide.question) for place, guide in enumerate(result.guides, 1)]
    return [Rows(rows, 23), Gap(), Commands([("answer", Action("guide", result.guides[0].name))])]


def describe(page: GuidePage, *, for_agent: bool = False) -> list[Block]:
    """One question: the answer, the steps, what to type (or to call), what cannot be told, where it is known from."""
    guide = page.guide
    steps = Rows([(f"{place}.", step) for place, step in enumerate(guide.steps, 1)], 3, 2)
    commands = Commands([("type", Action.quoted(text)) for text in (guide.call if for_agent else guide.type)])
    end = [("page", guide.page.text), *(("NOT ASSESSABLE", text) for text in guide.cannot), *(("source", text) for text in page.references)]
    return [Text(guide.question), Gap(), Text(guide.answer), steps, Gap(), commands, Rows(end)]
