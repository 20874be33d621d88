"""The registry of checks. A rule is a function: it looks at one run (or a group) and yields findings, or nothing.

Its docstring is its documentation: a first line that names the fault, "Why it hurts", "When it is fine". What it needs is
declared, so that a missing input is answered with "not assessable" and never with silence.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from rlclinic.actions import Action
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Evidence, Finding, Remedy, Severity
from rlclinic.errors import NotFound, nearest
from rlclinic.references import REFERENCES

Scope = Literal["run", "group"]
Check = Callable[[Any], Iterable[Finding]]

FAMILIES: Final = (
    "learning_rate", "batch", "policy", "value", "entropy", "gradients", "reward", "environment", "episodes", "normalization", "evaluation",
    "resume", "throughput", "budget", "folder",
    "replay", "q_values", "tables", "actors", "families",
)  # fmt: skip
ON_POLICY: Final = ("ppo", "a2c", "reinforce")
CONFIG: Final = "config:"
_ID: Final = re.compile(r"[A-Z]{3}\d{3}")


@dataclass(frozen=True)
class Rule:
    """One check and what is known about it."""

    id: str
    name: str
    family: str
    severity: Severity
    """The most that its findings can weigh."""
    scope: Scope
    algos: tuple[str, ...]
    """Empty: any algorithm."""
    needs: tuple[tuple[str, ...], ...]
    """Inputs without which it cannot judge; one of each tuple is enough."""
    cites: tuple[str, ...]
    certain: bool
    """An invariant: what it finds is wrong whether or not the run learned."""
    check: Check
    doc: str

    @property
    def title(self) -> str:
        """The first line of its documentation."""
        return self.doc.splitlines()[0]

    def missing(self, case: Case) -> list[str]:
        """What this run lacks for the check."""
        return [" or ".join(options) for options in self.needs if not any(_there(case, name) for name in options)]

    def applies(self, case: Case) -> bool:
        """Whether the check makes sense for this run: for its algorithm, and with what it needs not switched off (target_kl: none)."""
        off = any(len(options) == 1 and _is_off(case, options[0]) for options in self.needs)
        return not off and (not self.algos or case.history.algo is None or case.algo in self.algos)


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    *,
    severity: Severity,
    needs: Sequence[str | tuple[str, ...]] = (),
    algos: Sequence[str] = (),
    cites: Sequence[str] = (),
    scope: Scope = "run",
    certain: bool = False,
) -> Callable[[Check], Check]:
    """Register a check under an id that is never used again. `needs` are metric names and `config:<setting>`."""

    def register(check: Check) -> Check:
        doc = inspect.cleandoc(check.__doc__ or "")
        problem = _problem(id, doc, cites)
        if problem:
            raise ValueError(f"rule {id}: {problem}")
        wanted = tuple((need,) if isinstance(need, str) else tuple(need) for need in needs)
        family = check.__module__.rpartition(".")[2]
        name = check.__name__.replace("_", "-")
        _RULES[id] = Rule(id, name, family, severity, scope, tuple(algos), wanted, tuple(cites), certain, check, doc)
        return check

    return register


def _problem(id: str, doc: str, cites: Sequence[str]) -> str | None:
    if not _ID.fullmatch(id):
        return "an id is three capital letters and three digits"
    if id in _RULES:
        return "the id is taken"
    if "## Why it hurts" not in doc or "## When it is fine" not in doc:
        return 'the docstring needs "## Why it hurts" and "## When it is fine"'
    unknown = [key for key in cites if key not in REFERENCES]
    return f"no reference {unknown[0]!r} in the bibliography" if unknown else None


def _there(case: Case, name: str) -> bool:
    if name.startswith(CONFIG):
        return case.setting(name.removeprefix(CONFIG)) is not None
    if name == "threshold":
        return case.threshold is not None
    if name == "budget":
        return case.budget is not None
    return case.has(name)


def _is_off(case: Case, name: str) -> bool:
    key = name.removeprefix(CONFIG)
    return name.startswith(CONFIG) and key in case.history.settings and case.history.settings[key] is None


@cache
def _load() -> None:
    for family in FAMILIES:
        import_module(f"rlclinic.diagnosis.rules.{family}")


def rules() -> list[Rule]:
    """Every rule, by family and id."""
    _load()
    return sorted(_RULES.values(), key=lambda each: (FAMILIES.index(each.family), each.id))


def find(id_or_name: str) -> Rule:
    """A rule by id or name; NotFound offers the nearest."""
    _load()
    wanted = id_or_name.strip()
    for each in _RULES.values():
        if wanted.upper() == each.id or wanted.lower().replace("_", "-") == each.name:
            return each
    offered = nearest(wanted, [*_RULES, *(each.name for each in _RULES.values())])
    raise NotFound(
        f"no rule {wanted!r}" + (f"; nearest: {', '.join(offered)}" if offered else "") + ".\n  See all of them: ", Action("rules")
    )


def selected(select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> list[Rule]:
    """Rules whose id begins with one of `select` (all without it) and with none of `ignore`; NotFound for what fits nothing."""
    everything = rules()
    for prefix in [*(select or ()), *(ignore or ())]:
        if not any(_fits(each, prefix) for each in everything):
            raise NotFound(f"no rule begins with {prefix!r}.\n  See all of them: ", Action("rules"))
    kept = [each for each in everything if not select or any(_fits(each, prefix) for prefix in select)]
    return [each for each in kept if not any(_fits(each, prefix) for prefix in ignore or ())]


def fits_any(prefix: str) -> bool:
    """Whether a beginning of an id, or a name, means one of the rules."""
    return any(_fits(each, prefix) for each in rules())


def _fits(each: Rule, prefix: str) -> bool:
    return each.id.startswith(prefix.strip().upper()) or each.name == prefix.strip().lower()


# ── what rules write ──


def evidence(series: str, text: str, start: float | None = None, end: float | None = None, /, **numbers: float) -> Evidence:
    """Evidence with its numbers rounded to six digits: enough for anyone, and the same on every machine."""
    return Evidence(series=series, text=text, start=start, end=end, numbers={key: float(f"{value:.6g}") for key, value in numbers.items()})


def change(case: Case, setting: str, value: Any, text: str, effect: Any = "unknown", risk: str = "") -> Remedy:
    """A remedy that sets `setting` to `value`."""
    return Remedy(setting=setting, current=case.setting(setting), value=value, text=text, effect=effect, risk=risk)


def advice(text: str, effect: Any = "unknown", risk: str = "") -> Remedy:
    """A remedy that no setting can express."""
    return Remedy(text=text, effect=effect, risk=risk)


def told(reason: str, otherwise: str) -> Remedy:
    """What the error that ended a run says itself should be tried; `otherwise` where it says nothing."""
    _, said, rest = reason.partition("Try: ")
    return advice(rest.splitlines()[0].strip() if said and rest.strip() else otherwise, "> 30 %")


def say(value: float) -> str:
    """A number with three digits: 0.0113, 1.5e-5, 212, 104k."""
    if value != value:
        return "-"
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:.3g}M"
    if size >= 1e4:
        return f"{value / 1e3:.0f}k"
    if size >= 100:
        return f"{value:.0f}"
    if 0 < size < 1e-3:
        mantissa, exponent = f"{value:.2g}".split("e") if "e" in f"{value:.2g}" else (f"{value:.2g}", "0")
        return f"{mantissa}e{int(exponent)}" if exponent != "0" else mantissa
    return f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent: 55 %, 2.5 %, 0.03 %."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.2g} %"


def grade(value: float, weak: float, strong: float) -> float:
    """0 at `weak` or beyond, 1 at `strong` or beyond, in between in proportion; either may be the larger."""
    if value != value:
        return 0.0
    if strong == weak:
        return float(value >= strong)
    share = (value - weak) / (strong - weak)
    return min(max(share, 0.0), 1.0)


def decades(value: float) -> float:
    """log10, with anything at or below 1e-12 counted as that."""
    return math.log10(max(value, 1e-12)) if value == value else math.nan
