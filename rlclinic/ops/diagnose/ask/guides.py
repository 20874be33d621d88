"""Questions that people bring, and what answers them here: what to type, what an agent calls, where on the page, and what cannot be
told. For those that no file can answer: the steps, in order, with where they are known from."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from rlclinic.config import yaml_text
from rlclinic.errors import NotFound
from rlclinic.references import cite
from rlclinic.report.guide import Guide, GuideList, GuidePage

FILE: Final = "guides.yaml"
_WORD: Final = re.compile(r"[a-z0-9]{3,}")
# Words that any question may have.
_EMPTY: Final = frozenset(
    _WORD.findall("the and for how what with should have use can just our are was not but after does get you too few")
)


def list_guides() -> GuideList:
    """The questions that have an answer here."""
    return GuideList(guides=list(_read()))


def get_guide(question: str) -> GuidePage:
    """The answer to a question: by its name, its number in the list, or words of it. NotFound lists what there is."""
    guide = _named(question) or _alike(question) or _understood(question)
    if guide is None:
        named = "\n".join(f"    {place:>2}  {each.name:<18} {each.question}" for place, each in enumerate(_read(), 1))
        raise NotFound(f"no guide for {question[:80]!r}.\n  It cannot be told which question is meant. There are:\n{named}")
    return GuidePage(guide=guide, references=[str(cite(key)) for key in guide.cites])


@cache
def _read() -> tuple[Guide, ...]:
    text = files("rlclinic.ops.diagnose.ask").joinpath(FILE).read_text(encoding="utf-8")
    return tuple(Guide(**entry) for entry in yaml_text.load(text, FILE))


def _named(text: str) -> Guide | None:
    wanted, known = text.strip().lower(), _read()
    if wanted.isdecimal() and 1 <= int(wanted) <= len(known):
        return known[int(wanted) - 1]
    matches = [each for each in known if each.name == wanted] or [each for each in known if wanted and each.name.startswith(wanted)]
    return matches[0] if len(matches) == 1 else None


def _alike(text: str) -> Guide | None:
    """The question that shares most words with a text; None where two share as many, or none does."""
    wanted = _words(text)
    scored = sorted(((len(wanted & _words(f"{each.name} {each.question}")), each.name) for each in _read()), reverse=True)
    (best, name), (second, _) = scored[0], scored[1]
    return _named(name) if best > second else None


def _understood(text: str) -> Guide | None:
    """The question that a text means in other words; None where nothing fits."""
    from rlclinic.ops.diagnose.ask.search import search  # which reads the guides

    matches = search(text)
    return _named(matches[0].document.name) if matches and matches[0].document.kind == "guide" else None


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower().replace("-", " "))) - _EMPTY
