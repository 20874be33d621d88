"""Checks that look at something other than a run: settings, an environment, a script.

A check is a function, and its docstring is its documentation, as for the rules about runs: a first line that names the fault, "Why it
hurts", "When it is fine" and "Fix"; checks of code add "Wrong" and "Right", which are examples for readers and for tests alike.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

from rlclinic.actions import Action
from rlclinic.diagnosis.findings import Severity
from rlclinic.errors import NotFound, nearest
from rlclinic.references import REFERENCES

Function = TypeVar("Function", bound=Callable[..., Any])
_SECTIONS: Final = ("Why it hurts", "When it is fine", "Fix")
_CODE: Final = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)

FAMILIES: Final = {
    "SET": ("config.choices", "config.replay"),
    "ENV": ("env.spaces", "env.behaviour", "env.scales", "env.transitions"),
    "COD": (
        "code.episodes", "code.storage", "code.policy", "code.losses", "code.updates", "code.targets", "code.exploration", "code.actors",
        "code.q_networks", "code.shapes", "code.evaluation", "code.environments.vectors", "code.seeds", "code.environments.tasks",
        "code.environments.wrappers", "code.libraries", "code.batches", "code.slips", "code.neglects", "code.transitions",
        "code.agreements", "code.idle",
    ),
}  # fmt: skip
"""Modules by the first letters of their checks' ids. Rules about runs have ENV ids too, from ENV601 on."""


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
    function: Callable[[Any], Any] = field(repr=False, kw_only=True)
    """Looks at settings, an environment's examination or a script."""
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


_CHECKS: dict[str, Check] = {}


def check(id: str, severity: Severity, cites: Sequence[str]) -> Callable[[Function], Function]:
    """Register a check under an id that is never used again; ValueError for one whose documentation says too little."""

    def register(function: Function) -> Function:
        doc = inspect.cleandoc(function.__doc__ or "")
        lacking = [section for section in _SECTIONS if f"## {section}" not in doc]
        unknown = [key for key in cites if key not in REFERENCES]
        if id in _CHECKS or lacking or unknown:
            problem = "the id is taken" if id in _CHECKS else f"no section {lacking[0]!r}" if lacking else f"no reference {unknown[0]!r}"
            raise ValueError(f"check {id}: {problem}")
        kind, *_, module = function.__module__.removeprefix(f"{__package__}.").split(".")
        wrong, right = (next(iter(_CODE.findall(_section(doc, section))), "") for section in ("Wrong", "Right"))
        _CHECKS[id] = Check(
            id=id,
            name=function.__name__.replace("_", "-"),
            family=f"code: {module}" if kind == "code" else module,
            severity=severity,
            cites=tuple(cites),
            doc=doc,
            fix=" ".join(_section(doc, "Fix").split()),
            wrong=wrong,
            right=right,
            function=function,
        )
        return function

    return register


@cache
def checks(kind: str = "") -> tuple[Check, ...]:
    """Every check by family and id; of one kind ("ENV", "COD"), or of all."""
    modules = [f"rlclinic.diagnosis.lint.{module}" for each in ([kind] if kind else FAMILIES) for module in FAMILIES[each]]
    for module in modules:
        import_module(module)
    wanted = [each for each in _CHECKS.values() if each.function.__module__ in modules]
    return tuple(sorted(wanted, key=lambda each: (modules.index(each.function.__module__), each.id)))


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
