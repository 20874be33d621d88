"""Fourteen environments of a second guest, in other domains than those of the first (benchmarks.diagnosis.environments.visitors).

They are made, changed and played the same way; their mistakes, and the causes that are right for each, were written down by somebody who
had read nothing of what examines environments, before anything examined them. Half of them are open: their misses may be read and
learned from. The other half is sealed: only totals are ever printed of it, so that they tell what the open half has not taught.
"""

import importlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from benchmarks.diagnosis.environments import visitors
from benchmarks.diagnosis.environments.second_guest import open_slips, sealed_slips
from benchmarks.diagnosis.environments.second_guest.slip import Edits, Slip

__all__ = ["NAMES", "OPEN", "SEALED", "SLIPS", "VARIANTS", "Slip", "maker", "module", "slip", "threshold"]

OPEN: Final = ("crane", "warehouse", "crossing", "heating", "router", "quad", "shop")
SEALED: Final = ("dosing", "lights", "pairs", "junction", "vault", "lathe_shop", "orchard")
NAMES: Final = (*OPEN, *SEALED)

SLIPS: Final[dict[tuple[str, str], Slip]] = {**open_slips.SLIPS, **sealed_slips.SLIPS}
VARIANTS: Final[dict[tuple[str, str], Edits]] = {**open_slips.VARIANTS, **sealed_slips.VARIANTS}


@cache
def module(world: str, label: str = "") -> ModuleType:
    """The environment's file as it is, or with the change of that label made in its text."""
    name = f"{__name__}.{world}"
    if not label:
        return importlib.import_module(name)
    return visitors.changed(name, label, SLIPS[world, label].edits if (world, label) in SLIPS else VARIANTS[world, label])


def maker(world: str, label: str = "") -> Callable[[], Any]:
    """What makes the environment."""
    made: Callable[[], Any] = module(world, label).make
    return made


def slip(world: str, label: str) -> Slip | None:
    """The mistake of that label; None for what is sound."""
    return SLIPS.get((world, label))


@cache
def threshold(world: str, variant: str = "", episodes: int = 100) -> float:
    """What its author calls solved: four fifths of the way from random actions to the expert, in what is sound."""
    env = maker(world, variant)()
    env.action_space.seed(0)
    chance = float(np.mean(visitors.play(env, lambda _: env.action_space.sample(), episodes)))
    # A variant may show other units, which its own expert knows.
    best = float(np.mean(visitors.play(env, module(world, variant).expert, episodes)))
    return chance + 0.8 * (best - chance)
