"""`rlclinic guide` as text for people."""

import textwrap
from typing import TYPE_CHECKING, Final

from rlclinic.serve.cli.text.results import print_lines

if TYPE_CHECKING:
    from rlclinic.ops.diagnose.guides import GuideList, GuidePage

WIDTH: Final = 100


def print_guides(found: "GuideList") -> None:
    """Every question with its name."""
    print_lines([f"{place:>2}  {each.name:<18} {each.question}" for place, each in enumerate(found.guides, 1)])
    print_lines(["", f"the answer to one: rlclinic guide {found.guides[0].name}"])


def print_guide(page: "GuidePage") -> None:
    """One question: the answer, the steps, what to type, what cannot be told, where it is known from."""
    guide = page.guide
    lines = [guide.question, "", *textwrap.wrap(guide.answer, WIDTH)]
    for place, step in enumerate(guide.steps, 1):
        lines += textwrap.wrap(step, WIDTH, initial_indent=f"  {place}. ", subsequent_indent="     ")
    lines += ["", *(f"type      {command}" for command in guide.type)]
    lines += [f"page      {guide.page.text}"]
    lines += [f"NOT ASSESSABLE  {text}" for text in guide.cannot]
    lines += [f"source    {text}" for text in page.references]
    print_lines(lines)
