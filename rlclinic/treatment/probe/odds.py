"""How two close causes gain and lose by what an experiment shows."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from rlclinic.treatment.probe.models import Experiment

STRONG: Final = 6.0
"""How much likelier a cause becomes (or less likely) when its prediction clearly holds (or fails)."""
Odds = tuple[tuple[float, float], str, str]
"""Probabilities after, the cause that gained, and why."""


@cache
def listed(name: str) -> frozenset[str]:
    """Causes that an experiment is about: those in which data is too noisy ("noise"), those in which the critic fails ("critic")."""
    raw = json.loads((files("rlclinic.treatment.probe") / "probes.json").read_text("utf-8"))
    return frozenset(raw[name])


def likelihood(gain: float | None) -> float:
    """How much likelier a cause is, given what its cure gained: nothing is against it, a fifth of the way is for it."""
    return 1.0 if gain is None else speaks(gain / 0.2)


def speaks(share: float) -> float:
    """The factor of a prediction that holds by a share from 0 (it fails) to 1."""
    return float(STRONG ** (2 * min(max(share, 0.0), 1.0) - 1))


def updated(before: tuple[float, float], factors: Sequence[float]) -> tuple[float, float]:
    """Two probabilities after their evidence; together they keep the mass that they had."""
    total = sum(before)
    weights = [chance * factor for chance, factor in zip(before, factors, strict=True)]
    first, second = (total * weight / sum(weights) for weight in weights) if sum(weights) > 0 else before
    return round(first, 4), round(second, 4)


def of_a_kind(experiment: Experiment, kind: str, share: float, text: str) -> Odds:
    """What is seen by a share from 0 to 1 speaks for the one cause that is of this kind, and against the other."""
    named = tuple(cause in listed(kind) for cause in experiment.causes)
    if named[0] == named[1]:
        return experiment.before, "", f"{text}, which speaks for neither"
    factor = speaks(share)
    return odds(experiment, tuple(factor if each else 1 / factor for each in named), text)


def odds(experiment: Experiment, factors: Sequence[float], text: str) -> Odds:
    """The two causes after their factors."""
    after = updated(experiment.before, factors)
    rise = [new - old for new, old in zip(after, experiment.before, strict=True)]
    place = max(range(2), key=lambda index: rise[index])
    return after, experiment.causes[place] if rise[place] > 0.02 else "", text
