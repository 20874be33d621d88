"""What the data speak against: common explanations whose checks were made and passed, each with the number that excludes it."""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, NamedTuple

import numpy as np

from rlclinic.diagnosis import columns
from rlclinic.diagnosis.case import Case
from rlclinic.diagnosis.columns import sentinel
from rlclinic.diagnosis.findings import RuledOut
from rlclinic.diagnosis.registry import percent, say
from rlclinic.diagnosis.signals import detect, measures

GOES_UP: Final = 0.5
"""Rank correlation of the return with time above which nobody would call it flat."""


class Exclusion(NamedTuple):
    """A common explanation, the rules that would have found it, and the sentence that excludes it (None: cannot be said)."""

    id: str
    title: str
    rules: frozenset[str]
    because: Callable[[Sequence[Case]], str | None]


def ruled_out(cases: Sequence[Case], rules_found: Set[str], named: Set[str]) -> Iterator[RuledOut]:
    """Explanations whose rules found nothing and which are not among the causes, with the reason."""
    if not any(case.sick for case in cases):
        return
    for each in _ALL:
        if each.rules & rules_found or each.id in named:
            continue
        because = each.because(cases)
        if because is not None:
            yield RuledOut(id=each.id, title=each.title, because=because)


def _middle(cases: Sequence[Case], name: str) -> float | None:
    """The median over runs of a series' median; None if no run has it."""
    known = [case.learning(name).median for case in cases if case.has(name)]
    return float(np.median(known)) if known else None


def _unlucky(cases: Sequence[Case]) -> str | None:
    sick = sum(case.sick for case in cases)
    return f"{sick} of {len(cases)} fail" if len(cases) >= 3 and sick > len(cases) / 2 else None


def _steps(cases: Sequence[Case]) -> str | None:
    returns = [case.signal(columns.RETURN) for case in cases if case.has(columns.RETURN)]
    # A handful of rows has no trend: that it was not seen to rise says nothing. Nor does the p-value of a running mean that goes up
    # almost row by row: it resembles itself so much that no rise of it would be certain.
    slopes = [detect.late_trend(each)[1] for each in returns if len(each.share(0.5)) >= detect.SHORTEST]
    return "the return does not rise any more" if slopes and not any(slope.rising or slope.tau > GOES_UP for slope in slopes) else None


def _step_size(cases: Sequence[Case]) -> str | None:
    sizes = [size for case in cases if (size := measures.step_size(case)) == size]
    return f"KL is {say(float(np.median(sizes)))} of a usual step" if sizes and 0.05 < np.median(sizes) < 1.2 else None


def _level(name: str, text: str, most: float) -> Callable[[Sequence[Case]], str | None]:
    def say_it(cases: Sequence[Case]) -> str | None:
        level = _middle(cases, sentinel(name))
        return text.format(say(level)) if level is not None and level <= most else None

    return say_it


def _entropy(cases: Sequence[Case]) -> str | None:
    # A normal distribution has no largest entropy: what is logged there is a share of the box's, and may be above 1.
    level = _middle([case for case in cases if not measures.is_continuous(case)], sentinel("entropy_relative"))
    return f"{percent(level)} of its maximum" if level is not None and 0.15 < level < 0.9 else None


def _critic(cases: Sequence[Case]) -> str | None:
    levels = [measures.explained(case).share(0.5).median for case in cases if len(measures.explained(case)) >= 3]
    return f"explained variance {say(float(np.median(levels)))}" if levels and np.median(levels) > 0.4 else None


_ALL: Final = tuple(
    Exclusion(id, title, frozenset(rules.split()), because)
    for id, title, rules, because in (
        ("unlucky-seed", "unlucky seed", "BUD103", _unlucky),
        ("budget-too-small", "too few steps", "BUD101 BUD102 BUD104 BAT101", _steps),
        ("learning-rate-too-high", "step size", "POL101 POL102 LRN103", _step_size),
        ("log-prob-mismatch", "log-probabilities", "POL106", _level("ratio_first_dev", "the ratio starts at 1", 1e-3)),
        (
            "final-observation-overwritten",
            "episode ends",
            "ENV607 ENV613",
            _level("next_obs_is_reset", "final observations are their own", 0.1),
        ),
        ("reward-scale-too-large", "reward scale", "REW502 REW503", _level("return_abs_p95", "targets within {}", 100.0)),
        ("observation-scale", "observation scale", "ENV603 NRM703", _level("obs_abs_max", "within {}", 12.0)),
        ("exploration-collapsed", "entropy", "ENT301 ENT302", _entropy),
        ("critic", "critic", "VAL201 VAL203 VAL206", _critic),
        ("dead-units", "dead units", "GRD404", _level("dormant_actor", "{} dormant", 0.2)),
    )
)
