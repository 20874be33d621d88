"""The registry of checks. A rule is a function: it looks at one run (or a group) and yields findings, or nothing.

Its docstring is its documentation: a first line that names the fault, "Why it hurts", "When it is fine". What it needs is
declared, so that a missing input is answered with "not assessable" and never with silence.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final, Literal

from rlclinic import plugins
from rlclinic.actions import Action
from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.findings import Evidence, Finding, Kind, Remedy, Severity
from rlclinic.errors import NotFound, nearest
from rlclinic.references import REFERENCES
from rlclinic.runs.history import History

Scope = Literal["run", "group"]
Check = Callable[[Any], Iterable[Finding]]
Shown = Callable[[], History | Sequence[History]]
"""Makes a run, or the runs of a group, to put to a rule."""

FAMILIES: Final = (
    "learning_rate", "batch", "policy", "value", "entropy", "gradients", "reward", "success", "environment", "episodes", "normalization",
    "evaluation", "resume", "throughput", "budget", "folder",
    "replay", "q_values", "actors", "imitation", "offline", "ranks", "families",
)  # fmt: skip
ENTRY_POINTS: Final = "rlclinic.rules"
"""Each names a module of another package, whose rules and causes are registered when it is imported."""
ON_POLICY: Final = ("ppo", "a2c", "reinforce", "a3c", "impala", "appo")
ANY_ALGORITHM: Final = ("evaluation", "resume", "throughput", "budget", "folder")
"""Families whose rules look at returns, files and time only: they hold for an algorithm that no rule knows."""
OF_REWARDS: Final = frozenset({"reward-never-seen", "reward-gamed"})
"""Causes of other families that say what a reward has taught."""
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
    causes: tuple[str, ...] = ()
    """Causes that are considered where this rule finds something."""
    bad: Shown | None = None
    """Makes a run, or a group, that it must find something in."""
    good: tuple[Shown, ...] = ()
    """Make runs that look alike, and in which it must find nothing."""

    @property
    def title(self) -> str:
        """The first line of its documentation."""
        return self.doc.splitlines()[0]

    def missing(self, case: Case) -> list[str]:
        """What this run lacks for the check."""
        missing = [" or ".join(options) for options in self.needs if not any(_there(case, name) for name in options)]
        if not self.algos or case.history.algo is not None:
            return missing
        # A rule about certain algorithms judges a run of no name by quantities that only these log, never by returns and settings alone.
        tells = any(_tells_algorithm(name) for options in self.needs for name in options)
        return missing if tells else [*missing, f"{CONFIG}algo.name"]

    def applies(self, case: Case) -> bool:
        """Whether the check makes sense for this run: for its algorithm, and with what it needs not switched off (target_kl: none)."""
        if any(len(options) == 1 and _is_off(case, options[0]) for options in self.needs):
            return False
        if self.family == "ranks" and not case.has_ranks:
            return False
        # A reward that nothing is learned from is not what keeps a run from learning.
        if case.algo in columns.UNREWARDED and (self.family == "reward" or not OF_REWARDS.isdisjoint(self.causes)):
            return False
        if self.algos:
            return case.history.algo is None or case.algo in self.algos
        # What an unknown algorithm does between two rows nobody knows; sentinels are logged only where that was understood.
        known = case.knows_algorithm or self.family in ANY_ALGORITHM
        return known or any(name.startswith("train/sentinel/") for options in self.needs for name in options)


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
    causes: Sequence[str] = (),
    bad: Shown | None = None,
    good: Sequence[Shown] = (),
) -> Callable[[Check], Check]:
    """Register a check under an id that is never used again. `needs` are metric names and `config:<setting>`.

    `bad` makes a run or a group that it must find something in, `good` make those in which it must not (see rules/cases.py).
    """

    def register(check: Check) -> Check:
        doc = inspect.cleandoc(check.__doc__ or "")
        problem = _problem(id, doc, cites)
        if problem:
            raise ValueError(f"rule {id}: {problem}")
        wanted = tuple((need,) if isinstance(need, str) else tuple(need) for need in needs)
        family = check.__module__.rpartition(".")[2]
        name = check.__name__.replace("_", "-")
        _RULES[id] = Rule(
            id, name, family, severity, scope, tuple(algos), wanted, tuple(cites), certain, check, doc, tuple(causes), bad, tuple(good)
        )
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


def _tells_algorithm(name: str) -> bool:
    """Whether a column is one that only some algorithms have."""
    return name.startswith(("train/", "val/")) and not name.startswith(("train/roll/", "val/roll/", "train/metrics/grad_norm"))


def _is_off(case: Case, name: str) -> bool:
    key = name.removeprefix(CONFIG)
    return name.startswith(CONFIG) and key in case.history.settings and case.history.settings[key] is None


# ── causes ──


@dataclass(frozen=True)
class BugLocation:
    """Where a bug usually sits, as file, function and what to look at; how to see it, and what is right."""

    fix: str
    check: str
    """A line that fails where the bug is."""
    rlclinic: tuple[str, str, str]
    sb3: tuple[str, str, str]
    cleanrl: tuple[str, str, str]
    own: str
    """What to look at in a training script of any make."""


Find = Literal["settings", "environment", "log", "evaluation", "more seeds", "probe"]
"""What finds out whether a cause lies behind a symptom: a look at settings, at the environment, at what was not logged, at an evaluation
made anew, more seeds, or an experiment."""


@dataclass(frozen=True)
class Behind:
    """A cause that may lie behind a symptom: how often it does, what tells it from the others, and where to look."""

    cause: str
    share: float
    find: Find
    tells: str


@dataclass(frozen=True)
class KnownCause:
    """An explanation that findings can have, and what is done about it."""

    id: str
    title: str
    kind: Kind
    doses: tuple[str, ...] = ()
    """Names of doses (treatment/prescription/formulas), the most promising first; "one+other" is both at once."""
    advice: str = ""
    """What to do where no setting helps."""
    explains: frozenset[str] = frozenset()
    """Rules whose findings it brings about."""
    covers: frozenset[str] = frozenset()
    """Causes that it stands for where a log cannot tell them apart."""
    watch: tuple[Mapping[str, Any], ...] = ()
    """What should look otherwise next time."""
    bug: BugLocation | None = None
    behind: tuple[Behind, ...] = ()
    """Of a symptom: what may bring it about."""


_CAUSES: dict[str, KnownCause] = {}


def cause(
    id: str,
    title: str,
    kind: Kind,
    *,
    doses: Sequence[str] = (),
    advice: str = "",
    explains: str = "",
    covers: str = "",
    watch: Sequence[Mapping[str, Any]] = (),
    bug: BugLocation | None = None,
    behind: Sequence[tuple[str, float, Find, str]] = (),
) -> None:
    """Register a cause, beside the rules that are its key. `explains` and `covers` are ids with spaces between them.

    `behind` says of a symptom what may bring it about: id, share, where to find out, what tells it from the others.
    """
    if id in _CAUSES:
        raise ValueError(f"cause {id}: the id is taken")
    words = (frozenset(explains.split()), frozenset(covers.split()))
    _CAUSES[id] = KnownCause(id, title, kind, tuple(doses), advice, *words, tuple(watch), bug, tuple(Behind(*each) for each in behind))


def known_causes() -> dict[str, KnownCause]:
    """Every cause that rules can point to, by id."""
    _load()
    return dict(_CAUSES)


# ── what there is ──


@cache
def _load() -> None:
    for family in FAMILIES:
        import_module(f"rlclinic.diagnosis.rules.{family}")
    for entry in entry_points(group=ENTRY_POINTS):
        plugins.load(entry, "module of rules")
    for each in _RULES.values():
        undeclared = [id for id in each.causes if id not in _CAUSES]
        if undeclared:
            raise ValueError(f"rule {each.id}: no cause {undeclared[0]!r} is declared")
    for known in _CAUSES.values():
        wrong = [one.cause for one in known.behind if one.cause not in _CAUSES or _CAUSES[one.cause].kind == "symptom"]
        if wrong or (known.kind == "symptom") != bool(known.behind):
            problem = f"{wrong[0]!r} behind it is no cause" if wrong else "a symptom, and no other cause, says what may lie behind it"
            raise ValueError(f"cause {known.id}: {problem}")


def rules() -> list[Rule]:
    """Every rule, by family and id; those of other packages last."""
    _load()
    places = {family: place for place, family in enumerate(FAMILIES)}
    return sorted(_RULES.values(), key=lambda each: (places.get(each.family, len(places)), each.family, each.id))


def find(id_or_name: str) -> Rule:
    """A rule by id or name; NotFound offers the nearest."""
    _load()
    wanted = id_or_name.strip()
    for each in _RULES.values():
        if wanted.upper() == each.id or wanted.lower().replace("_", "-") == each.name:
            return each
    longer = [id for id in _RULES if wanted and id.startswith(wanted.upper())]
    offered = longer or nearest(wanted, [*_RULES, *(each.name for each in _RULES.values())])
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


def quote_advice(reason: str, otherwise: str) -> Remedy:
    """What the error that ended a run says itself should be tried; `otherwise` where it says nothing."""
    _, marker, rest = reason.partition("Try: ")
    return advice(rest.splitlines()[0].strip() if marker and rest.strip() else otherwise, "> 30 %")


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
