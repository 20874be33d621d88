"""Checks that look at something other than a run: settings, an environment, a script. What is known about each is a page of prose.

A family is a Markdown file beside the code that checks. `# COD101 name-of-the-fault` begins a page; then come `severity:` and
`cites:`, a first line that names the fault, "Why it hurts", "When it is fine" and "Fix"; checks of code add "Wrong" and "Right",
which are examples for readers and for tests alike.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from rlclinic.actions import Action
from rlclinic.diagnosis.findings import Severity
from rlclinic.errors import NotFound, nearest
from rlclinic.references import REFERENCES

_HEAD: Final = re.compile(r"^# ([A-Z]{3}\d{3}) ([a-z][a-z0-9-]+)$", flags=re.MULTILINE)
_SECTIONS: Final = ("Why it hurts", "When it is fine", "Fix")
_CODE: Final = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
_HERE: Final = Path(__file__).parent

FAMILIES: Final = {
    "SET": ("config/choices.md", "config/replay.md"),
    "ENV": ("env/spaces.md", "env/behaviour.md", "env/scales.md"),
    "COD": (
        "code/episodes.md", "code/storage.md", "code/policy.md", "code/losses.md", "code/updates.md", "code/targets.md",
        "code/exploration.md", "code/actors.md", "code/q_networks.md", "code/shapes.md", "code/evaluation.md", "code/vectors.md",
        "code/seeds.md",
    ),
}  # fmt: skip
"""Pages by the first letters of their ids. Rules about runs have ENV ids too, from ENV601 on."""


@dataclass(frozen=True)
class Check:
    """One check and what is known about it; the fields that a rule about runs has, too."""

    id: str
    name: str
    family: str
    severity: Severity
    """The most that its findings can weigh."""
    cites: tuple[str, ...]
    doc: str
    fix: str
    """What to do, in a line or two."""
    wrong: str = ""
    right: str = ""
    """A script that the check must find something in, and its twin that it must leave alone."""
    algos: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()

    @property
    def title(self) -> str:
        """The first line of its documentation."""
        return self.doc.splitlines()[0]

    @property
    def why(self) -> str:
        """Why it hurts, in a paragraph."""
        return " ".join(_section(self.doc, "Why it hurts").split())


@cache
def checks(kind: str = "") -> tuple[Check, ...]:
    """Every check by family and id; of one kind ("ENV", "COD"), or of all."""
    files = [file for each in ([kind] if kind else FAMILIES) for file in FAMILIES[each]]
    return tuple(each for file in files for each in read_pages(_HERE / file))


def read_pages(path: Path) -> list[Check]:
    """The checks that a file of pages describes; ValueError for a page that says too little."""
    parts = _HEAD.split(path.read_text(encoding="utf-8"))[1:]
    family = f"code: {path.stem}" if path.parent.name == "code" else path.stem
    return [_page(parts[place], parts[place + 1], parts[place + 2].strip(), family) for place in range(0, len(parts), 3)]


def _page(id: str, name: str, text: str, family: str) -> Check:
    head, _, doc = text.partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    cites = tuple(fields["cites"].split(", "))
    lacking = [section for section in _SECTIONS if f"## {section}" not in doc]
    unknown = [key for key in cites if key not in REFERENCES]
    if lacking or unknown:
        raise ValueError(f"check {id}: no section {lacking[0]!r}" if lacking else f"check {id}: no reference {unknown[0]!r}")
    wrong, right = (next(iter(_CODE.findall(_section(doc, section))), "") for section in ("Wrong", "Right"))
    fix = " ".join(_section(doc, "Fix").split())
    return Check(id, name, family, Severity(fields["severity"]), cites, doc, fix, wrong, right)


def _section(doc: str, title: str) -> str:
    return doc.partition(f"## {title}\n")[2].partition("\n## ")[0]


def find(id_or_name: str) -> Check:
    """A check by id or name; NotFound offers the nearest."""
    wanted = id_or_name.strip()
    everything = checks()
    for each in everything:
        if wanted.upper() == each.id or wanted.lower().replace("_", "-") == each.name:
            return each
    offered = nearest(wanted, [*(each.id for each in everything), *(each.name for each in everything)])
    raise NotFound(
        f"no check {wanted!r}" + (f"; nearest: {', '.join(offered)}" if offered else "") + ".\n  See all of them: ",
        Action("rules"),
    )


def selected(kind: str, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> list[Check]:
    """Checks of a kind whose id begins with one of `select` (all without it) and with none of `ignore`; NotFound for what fits nothing."""
    everything = checks(kind)
    for prefix in [*(select or ()), *(ignore or ())]:
        if not fits_any(everything, prefix):
            raise NotFound(f"no check of this kind begins with {prefix!r}.\n  See all of them: ", Action("rules"))
    kept = [each for each in everything if not select or any(_fits(each, prefix) for prefix in select)]
    return [each for each in kept if not any(_fits(each, prefix) for prefix in ignore or ())]


def fits_any(among: Iterable[Check], prefix: str) -> bool:
    """Whether a beginning of an id, or a name, means one of these checks."""
    return any(_fits(each, prefix) for each in among)


def _fits(each: Check, prefix: str) -> bool:
    return each.id.startswith(prefix.strip().upper()) or each.name == prefix.strip().lower()
