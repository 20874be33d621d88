"""The sets of planted faults: by whom, which half was open while checks were developed, which was sealed.

Each is a file of faults (SET.yaml; the first two are Python) in scripts of its own styles (scripts/). The first two name the checks that
may report a fault (mutants.FAULTS); of all others one is found if any check says something new on one of its lines. Where halves are by
the hash of their styles' names, they are by nobody's taste. Of a sealed half only totals are looked at, until its misses are read, too,
and it becomes development material; looks.json has every look.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from benchmarks.lint import mutants, second
from benchmarks.lint.mutants import Mutant
from rlclinic.diagnosis.lint import checks

SIX: Final = ("cleanrl", "spinningup", "tutorial", "agent", "sb3", "lightning")
"""The styles that most sets have: one file, Spinning Up, tutorial, agent class, Stable-Baselines3, Lightning."""


def by_hash(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Styles in the order of a hash of their names."""
    return tuple(sorted(names, key=lambda name: hashlib.sha256(f"{prefix}{name}".encode()).hexdigest()))


def at_texts(script: str, fault: str, right: str, wrong: str, texts: tuple[str, ...] = ()) -> Mutant:
    """Reported on the lines of some texts; where there are none, on the first line that was written in."""
    return Mutant(script, fault, right, wrong, tuple(texts))


def at_lines(script: str, fault: str, right: str, wrong: str, beside: tuple[tuple[int, ...], ...] = ()) -> Mutant:
    """Reported on all that was written in, and on some lines beside it."""
    return Mutant(script, fault, right, wrong, beside=tuple(beside[0]) if beside else ())


def beside_texts(script: str, fault: str, right: str, wrong: str, texts: tuple[str, ...] = ()) -> Mutant:
    """Reported on all that was written in, and on the lines of the texts that stand beside it."""
    mutant = Mutant(script, fault, right, wrong)
    lines = mutant.text.splitlines()
    return mutant._replace(beside=tuple(number for number, line in enumerate(lines, 1) if any(text in line for text in texts)))


def with_reason(script: str, fault: str, _why: str, right: str, wrong: str, texts: tuple[str, ...] = ()) -> Mutant:
    """The same; with each fault stands why somebody who reads nothing but the file can tell that it is one."""
    return beside_texts(script, fault, right, wrong, texts)


class FaultSet(NamedTuple):
    """Faults of one author."""

    name: str
    about: str
    read: Callable[..., Mutant] | tuple[Mutant, ...]
    """One entry of its file; or the faults themselves."""
    open: tuple[str, ...] = ()
    """Styles whose misses are read while checks are developed."""
    sealed: tuple[str, ...] = ()
    """The others; of a set that was read whole, those that had been sealed."""
    clean: tuple[str, ...] = ()
    """Scripts without faults, for false alarms alone."""
    was_read: bool = False
    """Whether the misses of the sealed half have been read, and it is development material."""
    words: tuple[str, str] | None = None
    """What rows call its halves, where that is older than the others' words."""

    @property
    def styles(self) -> tuple[str, ...]:
        return (*self.open, *self.sealed)

    @property
    def file(self) -> Path:
        return Path(__file__).parent / f"{self.name}.yaml"

    def entries(self) -> dict[str, list[list[Any]]]:
        """Its file: what stands there of each script."""
        loaded: dict[str, list[list[Any]]] = yaml.safe_load(self.file.read_text())
        return loaded

    def faults(self) -> tuple[Mutant, ...]:
        """The planted faults."""
        return _load(self.name)

    @property
    def halves(self) -> tuple[tuple[str, tuple[str, ...], bool], ...]:
        """What rows call each half, its styles, and whether its misses may be listed."""
        first, other = self.words or (f"{self.name} set, open", f"{self.name} set, sealed")
        return tuple(half for half in ((first, self.open, True), (other, self.sealed, self.was_read)) if half[1])


@cache
def _load(name: str) -> tuple[Mutant, ...]:
    wanted = SETS[name]
    if isinstance(wanted.read, tuple):
        return wanted.read
    return tuple(wanted.read(script, *entry) for script, entries in wanted.entries().items() for entry in entries)


def _halves(name: str) -> dict[str, Any]:
    """Three of the six styles open and three sealed, and clean scripts that look odd."""
    styles = tuple(f"{name}_{style}" for style in by_hash(f"{name} ", SIX))
    return {"open": styles[:3], "sealed": styles[3:], "clean": (f"{name}_clean",)}


_FOURTH: Final = by_hash(
    "fourth ",
    ("pure", "numeric", "lanes", "cells", "records", "tuples", "dictionaries", "streams", "systems", "oldgym", "quantiles", "jaxed",
     "shortcuts"),
)  # fmt: skip

SETS: Final = {
    each.name: each
    for each in (
        FaultSet(
            "first", "six styles, written before the checks were changed", mutants.MUTANTS,
            open=mutants.DEVELOPMENT, sealed=mutants.HELD_OUT, was_read=True, words=("development", "held-out"),
        ),
        FaultSet("second", "two styles of other hands", second.MUTANTS, sealed=second.STYLES, words=("", "second held-out")),
        FaultSet(
            "third", "six styles more, by an author who knew neither the checks nor other sets", at_texts,
            open=("notebook", "framework", "sb3user"), sealed=("functional", "homework", "vectorised"),
        ),
        FaultSet(
            "fourth", "thirteen styles by what people do with their data: records, dictionaries, closures, generators", at_texts,
            open=_FOURTH[:6], sealed=_FOURTH[6:], words=("fourth set, open", "fourth set, held-out"),
        ),
        FaultSet(
            "fifth", "by an author who had not seen the checks", at_lines,
            **_halves("fifth") | {"clean": ()}, was_read=True,
        ),
        FaultSet("sixth", "by an author who had read neither the checks nor their pages", beside_texts, **_halves("sixth"), was_read=True),
        FaultSet("seventh", "nor earlier sets' faults, nor what is said of the scripts", beside_texts, **_halves("seventh"), was_read=True),
        FaultSet("eighth", "likewise, yet another author", beside_texts, **_halves("eighth")),
        FaultSet("ninth", "likewise; of earlier sets' faults about twenty were known", with_reason, **_halves("ninth")),
        FaultSet(
            "tenth", "what a teacher sees every term, in about its real frequency; all of it open", with_reason,
            open=tuple(f"tenth_{style}" for style in SIX), clean=("tenth_clean",), words=("tenth set", ""),
        ),
        FaultSet(
            "eleventh", "the tenth's author, scripts and faults all new, sealed for one look", with_reason,
            open=("eleventh_agent", "eleventh_sb3", "eleventh_cleanrl"),
            sealed=("eleventh_spinningup", "eleventh_tutorial", "eleventh_lightning"), clean=("eleventh_clean",),
        ),
        FaultSet(
            "twelfth", "by an author who had read nothing of the checks and no earlier set; more than half classics", with_reason,
            open=("twelfth_sb3", "twelfth_tutorial", "twelfth_spinningup"),
            sealed=("twelfth_agent", "twelfth_cleanrl", "twelfth_lightning"), clean=("twelfth_clean",),
        ),
        FaultSet(
            "own", "by the checks' own authors: what people write most, in other voices; all of it open", at_texts,
            open=("own_single", "own_spinning", "own_tutorial", "own_agent", "own_sb3", "own_lightning"),
        ),
    )
}  # fmt: skip


def faults_of(styles: tuple[str, ...]) -> list[Mutant]:
    """What is planted in some styles, of whatever sets."""
    return [mutant for each in SETS.values() for mutant in each.faults() if mutant.style in styles]


def checks_for(mutant: Mutant) -> tuple[str, ...]:
    """Which checks may report a fault."""
    if mutant.style in (*SETS["first"].styles, *SETS["second"].styles):
        return mutants.FAULTS[mutant.fault]
    return tuple(each.id for each in checks.checks("COD"))
